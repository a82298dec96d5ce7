#pragma once
// The ledger: the only truth about jobs, results, streams and batches. Sixteen operations, no
// SQL above them. Every operation is a transaction conditional on state and fence; `apply` carries
// out many in one durable commit (group commit) and answers each, in order. An operation that is
// refused changes nothing and does not disturb its neighbours.
//
// Every key starts with the tenant. Streams number their entries from 1 without gaps; a job's end,
// its result and the stream's next number are written together. All streams of one ledger share its
// epoch, a random id made when the ledger was created.
//
// What is published of a job's end is built by the `publish` function that the ledger was opened
// with, from the job's row and the end, so that both are one transaction. An engine's result is
// bytes to the ledger. Some operations end jobs themselves: cancelled in the queue, past their
// deadline, out of attempts, damaged on disk.
//
// Errors: an operation's own refusal stands in its reply, with the codes named beside it below. If
// `apply` itself fails (I/O, fsync, corruption) nothing is known about the batch: the process must
// stop and recover from disk. A full disk is no such failure: submits and appends are refused
// (disk_full) while results still commit from the ballast; when that is spent as well, every
// operation that writes is refused with disk_full and may be sent again.
// Thread safety: one thread at a time; see ledger_thread.hpp for the asynchronous form.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "schemas/codec.hpp"
#include "schemas/job.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

inline constexpr const char* default_tenant = "default";

// ---- operations
// ----------------------------------------------------------------------------------
// Idempotent by (tenant, id): what is stored already is answered on a full disk too. Refused:
// conflict (another hash under a known id), disk_full, overloaded (limits::queued_jobs).
struct SubmitJob {
  std::string tenant, id;
  std::string hash;  // canonical_hash of the body
  int hash_version = canonical_hash_version;
  Body body;  // as it arrived
  std::string custom_id, model, stream, batch;
  std::uint32_t priority = limits::priority_default;
  std::uint32_t max_attempts = limits::max_attempts_default;
  std::optional<std::int64_t> deadline_us;
  std::string kv;  // canonical KV policy wanted (schemas/base/kv_policy.hpp); empty: any
  Body labels{};   // what only the published result repeats, for `publish` to read
};
struct SubmitReply {
  bool known = false;
  JobState state = JobState::queued;
};

// The end of one job, and where its result stands.
struct FinishReply {
  std::uint64_t number = 0;  // in the stream
  std::string tenant, stream, job, epoch;
  JobState state = JobState::completed;
};

// A job that ends, as far as its published result repeats it.
struct EndingJob {
  std::string job, custom_id, model, batch;
  Body labels;
  std::uint32_t attempts = 0, failures = 0;
  std::int64_t submitted_us = 0;
};
struct Outcome {
  JobState state = JobState::completed;
  Body result{};                 // a GenerationResult as the engine sent it; empty: none
  std::optional<Error> error{};  // the engine's, or what is wrong with its result
  // Set where the ledger itself ends the job: cancelled, expired, engine_died or ledger_corrupt.
  std::optional<Code> reason{};
  std::int64_t ended_us = 0;
};
// Builds the JobResult that is published. Called by `apply`, on its thread; must be pure.
using Publish = std::function<Body(const EndingJob& job, const Outcome& outcome)>;

// What later versions of a ledger's file keep of a job beside its body, as SubmitJob has it: read
// out of the body when a file of an earlier version is opened. Empty where it cannot be read.
struct JobColumns {
  std::string kv;
  Body labels;
};
using ReadColumns = std::function<JobColumns(const Body& job)>;

