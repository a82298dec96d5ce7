#pragma once
// The operations of the ledger on batches. A batch exists from its first job until its last one is
// forgotten. It finishes when it is closed and all its jobs have ended: in the same transaction an
// entry is appended to the stream `batches`, exactly once. A retry of its jobs takes the end back,
// and the next end has another entry. ledger.hpp says what holds for all operations. Thread safety:
// plain values.
#include <cstdint>
#include <string>

#include "schemas/messages.hpp"

namespace millrace::broker {

// Lists one batch (refused: not_found) or those whose names come after `after`, in order. Looks at
// `looked_batches` at most, so that the answer may have fewer batches, or none, and `more`. The
// rates of the answer are not set.
inline constexpr std::uint64_t looked_batches = 2'500;
struct ListBatches {
  std::string tenant;
  BatchesRequest wanted;
  std::uint32_t max_batches = limits::listed_jobs;
};
struct ListBatchesReply {
  BatchesAnswer answer;
};

// Refused: not_found; limit_exceeded (more metadata than a job may have).
struct UpdateBatch {
  std::string tenant;
  ChangeBatch change;
};
struct UpdateBatchReply {
  BatchState batch;
  std::uint64_t written = 0;  // number of the entry that this operation appended; 0: none
  std::string epoch;
};

}  // namespace millrace::broker
