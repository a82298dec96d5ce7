#pragma once
// The records that every store keeps, and the operations on them that it must offer inside one
// transaction. The rules (ledger_rules.hpp) consist of these operations and of nothing else, so a
// store is complete when it has them. No operation checks whether it is allowed: the rule does that
// before its first change.
//
// The operations of the last group have a plain form in records.cpp, made of those before them. A
// store replaces one where it can do the same faster. Tests hold each replacement against its plain
// form.
//
// Errors are sticky: after the first failure every operation finds nothing and changes nothing, and
// `status` returns the error. The transaction is rolled back as a whole, so the rules need no error
// handling of their own. Thread safety: one thread at a time.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

// Why a job is a suspect: see GiveBack.
struct Suspicion {
  std::int64_t since_us = 0;
  std::uint64_t incident = 0;  // the first lease of the first death; 0: of an earlier version
  std::uint32_t among = 1;     // how many jobs are suspected together, this one included
};

// The start of a queued job that was set aside because its batch is paused. No clock reaches it.
inline constexpr std::int64_t until_resumed = INT64_MAX;

// A job without its body. The members before `state` never change; a job is found by tenant and
// id, and its body by tenant and sequence.
struct JobRecord {
  std::string tenant, job, hash, custom_id, model, stream, batch, kv;
  Body labels;
  int hash_version = 0;
  std::uint32_t priority = 0, max_attempts = 0;
  std::uint64_t cost_tokens = 1;
  std::uint64_t prefix = 0;  // as in SubmitJob
  std::optional<std::int64_t> deadline_us;
  std::uint64_t sequence = 0;  // order of submission
  std::int64_t submitted_us = 0;

  JobState state = JobState::queued;
  std::uint32_t attempts = 0, failures = 0;
  std::optional<Suspicion> suspicion;
  bool cancel_requested = false;
  std::uint64_t number = 0;              // of its result in its stream; 0: none
  LeaseId lease = 0;                     // 0: none
  std::optional<std::int64_t> ended_us;  // set while the state is an end
  std::optional<std::int64_t> start_us;  // it waits for this time, in no queue; or until_resumed
  std::optional<Error> error;            // why it failed, or was queued again

  std::uint32_t among() const { return suspicion ? suspicion->among : 0; }
};

struct BatchRecord {
  std::string batch;
  std::int64_t created_us = 0;
  bool closed = false;
  std::optional<std::int64_t> finished_us{};
  std::uint64_t number = 0;  // of the entry that tells so; 0: none
  std::map<std::string, std::string> metadata{};
  bool paused = false;
  std::string stream{};     // of its first job
  std::uint64_t first = 0;  // its results in that stream have no lower numbers; 0: unknown
};
struct LeaseRecord {
  LeaseId lease = 0;
  std::string tenant, job, engine;
  std::int64_t until_us = 0;
  bool alone = false;  // the engine may run nothing else meanwhile
};
struct LeasedJob {
  LeaseRecord lease;
  JobRecord job;
};

// The jobs of one queue, in order: a tenant's suspects among so many jobs, or its other jobs, for
// one model and one KV policy.
struct QueueKey {
  std::string tenant;
  std::uint32_t among = 0;  // 0: jobs that are no suspects
  std::string model, kv;
};
using Place = std::pair<std::uint32_t, std::uint64_t>;  // priority and sequence
struct QueuedJob {
  Place place;
  std::string job;
  std::optional<std::int64_t> deadline_us;
  std::uint64_t prefix = 0;
};

struct QueuedSuspects {
  SuspectQueue queue;
  std::string batch;
};

struct StreamRecord {
  std::uint64_t first = 1, high = 0;  // first number kept, last number written
  std::uint64_t oldest = 1;           // first number that is stored; those below `first` will go
  std::uint64_t bytes = 0;            // of the bodies that are stored
  StreamLimits set{};
};
struct StoredEntry {
  std::uint64_t number = 0;
  std::string job;
  std::string_view body;  // valid during the visit
  bool sound = true;      // false: the body is not the one that was written
};
struct EntrySize {
  std::uint64_t number = 0, bytes = 0;
  std::int64_t written_us = 0;
};
// These return false to end the scan. They must not call the store.
using EntryVisitor = std::function<bool(const StoredEntry& entry)>;
using SizeVisitor = std::function<bool(const EntrySize& entry)>;

struct JobName {
  std::string tenant, job;
};
// The jobs of a batch in one state that were submitted after the sequence `after`.
struct BatchScan {
  std::string tenant, batch;
  JobState state = JobState::queued;
  std::uint64_t after = 0, max_jobs = 0;
  bool uncancelled = false;  // without leased jobs that are to be cancelled already
};
struct BatchJob {
  std::uint64_t sequence = 0;
  std::string job;
};

using StateCounts = std::array<std::int64_t, 6>;  // jobs, by state
// The ready jobs for one model and one KV policy: those that a claim could hand out now, so neither
// suspects nor jobs that wait for a time, nor those that were set aside.
struct ReadyJobs {
  std::string model, kv;
  std::int64_t jobs = 0;
};

