#include "client/commands/model_tokens.hpp"

#include <memory>

#include "engine/core/hub/open_model.hpp"

namespace millrace::client {

Result<engine::Tokenizer> load_tokenizer(const std::string& model_path) {
  MILLRACE_ASSIGN(const engine::GgufFile file, engine::open_model(model_path));
  return engine::Tokenizer::load(file.metadata());
}

Result<TokenBytes> load_token_bytes(const std::string& model_path) {
  MILLRACE_ASSIGN(auto loaded, load_tokenizer(model_path));
  const auto tokenizer = std::make_shared<const engine::Tokenizer>(std::move(loaded));
  return [tokenizer](TokenId id) -> std::optional<std::string> {
    if (id >= tokenizer->vocabulary_size()) {
      return std::nullopt;
    }
    return std::string(tokenizer->token_bytes(id));
  };
}

TokenBytes lazy_token_bytes(const std::string& model_path) {
  const auto bytes = std::make_shared<TokenBytes>();
  return [bytes, model_path](TokenId id) {
    if (!*bytes) {
      const TokenBytes none = [](TokenId) { return std::optional<std::string>(); };
      *bytes = load_token_bytes(model_path).value_or(none);
    }
    return (*bytes)(id);
  };
}

}  // namespace millrace::client
