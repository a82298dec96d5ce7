#pragma once
// The validating visitor walks untrusted msgpack bytes once, before anything is decoded. It
// allocates nothing except the text of an error. It accepts exactly one whole object within its
// bounds of depth and size: maps have string keys, each once; strings are UTF-8; counts fit the
// remaining bytes; there are no extensions. Time is linear in the bytes.
// Errors: malformed_frame, invalid_utf8, limit_exceeded, too_large, with the offset of the fault.
// Thread safety: pure functions.
#include <cstdint>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/base/limits.hpp"

namespace millrace {

struct Bounds {
  std::uint64_t bytes = limits::frame_bytes;
  std::uint32_t depth = limits::message_depth;  // nested arrays and maps, at most message_depth
  std::uint32_t nodes = limits::message_nodes;
  // Of the jobs and results in a message, only that they are whole: whoever uses one validates it
  // by itself, so that a bad one spoils no other.
  bool bodies_apart = false;
};
inline constexpr Bounds frame_bounds{.bodies_apart = true};
inline constexpr Bounds job_bounds{limits::job_bytes, limits::job_depth, limits::body_nodes};
// A GenerationResult as an engine sends it. The published result puts it one level deeper.
inline constexpr Bounds result_bounds{limits::result_bytes, limits::body_depth - 1,
                                      limits::body_nodes};
// A JobResult as the broker publishes it, and streams hold it.
inline constexpr Bounds published_bounds{limits::published_bytes, limits::body_depth,
                                         limits::body_nodes + limits::facts_nodes};

Status validate(std::string_view bytes, const Bounds& bounds);

}  // namespace millrace
