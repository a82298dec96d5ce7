#pragma once
// Records how much of the output is known to be on disk: the stream's number up to which every
// result has its output line, and the output's size at that point. A run writes it after it has
// synced the output and before the ledger's cursor moves, so the record never runs ahead of the
// file.
// Errors: io_error, ledger_corrupt. Thread safety: plain values.
#include <cstdint>
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::client {

struct Checkpoint {
  std::string epoch;  // of the stream; empty before the first result
  std::uint64_t number = 0;
  std::uint64_t output_bytes = 0;
  std::uint64_t errors_bytes = 0;  // of the file of errors, if there is one
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

Status save_checkpoint(Env& env, const std::string& path, const Checkpoint& checkpoint);
// Returns an empty checkpoint if the file does not exist.
Result<Checkpoint> load_checkpoint(Env& env, const std::string& path);

}  // namespace millrace::client
