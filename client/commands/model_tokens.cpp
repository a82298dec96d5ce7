#include "client/commands/model_tokens.hpp"

#include <memory>

#include "engine/core/gguf/file.hpp"

namespace millrace::client {

Result<engine::Tokenizer> load_tokenizer(const std::string& model_path) {
  MILLRACE_ASSIGN(const engine::GgufFile file, engine::GgufFile::open(model_path));
  return engine::Tokenizer::load(file.metadata());
}

std::function<std::optional<std::string>(TokenId)> lazy_token_bytes(const std::string& model_path) {
  struct State {
    bool tried = false;
    std::optional<engine::Tokenizer> tokenizer;
  };
  auto state = std::make_shared<State>();
  return [state, model_path](TokenId id) -> std::optional<std::string> {
    if (!state->tried) {
      state->tried = true;
      if (auto loaded = load_tokenizer(model_path)) {
        state->tokenizer.emplace(std::move(*loaded));
      }
    }
    if (!state->tokenizer || id >= state->tokenizer->vocabulary_size()) {
      return std::nullopt;
    }
    return std::string(state->tokenizer->token_bytes(id));
  };
}

}  // namespace millrace::client
