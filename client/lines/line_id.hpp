#pragma once
// The id of an input line's job is the line's number and hash: "17-00c0ffee00c0ffee", and where the
// failed lines of the run were run again after that a count: "17-00c0ffee00c0ffee.2". In the ledger
// and at the start of each output line it tells which input line a result answers.
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::client {

struct LineId {
  std::uint64_t number = 0;
  std::uint64_t hash = 0;
  std::uint32_t retry = 0;  // see Manifest::retries
  friend bool operator==(const LineId&, const LineId&) = default;
};

std::string line_id(std::uint64_t number, std::uint64_t hash, std::uint32_t retry = 0);
std::optional<LineId> parse_line_id(std::string_view id);

}  // namespace millrace::client
