#pragma once
// The checksum that a body is stored with. It is seeded with the body's place, so that a body in
// another's place is noticed, too. Thread safety: pure functions.
#include <cstdint>
#include <string_view>

#include "schemas/base/hash.hpp"

namespace millrace::broker {

inline std::int64_t checksum(std::string_view body, std::uint64_t place) {
  return static_cast<std::int64_t>(hash64(body, place));
}

}  // namespace millrace::broker
