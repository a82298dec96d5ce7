#pragma once
// The copying of a ledger while it works. Thread safety: plain values.
#include <cstdint>
#include <string>

namespace millrace::broker {

// Copies a few pages of the ledger to the backup `name`, and begins it with the first call. Call it
// until it is done; what changes meanwhile is copied too. The copy is the ledger as it is at the
// last call. It appears under its name then, and is on disk. After an error the next call begins
// anew. `cancel` drops what was copied.
// Refused: usage (the name is none, or the store makes no backups), conflict (there is a backup of
// this name, or another one is under way), disk_full, io_error.
struct BackUp {
  std::string name;
  bool cancel = false;
};
struct BackUpReply {
  std::string folder;
  std::uint64_t bytes = 0, copied = 0;
  bool done = false;
};

}  // namespace millrace::broker
