#pragma once
// The ledger: the only truth about jobs, results, streams and batches. About fifteen operations, no
// SQL above them. Every operation is a transaction conditional on state and fence; `apply` carries
// out many in one durable commit (group commit) and answers each, in order. An operation that is
// refused changes nothing and does not disturb its neighbours.
//
// Every key starts with the tenant. Streams number their entries from 1 without gaps; a job's end,
// its result and the stream's next number are written together.
//
// Errors: an operation's own refusal stands in its reply. If `apply` itself fails (I/O, fsync,
// corruption) nothing is known about the batch: the process must stop and recover from disk. A full
// disk is no such failure: submits are refused (disk_full) while results still commit from the
// ballast. Thread safety: one thread at a time; see ledger_thread.hpp for the asynchronous form.
#include <cstdint>
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
struct SubmitJob {  // idempotent by (tenant, id); another hash under a known id: conflict
  std::string tenant, id;
  std::string hash;  // canonical_hash of the body
  int hash_version = canonical_hash_version;
  Body body;  // as it arrived
  std::string custom_id, model, stream, batch;
  std::uint32_t priority = limits::priority_default;
  std::uint32_t max_attempts = limits::max_attempts_default;
  std::optional<std::int64_t> deadline_us;
};
struct SubmitReply {
  bool known = false;
  JobState state = JobState::queued;
};

// Hands out queued jobs: lowest priority number first, then in order of submission, jobs of model
// `model` or "*". Suspects are never among them unless `suspect` is set: then at most one job, a
// suspect, is given.
struct Claim {
  std::string tenant, engine, model;
  std::uint32_t max_jobs = 0;
  std::int64_t until_us = 0;  // lease end, Unix time
  bool suspect = false;
  std::uint32_t window = 0;  // reserved for look-ahead policies; 0 is none
};
struct ClaimedJob {
  LeaseId lease = 0;  // never used before in this ledger
  std::string tenant, job;
  std::uint32_t attempt = 1;  // hand-outs, this one included; raised durably with the claim
  std::int64_t submitted_us = 0;
  std::optional<std::int64_t> deadline_us;
  bool suspect = false;
  Body body;
};
struct ClaimReply {
  std::vector<ClaimedJob> jobs;
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

// The end of a leased job. Refused with `stale` unless the lease is the job's current one.
struct Finish {
  LeaseId lease = 0;
  JobState state = JobState::completed;
  Body body;  // the complete JobResult
};
// The end of a job that is not leased (cancelled in the queue, expired, dead-lettered by the
// broker), or of a leased one by the broker's decision (expired). Conditional on the job not having
// ended.
struct FinishUnleased {
  std::string tenant, job;
  JobState state = JobState::failed;
  Body body;
};
struct FinishReply {
  std::uint64_t number = 0;  // in the stream
  std::string tenant, stream, job;
};

// Gives leases back. `blame` none: queued again, no mark. `died`: the engine died with these in
// flight: each becomes a suspect; one that was the engine's only lease and was handed out alone has
// its failure count raised, and is reported in `exhausted` once that reaches max_attempts (the
// broker then ends it with FinishUnleased).
enum class Blame : std::uint8_t { none, died };
struct GiveBack {
  std::vector<LeaseId> leases;
  Blame blame = Blame::none;
};
struct ExhaustedJob {
  std::string tenant, job, custom_id, model;
  std::uint32_t attempts = 0, failures = 0;
  std::int64_t submitted_us = 0;
};
struct GiveBackReply {
  std::vector<std::string> returned;
  std::vector<ExhaustedJob> exhausted;
};

// Leases whose end has passed, and leases of engines in `engines` whatever their end (used at a
// start where those are known to be gone). Read only; the broker then gives them back.
struct FindLapsed {
  std::int64_t now_us = 0;
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

// Jobs past their deadline that have not ended, at most `max_jobs`. Read only.
struct FindExpired {
  std::int64_t now_us = 0;
  std::uint32_t max_jobs = 1000;
};
struct ExpiredJob {
  std::string tenant, job, custom_id, model;
  std::optional<LeaseId> lease;
  std::uint32_t attempts = 0;
  std::int64_t submitted_us = 0;
};
struct FindExpiredReply {
  std::vector<ExpiredJob> jobs;
};

// Queued jobs end at once (their results are built with `cancelled_body`); leased ones are marked.
struct CancelJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;  // instead of jobs; at most max_jobs a call, `more` is set while some remain
  std::uint32_t max_jobs = 1000;
  std::int64_t now_us = 0;
};
struct CancelReply {
  std::uint64_t cancelled = 0, requested = 0, ended = 0, unknown = 0;
  std::vector<FinishReply> numbers;
  std::vector<LeaseId> leases;  // those marked
  bool more = false;
};

struct RetryJobs {  // failed jobs are queued again, counters cleared; their old result stays in the
                    // stream
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;
};
struct RetryReply {
  std::uint64_t retried = 0, not_failed = 0, unknown = 0;
};

struct ReadStream {  // a slice, by (tenant, stream, number >= from); from 0: after the named cursor
  std::string tenant, stream;
  std::uint64_t from = 1;
  std::string cursor;
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;  // at least one entry is always given
};
struct ReadStreamReply {
  std::string epoch;
  std::uint64_t first = 0, high = 0;
  std::vector<Entry> entries;
};

struct MoveCursor {  // forward only
  std::string tenant, stream, cursor;
  std::uint64_t number = 0;
};
struct MoveCursorReply {
  std::uint64_t number = 0;
};

struct TrimStream {  // drops numbers below `first`
  std::string tenant, stream;
  std::uint64_t first = 0;
};
struct TrimReply {
  std::uint64_t first = 0;
};

struct Append {  // an entry that is no job's end: the `rejected` stream
  std::string tenant, stream, job;
  Body body;
};

struct GetJob {
  std::string tenant, job;
};
struct GetJobReply {
  JobState state = JobState::queued;
  std::uint32_t attempts = 0, failures = 0;
  bool suspect = false, cancel_requested = false;
  std::string stream, batch;
  std::uint64_t number = 0;  // of its result, 0 before
};

struct Count {  // of a batch, or of the tenant where batch is empty; live
  std::string tenant, batch;
};
struct CountReply {
  JobCounts counts;
  std::uint64_t suspects = 0;
  std::optional<std::int64_t> oldest_suspect_us;  // since when the oldest waits
};

using Operation =
    std::variant<SubmitJob, Claim, Renew, Finish, FinishUnleased, GiveBack, FindLapsed, FindExpired,
                 CancelJobs, RetryJobs, ReadStream, MoveCursor, TrimStream, Append, GetJob, Count>;
using Reply = std::variant<SubmitReply, ClaimReply, RenewReply, FinishReply, GiveBackReply,
                           FindLapsedReply, FindExpiredReply, CancelReply, RetryReply,
                           ReadStreamReply, MoveCursorReply, TrimReply, GetJobReply, CountReply>;

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
