#pragma once
// For the codec alone: the fields of a job that end its text or take it apart and that are more
// than one msgpack object. Keys that nobody knows are named in `unknown`.
// Errors: invalid_value, missing_field, limit_exceeded, by the field's path. Thread safety: none; a
// Reader has one owner.
#include <string>
#include <vector>

#include "schemas/unpack.hpp"

namespace millrace {

// "none", "auto", or an array of {part, open, close}.
Status read_markers(wire::Reader& in, const wire::Path& path, MarkerRequest& out,
                    std::vector<std::string>& unknown);
Status read_repetition_detection(wire::Reader& in, const wire::Path& path, RepetitionDetection& out,
                                 std::vector<std::string>& unknown);

}  // namespace millrace
