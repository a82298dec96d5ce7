#pragma once
// A client's secret key as a token for HTTP: "sk-" and 64 hex digits, which say the same as the
// secret half of its key file. Whoever has the token acts in the key's name.
// No error shows a token. Thread safety: pure functions.
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace {

// Errors: usage, where the pair has no usable secret.
Result<std::string> token_of(const KeyPair& key);
// The pair of this token, without the broker's key. Errors: unauthorized, where it is no token.
Result<KeyPair> key_of_token(std::string_view token);

}  // namespace millrace
