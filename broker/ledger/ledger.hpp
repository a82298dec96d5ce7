#pragma once
// The ledger stores jobs, leases, results, streams and batches. Each operation is a transaction
// that depends on the state it finds and on the lease it names; `apply` carries out many in one
// durable commit (group commit) and answers each, in order. An operation that is refused changes
// nothing and does not affect the others.
//
// Every key starts with the tenant. Streams number their entries from 1 without gaps; a job's end,
// its result and the stream's next number are written together. All streams of one ledger share its
// epoch, a random id made when the ledger was created.
//
// When a job ends, the ledger calls the `publish` function that it was opened with. It builds the
// published result from the job's row and the outcome, inside the transaction that ends the job. An
// engine's result is bytes to the ledger. Some operations end jobs themselves: jobs cancelled in
// the queue, past their deadline, out of attempts, or damaged on disk.
//
// Errors: the reply of an operation holds its refusal; the codes are named with each operation
// below. If `apply` itself fails, `may_try_again` tells two classes apart. After ledger_unavailable
// (a lost connection, a serialization failure) the caller tries the same batch again, later. After
// any other error (I/O, fsync, corruption) nothing is known about the batch: the process must stop
// and recover from disk. A full disk is no such failure: submits and appends are refused
// (disk_full) while results still commit with the space of the ballast; when that is used up as
// well, every operation that writes is refused with disk_full and may be sent again.
// Thread safety: one thread at a time; see ledger_thread.hpp for the asynchronous form.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "broker/ledger/backup_operations.hpp"
#include "broker/ledger/batch_operations.hpp"
#include "broker/ledger/broker_operations.hpp"
#include "broker/ledger/claim_operations.hpp"
#include "broker/ledger/count_operations.hpp"
#include "broker/ledger/job_operations.hpp"
#include "broker/ledger/pause_operations.hpp"
#include "broker/ledger/stream_operations.hpp"
#include "schemas/codec.hpp"
#include "schemas/job.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

inline constexpr const char* default_tenant = "default";

// ---- operations
// ----------------------------------------------------------------------------------
// Stores a new job. Idempotent by (tenant, id): a job that is stored already gets its answer even
// on a full disk. Refused: batch_closed, conflict (another hash under a known id), disk_full,
// overloaded (the tenant has max_queued jobs in its queues).
struct SubmitJob {
  std::string tenant, id;
  std::string hash;  // job_hash
  int hash_version = job_hash_version;
  Body body;  // as it arrived
  std::string custom_id, model, stream, batch;
  std::uint32_t priority = limits::priority_default;
  std::uint32_t max_attempts = limits::max_attempts_default;
  std::optional<std::int64_t> deadline_us;
  std::string kv;  // canonical KV policy wanted (schemas/base/kv_policy.hpp); empty: any
  std::uint64_t cost_tokens =
      1;  // what it takes of an engine, as far as it is known before it runs
  std::uint64_t max_queued = limits::queued_jobs;
  Body labels{};            // what only the published result repeats; `publish` reads it
  std::string body_hash{};  // canonical_hash, for the comparison with jobs of hash version 1
  // timed_job_hash, for that with jobs of version 2; empty: the same as `hash`.
  std::string timed_hash{};
  std::string traced_hash{};                    // likewise traced_job_hash, for jobs of version 3
  std::optional<std::int64_t> not_before_us{};  // it is in no queue before
  std::uint64_t prefix = 0;  // names what its prompt begins with; 0: nothing that matters
};
struct SubmitReply {
  bool known = false;
  JobState state = JobState::queued;
  bool ready = false;  // it is new, and a claim could hand it out now
};

// The end of one job, and the place of its result.
struct FinishReply {
  std::uint64_t number = 0;  // in the stream; 0: the job did not end, it is queued again
  std::string tenant, stream, job, epoch;
  JobState state = JobState::completed;
  std::string batch{};             // of the job
  std::uint64_t batch_number = 0;  // of the entry that tells the batch's end; 0: none
  std::optional<Code> reason{};    // of the error with which the job failed, or runs again
  // Of the job, for those that trace it. An entry that tells the end of no job has none of them.
  std::int64_t submitted_us = 0;
  std::uint32_t attempts = 0;
  Body labels{};
};

// The facts of a job that its published result repeats.
struct EndingJob {
  std::string job, custom_id, model, batch;
  Body labels;
  std::uint32_t attempts = 0, failures = 0;
  std::int64_t submitted_us = 0;
};
struct Outcome {
  JobState state = JobState::completed;
  Body result{};                 // a GenerationResult as the engine sent it; empty: none
  std::optional<Error> error{};  // the engine's error, or what is wrong with its result
  // Set where the ledger itself ends the job: cancelled, expired, engine_died or ledger_corrupt.
  std::optional<Code> reason{};
  std::int64_t ended_us = 0;
};
struct Published {
  Body body;  // a JobResult
  // How the job ends: as the outcome says, or failed where the job's labels are damaged.
  JobState state = JobState::completed;
  std::optional<Error> error{};  // that the body tells
};
// Builds the JobResult to publish. `apply` calls it on its own thread; it must be pure.
using Publish = std::function<Published(const EndingJob& job, const Outcome& outcome)>;

