#pragma once
// For the codec alone: the values inside a job that are more than one msgpack object (token ids,
// prompts, chats), and those of fields that are known and not supported.
// Errors: invalid_value, missing_field, unsupported_field, limit_exceeded, by the field's path.
// Thread safety: none; a Reader has one owner.
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/job.hpp"
#include "schemas/unpack.hpp"

namespace millrace {

std::unexpected<Error> unsupported(const std::string& where, std::string_view accepted);
// Whether a value of a field that is not supported changes nothing. Passes over the value.
bool neutral(wire::Reader& in, std::uint32_t allowed);

// Bin of uint32, or an array of whole numbers.
Status read_token_ids(wire::Reader& in, const wire::Path& path, Tokens& out);
// A text, token ids, or an array that holds just one of these.
Status read_prompt(wire::Reader& in, const wire::Path& path, Prompt& out);
// Names of fields nobody knows are added to `unknown`.
Status read_messages(wire::Reader& in, const wire::Path& path, Chat& out,
                     std::vector<std::string>& unknown);

}  // namespace millrace
