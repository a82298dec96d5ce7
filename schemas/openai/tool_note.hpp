#pragma once
// What a job's note (tools_key) says of the tools that its model was shown. Many results are
// written where the request is not known any more: in batch files, by `run` and by `results`. The
// note has what their calls are read with: each tool's name, and which of its arguments are texts.
// Who makes the job writes it (request_json.hpp). Thread safety: pure functions.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/json_value.hpp"

namespace millrace::openai {

inline constexpr std::size_t most_tools_note_bytes = 8192;
// The note where more would be needed: there were tools, and nobody knows which.
inline constexpr std::string_view unnamed_tools = "shown";

// The tools of a note, as far as they stand in it; none where it names no tools.
std::optional<JsonList> tools_of_note(std::string_view note);

}  // namespace millrace::openai