// The columns of a job that earlier versions of the ledger's file lack; SubmitJob has the same
// fields. A migration computes them from the body. Empty where the body cannot be read.
struct JobColumns {
  std::string kv;
  Body labels;
  std::uint64_t cost_tokens = 1;
};
using ReadColumns = std::function<JobColumns(const Body& job)>;

struct ClaimReply {
  std::vector<ClaimedJob> jobs;
  std::vector<TakenShare> shares{};  // of ClaimShared, in its order
  std::size_t turn = 0;              // the share whose turn it is now
  bool at_limit = false;             // max_leased allows the tenant no more leases
  // Jobs of the tenant that some claim could hand out now: neither suspects nor jobs that wait for
  // a time, nor paused ones.
  std::uint64_t ready = 0;
  bool more = false;  // the claim ended with a set-aside job: claim again, also where it has none
  std::vector<FinishReply> ended;  // jobs whose stored body is damaged: failed, ledger_corrupt
};

// Extends leases to `until_us`.
struct Renew {
  std::string engine;
  std::vector<LeaseId> leases;
  std::int64_t until_us = 0;
};
struct RenewReply {
  std::vector<LeaseId> lost;       // leases that this engine no longer holds
  std::vector<LeaseId> cancelled;  // leases of jobs that a client asked to cancel
};

// Ends a leased job. Where it failed by an error after which it may run again (may_run_again) and
// has not failed so max_attempts times, it does not end: its failure count grows by one, and it
// waits for a new start, each time four times as long (retry_pause_us).
// Refused: stale, unless the lease is the job's current one and `engine`, where
// given, holds it; invalid_value where `state` is not an end.
struct Finish {
  LeaseId lease = 0;
  JobState state = JobState::completed;
  Body result;                   // as in Outcome
  std::string engine;            // empty: not checked
  std::optional<Error> error{};  // as in Outcome
};

// Gives leases back and queues their jobs again in their old places. Leases that are not current
// (or not held by `engine`, where given) are skipped. With Blame::none a job gets no mark.
//
// Blame::died says that the engine died while it held these leases. Jobs that it had not begun
// (`waiting`) get no mark either, the first excused_hand_outs times that they were handed out. The
// others were under way. If none of these was a suspect, they are the suspects of a new incident,
// each among all of them. If some were, the incident is theirs: the suspects are now suspected only
// among each other, and the rest joins the incident among all that were under way. So each death
// halves the suspects that it hits, until one runs alone.
//
// A death is a proof against a job that was handed out alone and whose lease was the engine's only
// one: its failure count grows by one. At max_attempts the job ends as failed (engine_died), and
// its incident is closed: the other jobs of it are suspects no more. A job that a client asked to
// cancel ends as cancelled instead.
enum class Blame : std::uint8_t { none, died };
struct GiveBack {
  std::vector<LeaseId> leases;
  Blame blame = Blame::none;
  std::string engine;              // empty: not checked
  std::vector<LeaseId> waiting{};  // those that the engine had not begun, as far as it told
  bool only_own = false;           // skips the leases of other brokers that live
};
constexpr std::int64_t retry_pause_us(std::uint32_t failures) {
  std::int64_t pause_ms = limits::retry_pause_ms;
  while (failures-- > 1 && pause_ms < limits::retry_pause_most_ms) pause_ms *= 4;
  return 1000 * std::min(pause_ms, std::int64_t{limits::retry_pause_most_ms});
}
// An engine may die before it can tell that it has begun a job. So a job that is held whenever its
// engine dies is not excused for ever.
inline constexpr std::uint32_t excused_hand_outs = 2;
struct GiveBackReply {
  std::vector<std::string> returned;  // ids of the jobs that are queued again
  std::vector<std::string> tenants;   // whose queues have more jobs for claims now, each once
  std::vector<FinishReply> ended;     // jobs that failed (out of attempts) or were cancelled
};

// Finds leases whose end has passed, and all leases of the engines in `engines`, but for those of
// other brokers that live. It only reads: the broker then gives the leases back.
struct FindLapsed {
  std::int64_t now_us = 0;  // lapsed: until_us <= now_us
  std::vector<std::string> engines;
  bool all = false;  // every lease
};
struct LapsedLease {
  LeaseId lease = 0;
  std::string engine, tenant, job;
  bool alone = false;  // the engine may run nothing else meanwhile
};
struct FindLapsedReply {
  std::vector<LapsedLease> leases;
};

