#pragma once
// The asynchronous ledger: a thread that owns a ledger, with an inbox, group commit and an outbox.
//
//   post(token, operation) ─▶ inbox ─▶ [ up to commit_operations, or what came within
//   commit_wait_us of the first ] ─▶ one apply ─▶ outbox ─▶ wake() ─▶ take()
//
// A completion appears in the outbox only after the commit that holds it. Completions of one commit
// keep the order of posting. Stream reads (ReadStream) are not part of commits: they are served in
// small slices between them, so that a long read does not delay commits. They may therefore
// complete later than operations posted after them.
//
// While the ledger is unavailable (ledger.hpp), the thread tries the same batch again, with growing
// pauses; what is posted meanwhile waits. If the ledger fails otherwise, the operations of that
// commit and all later ones complete with that error, `failure` returns it, and nothing more is
// written: the process must stop and recover. Thread safety: post, take, statistics, failure and
// stop may be called from any thread; `wake` runs on the ledger's thread, without locks held.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

struct LedgerThreadOptions {
  std::uint32_t commit_operations = limits::group_commit_operations;
  std::uint64_t commit_bytes =
      16 * limits::MiB;  // of bodies; a commit holds at least one operation
  std::uint32_t commit_wait_us = limits::group_commit_wait_us;
  std::uint32_t inbox_operations = 100'000;       // beyond it post fails (overloaded)
  std::uint64_t inbox_bytes = 256 * limits::MiB;  // of bodies in the inbox; likewise
  // Bytes of entries that were read and not yet taken; beyond this limit, reads of streams wait.
  std::uint64_t outbox_bytes = 64 * limits::MiB;
  std::uint64_t read_slice_bytes = 256 * limits::KiB;
  // Pauses between two tries while the ledger is unavailable: the first one, and the longest.
  std::uint32_t retry_ms = 10, retry_most_ms = 1000;
  std::uint32_t retries_at_stop = 5;          // once stopped, it gives up after so many tries
  std::uint32_t idle_ms = 200;                // after so long without work: housekeeping
  std::function<std::int64_t()> now_us = {};  // Unix time; empty: the system's clock
};

struct Completion {
  std::uint64_t token = 0;
  Result<Reply> reply;
};

// Counts latencies in four buckets for each power of two, so that a quantile is at most a quarter
// too high.
struct LatencyHistogram {
  std::array<std::uint64_t, 160> buckets{};
  std::uint64_t count = 0, sum_us = 0, max_us = 0;
  void add(std::uint64_t us);
  std::uint64_t quantile_us(double q) const;  // upper edge of the bucket that holds it
};

struct LedgerStatistics {
  std::uint64_t commits = 0;     // calls of apply that may have written
  std::uint64_t operations = 0;  // carried out, stream reads included
  std::uint64_t reads = 0;       // slices of stream reads
  std::uint64_t retries = 0;     // calls of apply that found the ledger unavailable
  LatencyHistogram commit;       // duration of one apply
  LatencyHistogram wait;         // from post to completion, without stream reads
  std::uint32_t waiting = 0;     // in the inbox now
};

class LedgerThread {
 public:
  LedgerThread(std::unique_ptr<Ledger> ledger, std::function<void()> wake,
               LedgerThreadOptions options = {});
  ~LedgerThread();  // stops
  LedgerThread(const LedgerThread&) = delete;
  LedgerThread& operator=(const LedgerThread&) = delete;

  // Errors: overloaded (the inbox is full), draining (stopped), or the ledger's failure.
  Status post(std::uint64_t token, Operation operation);
  // Accepts all operations or none; if none, `operations` is unchanged. Each operation gets a
  // completion with this token, in order; several commits may hold them.
  Status post(std::uint64_t token, std::vector<Operation>&& operations);
  std::vector<Completion> take();  // the completions since the last call

  // Carries out all posted operations, then ends the thread; idempotent. An unavailable ledger
  // becomes a failure after a few tries.
  void stop();
  std::optional<Error> failure() const;
  LedgerStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