struct NewJob {
  JobRecord record;            // `store_new` sets its sequence
  const Body* body = nullptr;  // not owned
  bool stored = false;         // set by `store_new`
};
struct ClaimableJob {
  JobRecord job;
  std::optional<Body> body;  // none: damaged or missing
};
struct RenewedLease {
  LeaseId lease = 0;
  bool held = false;  // by this engine; its end has moved
  bool cancel_requested = false;
};

class Records {
 public:
  virtual ~Records() = default;

  virtual const Status& status() const = 0;
  // Records that the store contradicts itself; `what` is a sentence. The error is ledger_corrupt.
  virtual void note_corruption(const std::string& what) = 0;
  virtual const std::string& epoch() const = 0;

  // ---- jobs
  virtual std::optional<JobRecord> find_job(const std::string& tenant, const std::string& job) = 0;
  // Stores a job whose id is not known, with its body, and gives it the next sequence.
  virtual void insert_job(JobRecord& job, const Body& body) = 0;
  virtual void update_job(const JobRecord& job) = 0;                // everything from `state` on
  virtual std::optional<Body> find_body(const JobRecord& job) = 0;  // none: damaged or missing
  virtual void delete_body(const JobRecord& job) = 0;
  virtual void delete_job(const JobRecord& job) = 0;  // with its body
  // Jobs of all tenants that ended at `until_us` or earlier, by this time, tenant and id.
  virtual std::vector<JobName> ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) = 0;
  // Ids of jobs that have not ended and whose deadline is `until_us` or earlier, by deadline and
  // sequence.
  virtual std::vector<std::string> due_jobs(const std::string& tenant, std::int64_t until_us,
                                            std::uint64_t max_jobs) = 0;
  // The same of jobs that wait for a start that comes at `until_us` or earlier, by this time.
  virtual std::vector<std::string> starting_jobs(const std::string& tenant, std::int64_t until_us,
                                                 std::uint64_t max_jobs) = 0;
  virtual std::vector<BatchJob> jobs_of_batch(const BatchScan& scan) = 0;  // as submitted
  // Ids of the jobs of a batch that were set aside, as submitted.
  virtual std::vector<std::string> set_aside(const std::string& tenant, const std::string& batch,
                                             std::uint64_t max_jobs) = 0;
  // The first batch, by name, after `after` that has such a job.
  virtual std::optional<std::string> next_set_aside(const std::string& tenant,
                                                    const std::string& after) = 0;
  // Jobs of a tenant, or only its failed ones, whose ids come after `after`, in order of their ids.
  virtual std::vector<JobRecord> list_jobs(const std::string& tenant, bool failed,
                                           const std::string& after, std::uint64_t max_jobs) = 0;

  // The suspects of an incident, of all tenants, in order of submission.
  virtual std::vector<JobName> jobs_of_incident(std::uint64_t incident) = 0;

  // ---- queues: a job's queue follows from its record
  virtual void enqueue(const JobRecord& job) = 0;
  virtual void dequeue(const JobRecord& job) = 0;
  // The next jobs of a queue whose place comes after `after`.
  virtual std::vector<QueuedJob> queued_jobs(const QueueKey& queue, std::optional<Place> after,
                                             std::size_t max_jobs) = 0;
  // Queued suspects by model, KV policy, whether they run alone, and batch, in this order.
  virtual std::vector<QueuedSuspects> suspect_queues(const std::string& tenant) = 0;
  // The smallest number, larger than `after`, among which queued jobs are suspected; 0: none.
  virtual std::uint32_t next_among(const std::string& tenant, std::uint32_t after) = 0;

  // ---- counts; the batch "" holds the tenant's sums
  virtual void add_count(const std::string& tenant, const std::string& batch, JobState state,
                         std::int64_t change) = 0;
  virtual StateCounts counts(const std::string& tenant, const std::string& batch) = 0;
  // Ready jobs by batch, model and policy. The batch "" holds the tenant's sums, without the jobs
  // of paused batches. Only numbers that are not 0 are read back, sorted by model and policy.
  virtual void add_ready(const std::string& tenant, const std::string& batch,
                         const std::string& model, const std::string& kv, std::int64_t change) = 0;
  virtual std::vector<ReadyJobs> ready(const std::string& tenant, const std::string& batch) = 0;
  // The first tenant, by name, after `after` that has counts or a stream.
  virtual std::optional<std::string> next_tenant(const std::string& after) = 0;
  virtual void delete_counts(const std::string& tenant, const std::string& batch) = 0;

  // ---- batches
  virtual std::optional<BatchRecord> find_batch(const std::string& tenant,
                                                const std::string& batch) = 0;
  virtual void put_batch(const std::string& tenant, const BatchRecord& batch) = 0;
  virtual void delete_batch(const std::string& tenant, const std::string& batch) = 0;
  // Batches whose names come after `after`, in order.
  virtual std::vector<BatchRecord> list_batches(const std::string& tenant, const std::string& after,
                                                std::uint64_t max_batches) = 0;

  // ---- pauses of tenants and of their models; the model "" stands for all
  virtual std::vector<std::string> paused_models(const std::string& tenant) = 0;  // by name
  virtual void insert_pause(const std::string& tenant, const std::string& model) = 0;
  virtual void delete_pause(const std::string& tenant, const std::string& model) = 0;

  // ---- leases
  virtual void insert_lease(LeaseRecord& lease) = 0;  // gives it an id that was never used
  virtual std::optional<LeaseRecord> find_lease(LeaseId lease) = 0;
  virtual void extend_lease(LeaseId lease, std::int64_t until_us) = 0;
  virtual void delete_lease(LeaseId lease) = 0;
  virtual std::uint64_t count_leases(const std::string& engine) = 0;
  // In any order: all leases, those that end at `until_us` or earlier, those of one engine.
  virtual std::vector<LeaseRecord> all_leases() = 0;
  virtual std::vector<LeaseRecord> leases_until(std::int64_t until_us) = 0;
  virtual std::vector<LeaseRecord> leases_of(const std::string& engine) = 0;

  // ---- brokers, where several use one store; one that serves one broker (SQLite) has none of it
  // This broker lives for so long, by the store's clock (0: it leaves); how many others live?
  virtual std::uint64_t beat(std::int64_t) { return 0; }
  // Those of the leases that belong to other brokers which live.
  virtual std::set<LeaseId> held_elsewhere(std::span<const LeaseId>) { return {}; }
  // What other brokers have committed since these marks, which move.
  virtual std::vector<News> read_news(NewsMarks&) { return {}; }

  // ---- streams
  virtual std::optional<StreamRecord> find_stream(const std::string& tenant,
                                                  const std::string& stream) = 0;
  // Takes the stream's next number, beginning with 1, for an entry with a body of `bytes`. The
  // entry is written in the same transaction.
  virtual std::uint64_t next_number(const std::string& tenant, const std::string& stream,
                                    std::uint64_t bytes) = 0;
  virtual void insert_entry(const std::string& tenant, const std::string& stream,
                            std::uint64_t number, const std::string& job, const Body& body,
                            std::int64_t written_us) = 0;
  // Both visit entries in order, until the visitor ends it: from number `from` on, and from the
  // oldest one on.
  virtual void scan_entries(const std::string& tenant, const std::string& stream,
                            std::uint64_t from, std::uint64_t max_entries,
                            const EntryVisitor& visit) = 0;
  virtual void scan_oldest(const std::string& tenant, const std::string& stream,
                           std::uint64_t max_entries, const SizeVisitor& visit) = 0;
  virtual void delete_entries(const std::string& tenant, const std::string& stream,
                              std::uint64_t below) = 0;
  // Replaces the record, and makes the stream where it does not exist.
  virtual void update_stream(const std::string& tenant, const std::string& stream,
                             const StreamRecord& record) = 0;
  // Streams whose names come after `after`, in order.
  virtual std::vector<StreamInfo> list_streams(const std::string& tenant, const std::string& after,
                                               std::uint64_t max_streams) = 0;
  // The next stream of all tenants.
  virtual std::optional<StreamPlace> next_stream(const StreamPlace& after) = 0;

  // ---- cursors; their streams exist
  virtual std::optional<CursorInfo> find_cursor(const std::string& tenant,
                                                const std::string& stream,
                                                const std::string& cursor) = 0;
  virtual void set_cursor(const std::string& tenant, const std::string& stream,
                          const CursorInfo& cursor) = 0;
  virtual void delete_cursor(const std::string& tenant, const std::string& stream,
                             const std::string& cursor) = 0;
  virtual std::vector<CursorInfo> list_cursors(const std::string& tenant,
                                               const std::string& stream) = 0;  // by name

  // ---- operations on sets
  // These jobs will be asked for, one by one: a store may read them together.
  virtual void expect_jobs(const std::string&, std::span<const std::string>) {}
  // Stores those jobs whose ids are not known yet, in order, and marks them as stored.
  virtual void store_new(std::span<NewJob> jobs);
  // The leases with their jobs, in order; none where there is no such lease.
  virtual std::vector<std::optional<LeasedJob>> find_leased(std::span<const LeaseId> leases);
  // The jobs of these queues that a claim may hand out, in the order of claim_order.hpp, without
  // those past their deadline. It ends with the job whose body makes the sum larger than the
  // claim's max_bytes or whose cost makes it reach max_tokens, and after claim_overscan jobs past
  // their deadline.
  virtual std::vector<ClaimableJob> claimable(const Claim& claim, std::uint32_t among,
                                              std::int64_t now_us);
  // Moves the ends of those leases that `engine` holds.
  virtual std::vector<RenewedLease> renew(const std::string& engine,
                                          std::span<const LeaseId> leases, std::int64_t until_us);

 protected:
  // Sets a batch's metadata from the bytes of encode_labels(). Damage to them is noted as
  // corruption.
  void read_metadata(std::string_view labels, BatchRecord& batch);
  // A job that another record refers to. Its absence is noted as corruption.
  std::optional<JobRecord> known_job(const std::string& tenant, const std::string& job);
};

}  // namespace millrace::broker