// Hands out queued jobs: lowest priority number first, then in order of submission, jobs of model
// `model` or "*" that want no KV policy or one of `kv`. Suspects are never among them unless
// `suspect` is set: then at most one job, a suspect, is given. Jobs past their deadline are passed
// over (see ExpireJobs).
struct Claim {
  std::string tenant, engine, model;
  std::uint32_t max_jobs = 0;
  std::int64_t until_us = 0;  // lease end, Unix time
  bool suspect = false;
  std::uint64_t max_bytes = limits::lease_bytes;  // of bodies; one job is given whatever its size
  std::vector<std::string> kv{};                  // canonical, none twice
};
struct ClaimedJob {
  LeaseId lease = 0;  // never used before in this ledger
  std::string tenant, job;
  std::uint32_t attempt = 1;  // hand-outs, this one included; raised durably with the claim
  std::int64_t submitted_us = 0;
  std::optional<std::int64_t> deadline_us;
  bool suspect = false;
  Body body;
  std::string custom_id{}, stream{};
};
struct ClaimReply {
  std::vector<ClaimedJob> jobs;
  std::vector<FinishReply> ended;  // jobs whose stored body is damaged: failed, ledger_corrupt
};

struct Renew {
  std::string engine;
  std::vector<LeaseId> leases;
  std::int64_t until_us = 0;
};
struct RenewReply {
  std::vector<LeaseId> lost;       // not this engine's any more
  std::vector<LeaseId> cancelled;  // cancel was asked for
};

// The end of a leased job. Refused: stale unless the lease is the job's current one (and `engine`,
// where given, its holder); invalid_value where `state` is no end.
struct Finish {
  LeaseId lease = 0;
  JobState state = JobState::completed;
  Body result;                   // as in Outcome
  std::string engine;            // empty: not checked
  std::optional<Error> error{};  // as in Outcome
};

// Gives leases back; leases that are not current (or not `engine`'s, where given) are passed over.
// `blame` none: queued again in its old place, no mark. `died`: the engine died with these in
// flight: each becomes a suspect; one that was handed out alone (Claim::suspect) and was the
// engine's only lease has its failure count raised, and once that reaches max_attempts it ends as
// failed (engine_died). A job whose cancel was asked for ends as cancelled instead.
enum class Blame : std::uint8_t { none, died };
struct GiveBack {
  std::vector<LeaseId> leases;
  Blame blame = Blame::none;
  std::string engine;  // empty: not checked
};
struct GiveBackReply {
  std::vector<std::string> returned;  // job ids, queued again
  std::vector<FinishReply> ended;     // failed (out of attempts) and cancelled ones
};

// Leases whose end has passed, and leases of engines in `engines` whatever their end (used at a
// start where those are known to be gone). Read only; the broker then gives them back.
struct FindLapsed {
  std::int64_t now_us = 0;  // lapsed: until_us <= now_us
  std::vector<std::string> engines;
  bool all = false;  // every lease
};
struct LapsedLease {
  LeaseId lease = 0;
  std::string engine, tenant, job;
  bool alone = false;  // claimed as a suspect
};
struct FindLapsedReply {
  std::vector<LapsedLease> leases;
};

// Ends jobs whose deadline is not after now as expired, leased ones too (their leases become
// stale), at most `max_jobs` a call; `more` is set while some remain.
struct ExpireJobs {
  std::string tenant;
  std::uint32_t max_jobs = 1000;
};
struct ExpireReply {
  std::vector<FinishReply> ended;
  std::vector<LapsedLease> leases;  // those that became stale
  bool more = false;
};

// Queued jobs end at once; leased ones are marked, and their engines end them.
struct CancelJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;  // instead of jobs; at most max_jobs a call, `more` is set while some remain
  std::uint32_t max_jobs = 1000;
};
struct CancelReply {
  std::uint64_t cancelled = 0, requested = 0, ended = 0, unknown = 0;  // `ended`: by id only
  std::vector<FinishReply> numbers;
  std::vector<LapsedLease> leases;  // those marked
  bool more = false;
};

