#pragma once
// The tokenizer of a model file, for commands that turn text into ids or ids into text.
// Errors: those of open_model and Tokenizer::load. Thread safety: as the tokenizer.
#include <functional>
#include <optional>
#include <string>

#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::client {

Result<engine::Tokenizer> load_tokenizer(const std::string& model_path);

// Returns the bytes of a token, or nothing for ids outside the vocabulary.
using TokenBytes = std::function<std::optional<std::string>(TokenId)>;
Result<TokenBytes> load_token_bytes(const std::string& model_path);
// The same, but loads the tokenizer at the first call, for callers whose engine refuses a wrong
// file anyway. Returns nothing for every id if the file has no tokenizer.
TokenBytes lazy_token_bytes(const std::string& model_path);

}  // namespace millrace::client
