#pragma once
// Reads a body with its checksum. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string_view>

#include "broker/ledger/body_checksum.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// The body in a row whose columns `column` and the next hold checksum and body; none where it is
// damaged or missing.
inline std::optional<Body> sound_body(const Statement& row, int column, std::uint64_t place) {
  if (row.null(column)) return std::nullopt;
  const std::string_view body = row.bytes(column + 1);
  if (checksum(body, place) != row.integer(column)) return std::nullopt;
  return Body(body);
}

}  // namespace millrace::broker
