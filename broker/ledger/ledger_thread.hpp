#pragma once
// The asynchronous ledger: threads that own handles on one ledger, with an inbox, group commit and
// an outbox. With several handles as many batches are in flight at a time.
//
//   post(token, operation) ─▶ inbox ─▶ [ up to commit_operations, or what came within a part of the
//   last commit's time ] ─▶ one apply ─▶ outbox ─▶ wake() ─▶ take()
//
// A completion appears in the outbox only after the commit that holds it. Completions of one commit
// keep the order of posting; which operations of several batches keep theirs, ledger_inbox.hpp
// says. Stream reads (ReadStream) are not part of commits: they are served in small slices between
// them, so that a long read does not delay commits. They may therefore complete later than
// operations posted after them.
//
// While the ledger is unavailable (ledger.hpp), a thread tries the same batch again, with growing
// pauses; what is posted meanwhile waits. If the ledger fails otherwise, the operations of that
// commit and all later ones complete with that error, `failure` returns it, and nothing more is
// written: the process must stop and recover. Thread safety: post, take, statistics, failure and
// stop may be called from any thread; `wake` runs on a ledger's thread, without locks held.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "broker/ledger/latency_histogram.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

struct LedgerThreadOptions {
  std::uint32_t commit_operations = limits::group_commit_operations;
  std::uint64_t commit_bytes =
      16 * limits::MiB;  // of bodies; a commit holds at least one operation
  // How long a commit may wait for more operations: so much of the time that the last one took,
  // because a longer wait costs more than the commit that it saves, but at most commit_wait_us.
  std::uint32_t commit_wait_percent = 50;
  std::uint32_t commit_wait_us = limits::group_commit_wait_us;
  std::uint32_t inbox_operations = 100'000;       // beyond it post fails (overloaded)
  std::uint64_t inbox_bytes = 256 * limits::MiB;  // of bodies in the inbox; likewise
  // Bytes of entries that were read and not yet taken; beyond this limit, reads of streams wait.
  std::uint64_t outbox_bytes = 64 * limits::MiB;
  std::uint64_t read_slice_bytes = 256 * limits::KiB;
  // Pauses between two tries while the ledger is unavailable: the first one, and the longest.
  std::uint32_t retry_ms = 10, retry_most_ms = 1000;
  std::uint32_t retries_at_stop = 5;          // after so many tries it gives up, once it may
  std::uint32_t idle_ms = 200;                // after so long without work: housekeeping
  std::function<std::int64_t()> now_us = {};  // Unix time; empty: the system's clock
};

struct Completion {
  std::uint64_t token = 0;
  std::uint32_t place = 0;  // of the operation in its post
  Result<Reply> reply;
};

struct LedgerStatistics {
  std::uint64_t commits = 0;     // calls of apply that may have written
  std::uint64_t operations = 0;  // carried out, stream reads included
  std::uint64_t reads = 0;       // slices of stream reads
  std::uint64_t retries = 0;     // calls of apply that found the ledger unavailable
  LatencyHistogram commit;       // duration of one apply
  LatencyHistogram sync;         // of these, the disk's sync
  LatencyHistogram batch;        // operations of one apply, in place of microseconds
  LatencyHistogram wait;         // from post to completion, without stream reads
  std::uint32_t waiting = 0;     // in the inbox now
};

class LedgerThread {
 public:
  LedgerThread(std::vector<std::unique_ptr<Ledger>> handles, std::function<void()> wake,
               LedgerThreadOptions options = {});
  LedgerThread(std::unique_ptr<Ledger> ledger, std::function<void()> wake,
               LedgerThreadOptions options = {});
  ~LedgerThread();  // stops
  LedgerThread(const LedgerThread&) = delete;
  LedgerThread& operator=(const LedgerThread&) = delete;

  // Errors: overloaded (the inbox is full), draining (stopped), or the ledger's failure.
  Status post(std::uint64_t token, Operation operation);
  // Accepts all operations or none; if none, `operations` is unchanged. Each operation gets a
  // completion with this token; several commits may hold them.
  Status post(std::uint64_t token, std::vector<Operation>&& operations);
  std::vector<Completion> take();  // the completions since the last call

  // Carries out all posted operations, then ends the threads; idempotent. An unavailable ledger
  // becomes a failure after a few tries.
  void stop();
  // From now on an unavailable ledger becomes a failure after a few tries: nobody wants to wait any
  // longer until it answers, nor for one that says nothing for limits::ledger_silence_ms. One that
  // answers is still waited for, however slow it is; idempotent.
  void give_up_soon();
  std::optional<Error> failure() const;
  LedgerStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
