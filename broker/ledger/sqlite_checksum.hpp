#pragma once
// The checksum that a body is stored with. It is seeded with the body's place, so that a body in
// another's place is noticed, too. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string_view>

#include "broker/ledger/sqlite_database.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

inline std::int64_t checksum(std::string_view body, std::uint64_t place) {
  return static_cast<std::int64_t>(hash64(body, place));
}

// The body in a row whose columns `column` and the next hold checksum and body; none where it is
// damaged or missing.
inline std::optional<Body> sound_body(const Statement& row, int column, std::uint64_t place) {
  if (row.null(column)) return std::nullopt;
  const std::string_view body = row.bytes(column + 1);
  if (checksum(body, place) != row.integer(column)) return std::nullopt;
  return Body(body);
}

}  // namespace millrace::broker