// Ends jobs whose deadline has come as expired, also leased ones, whose leases become stale. At
// most `max_jobs` a call; `more` is set while some remain.
struct ExpireJobs {
  std::string tenant;
  std::uint32_t max_jobs = 1000;
};
struct ExpireReply {
  std::vector<FinishReply> ended;
  std::vector<LapsedLease> leases;  // leases that became stale
  bool more = false;
};

// Cancels jobs. Queued jobs end at once; leased jobs are marked, and their engines end them.
struct CancelJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;  // in place of jobs; at most max_jobs a call, `more` is set while some remain
  std::uint32_t max_jobs = 1000;
};
struct CancelReply {
  std::uint64_t cancelled = 0, requested = 0, ended = 0, unknown = 0;  // `ended`: by id only
  std::vector<FinishReply> numbers;
  std::vector<LapsedLease> leases;  // leases of the marked jobs
  bool more = false;
};

// Queues failed jobs again, with attempts, failures and suspicion cleared; their old results stay
// in the stream. A call retries at most max_jobs of a batch, in order of submission. `more` is set
// while some remain; the next call then sets `after` to `last`, so that a job that failed anew in
// the meantime is not retried twice.
struct RetryJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;
  std::uint32_t max_jobs = 1000;
  std::uint64_t after = 0;  // with a batch: only jobs submitted after this place
};
struct RetryReply {
  std::uint64_t retried = 0, not_failed = 0, unknown = 0;
  bool more = false;
  std::uint64_t last = 0;  // place of the last retried job; 0: none, or retried by id
};

// Appends an entry that is not the end of a stored job, for the stream `rejected`. The answer is a
// FinishReply whose state has no meaning. Refused: disk_full.
struct Append {
  std::string tenant, stream, job;
  Body body;
};

struct GetJob {  // refused: not_found
  std::string tenant, job;
};
struct GetJobReply {
  JobState state = JobState::queued;
  std::uint32_t attempts = 0, failures = 0;
  bool suspect = false, cancel_requested = false;
  std::uint32_t among = 0;     // how many jobs are suspected together with it, itself included
  std::uint64_t incident = 0;  // the deaths for which it is suspected; 0: it is no suspect
  std::string stream, batch, custom_id, model, kv;
  std::uint64_t number = 0;                   // of its result; 0: none yet
  std::uint64_t cost_tokens = 1, prefix = 0;  // as in SubmitJob
  std::int64_t submitted_us = 0;
  std::optional<std::int64_t> start_us;  // it waits for this time
  PausedBy paused = PausedBy::nothing;   // while it is queued
  std::optional<LeaseId> lease;
  std::string engine;  // the engine that holds the lease
};

using Operation =
    std::variant<SubmitJob, Claim, ClaimShared, Renew, Finish, GiveBack, FindLapsed, ExpireJobs,
                 CancelJobs, RetryJobs, ReadStream, ListStreams, GetStream, MoveCursor, ListCursors,
                 RemoveCursor, TrimStream, RemoveStream, KeepStream, Retain, Append, GetJob, Count,
                 ListTenants, BackUp, ListJobs, DropJobs, StartJobs, ListBatches, UpdateBatch,
                 Pause, Resume, BeatBroker, ReadNews>;
using Reply =
    std::variant<SubmitReply, ClaimReply, RenewReply, FinishReply, GiveBackReply, FindLapsedReply,
                 ExpireReply, CancelReply, RetryReply, ReadStreamReply, ListStreamsReply,
                 StreamReply, MoveCursorReply, ListCursorsReply, RetainReply, GetJobReply,
                 CountReply, ListTenantsReply, BackUpReply, ListJobsReply, DropReply, StartReply,
                 ListBatchesReply, UpdateBatchReply, PauseReply, BeatReply, NewsReply>;

// Whether an error of `apply` or `idle` leaves the ledger usable.
inline bool may_try_again(const Error& error) {
  return error.code == Code::ledger_unavailable;
}

class Ledger {
 public:
  virtual ~Ledger() = default;
  // Carries out all operations in one durable commit. The replies have the same order. now_us is
  // Unix time. After an error that may be tried again, the next call must bring the same operations
  // again: the commit may have taken place, and that call then returns its replies and carries
  // nothing out twice.
  virtual Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                                   std::int64_t now_us) = 0;
  // Does housekeeping between commits: checkpoints in small steps, the ballast. Short; may be
  // skipped.
  virtual Status idle() = 0;
  // How long the disk's sync took in the last `apply`, in microseconds; 0: there was none, or the
  // ledger cannot tell.
  virtual std::uint64_t sync_us() const { return 0; }
  // From now on a store that says nothing for limits::ledger_silence_ms counts as unavailable;
  // before that it is waited for without end. Any thread may call it, also during an `apply`.
  virtual void give_up_soon() {}
};

}  // namespace millrace::broker