// Failed jobs are queued again, counters and suspicion cleared; their old result stays in the
// stream. Of a batch at most max_jobs a call, in order of submission: `more` is set while some
// remain, and the next call goes on after `last`, so that one which failed anew in the meantime is
// not retried twice.
struct RetryJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;
  std::uint32_t max_jobs = 1000;
  std::uint64_t after = 0;  // of a batch: only jobs submitted after this place
};
struct RetryReply {
  std::uint64_t retried = 0, not_failed = 0, unknown = 0;
  bool more = false;
  std::uint64_t last = 0;  // place of the last one retried; 0: none, or asked for by id
};

// A slice, by (tenant, stream, number >= from); from 0: after the named cursor. Where the first
// number wanted is no longer kept the answer holds no entries and says `trimmed`. max_entries 0
// asks for the numbers alone. A stream nobody wrote to is empty: first 1, high 0.
// Refused: epoch_changed, ledger_corrupt (the first entry wanted is damaged).
struct ReadStream {
  std::string tenant, stream;
  std::string epoch;  // empty: any
  std::uint64_t from = 1;
  std::string cursor;
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;  // of bodies; at least one entry is always given
};
struct ReadStreamReply {
  std::string epoch;
  std::uint64_t first = 1, high = 0;
  bool trimmed = false;
  std::vector<Entry> entries;
};

struct ListStreams {  // in order of name, those after `after`
  std::string tenant, after;
  std::uint32_t max_streams = 1000;
};
struct StreamInfo {
  std::string stream;
  std::uint64_t first = 1, high = 0;
};
struct ListStreamsReply {
  std::string epoch;
  std::vector<StreamInfo> streams;
};

// Forward only: a smaller number changes nothing. Refused: invalid_value (past the stream's end).
struct MoveCursor {
  std::string tenant, stream, cursor;
  std::uint64_t number = 0;
};
struct MoveCursorReply {
  std::uint64_t number = 0;  // where it stands now
};

// Drops entries below `first`, at most max_entries a call. Jobs keep their records, so that their
// ids stay known. Refused: not_found, invalid_value (past the stream's next number).
struct TrimStream {
  std::string tenant, stream;
  std::uint64_t first = 0;
  std::uint32_t max_entries = 10'000;
};
struct TrimReply {
  std::uint64_t first = 0;  // the first number kept now
  bool more = false;
};

// An entry that is no job's end: the `rejected` stream. Answered by FinishReply (its state means
// nothing). Refused: disk_full.
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
  std::string stream, batch, custom_id, model, kv;
  std::uint64_t number = 0;  // of its result, 0 before
  std::int64_t submitted_us = 0;
  std::optional<LeaseId> lease;
  std::string engine;  // that holds it
};

struct Count {  // of a batch, or of the tenant where batch is empty; live
  std::string tenant, batch;
};
struct SuspectQueue {          // suspects that wait for engines of one kind
  std::string model, kv;       // as in SubmitJob
  std::uint64_t jobs = 0;      // at least one
  std::int64_t oldest_us = 0;  // since when the oldest of them is suspected
};
struct CountReply {
  JobCounts counts;
  std::vector<SuspectQueue> suspects;  // of the tenant, in order of model and policy
};

using Operation =
    std::variant<SubmitJob, Claim, Renew, Finish, GiveBack, FindLapsed, ExpireJobs, CancelJobs,
                 RetryJobs, ReadStream, ListStreams, MoveCursor, TrimStream, Append, GetJob, Count>;
using Reply = std::variant<SubmitReply, ClaimReply, RenewReply, FinishReply, GiveBackReply,
                           FindLapsedReply, ExpireReply, CancelReply, RetryReply, ReadStreamReply,
                           ListStreamsReply, MoveCursorReply, TrimReply, GetJobReply, CountReply>;

class Ledger {
 public:
  virtual ~Ledger() = default;
  // One durable commit for all operations; replies in the same order. now_us is Unix time.
  virtual Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                                   std::int64_t now_us) = 0;
  // Housekeeping between commits (checkpoint in small steps, ballast). Short; safe to skip.
  virtual Status idle() = 0;
};

}  // namespace millrace::broker
