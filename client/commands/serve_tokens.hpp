#pragma once
// `/tokenize` and `/detokenize` of a server that runs beside its model, in the shapes of vLLM
// (`prompt`) and llama-server (`content`), and vLLM's `/tokenizer_info`, with which
// lm-evaluation-harness needs no tokenizer of its own.
// Errors: those of open_model and Tokenizer::load. Thread safety: as Routes.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/tokenizer/tokenizer.hpp"
#include "http/routes.hpp"
#include "schemas/base/error.hpp"

namespace millrace::client {

// What a model file says of texts.
struct ServedTexts {
  engine::Tokenizer tokenizer;
  std::string chat_template;         // empty: it has none
  std::uint64_t context_tokens = 0;  // that the model was made for; 0: it does not say
};
Result<std::shared_ptr<const ServedTexts>> load_texts(const std::string& model_path);

void add_token_routes(http::Routes& routes, std::shared_ptr<const ServedTexts> texts);

}  // namespace millrace::client
