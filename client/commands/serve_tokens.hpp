#pragma once
// `/tokenize` and `/detokenize` of a server that runs beside its model, in the shapes of vLLM
// (`prompt`) and llama-server (`content`). Thread safety: as Routes.
#include <memory>

#include "engine/core/tokenizer/tokenizer.hpp"
#include "http/routes.hpp"

namespace millrace::client {

void add_token_routes(http::Routes& routes, std::shared_ptr<const engine::Tokenizer> tokenizer);

}  // namespace millrace::client
