#pragma once
// The wording that check_sampling.hpp and check_stops.hpp share: sizes of lists and texts. Errors
// name the field, what was given and the limit. Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace {

// "stop[3]"
std::string item_name(std::string_view field, std::size_t index);

// Errors: limit_exceeded. `unit` is what is counted, "ids".
Status check_size(std::string_view field, std::uint64_t count, std::string_view unit,
                  std::uint64_t limit);
// Errors: invalid_value where it is empty, limit_exceeded, invalid_utf8.
Status check_text(const std::string& field, const std::string& text, std::uint64_t most_bytes,
                  const char* if_empty = "leave it out");
// The same for a list of at most `most` texts, and for one of lists of tokens, none of them empty.
Status check_texts(std::string_view field, const std::vector<std::string>& texts,
                   std::uint64_t most, std::uint64_t most_bytes);
Status check_sequences(std::string_view field, const std::vector<Tokens>& sequences,
                       std::uint64_t most, std::uint64_t most_tokens);

}  // namespace millrace
