#pragma once
// The asynchronous form of a ledger: a thread that owns it, an inbox, group commit, an outbox.
//
//   post(token, operation) ─▶ inbox ─▶ [ up to commit_operations, or what came within
//   commit_wait_us of the first ] ─▶ one apply ─▶ outbox ─▶ wake() ─▶ take()
//
// A completion appears in the outbox only after the commit that holds it. Completions of one commit
// keep the order of posting. Stream reads (ReadStream) do not take part in commits: they are served
// in small slices between them, so that a long replay does not show in the commit latency; they may
// therefore complete later than operations posted after them.
//
// If the ledger fails, the operations of that commit and all later ones complete with that error,
// `failure` tells it, and nothing is written any more: the process must stop and recover.
// Thread safety: post, take, statistics, failure and stop from any thread; `wake` is called on the
// ledger's thread, without locks held.
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
  std::uint32_t inbox_operations = 100'000;       // beyond: post is refused (overloaded)
  std::uint64_t inbox_bytes = 256 * limits::MiB;  // of bodies waiting in the inbox
  // Of entries read and not yet taken; beyond, stream reads wait.
  std::uint64_t outbox_bytes = 64 * limits::MiB;
  std::uint64_t read_slice_bytes = 256 * limits::KiB;
  std::uint32_t idle_ms = 200;                // quiet for so long: housekeeping
  std::function<std::int64_t()> now_us = {};  // Unix time; empty: the system's clock
};

struct Completion {
  std::uint64_t token = 0;
  Result<Reply> reply;
};

// Latencies in buckets that grow by a quarter of each power of two: a quantile is at most a quarter
// too high.
struct LatencyHistogram {
  std::array<std::uint64_t, 160> buckets{};
  std::uint64_t count = 0, sum_us = 0, max_us = 0;
  void add(std::uint64_t us);
  std::uint64_t quantile_us(double q) const;  // upper edge of the bucket that holds it
};

struct LedgerStatistics {
  std::uint64_t commits = 0;     // applies that may have written
  std::uint64_t operations = 0;  // carried out, stream reads included
  std::uint64_t reads = 0;       // slices of stream reads
  LatencyHistogram commit;       // duration of one apply
  LatencyHistogram wait;         // from post to completion, stream reads left out
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
  // All are accepted, or none: then `operations` are as they were. One completion an operation, in
  // order, all with this token; they may be spread over several commits.
  Status post(std::uint64_t token, std::vector<Operation>&& operations);
  std::vector<Completion> take();  // what has completed since the last call

  void stop();  // carries out what was posted, then ends the thread; idempotent
  std::optional<Error> failure() const;
  LedgerStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
