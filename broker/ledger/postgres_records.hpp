#pragma once
// The records as rows of the tables in postgres_schema.cpp, within one transaction.
//
// Changes gather in memory, each table's in the columns of one statement, and are sent together
// before the next question about their table, or before the commit. Jobs and streams that were read
// or changed are kept for the rest of the transaction. So a batch of operations takes a number of
// statements that does not grow with it: postgres_ledger.hpp lists them.
//
// Whatever belongs to a tenant is read and changed under the lock of the tenant's row, so a
// transaction that changes something sees the tenant's records as if it were alone. `own` takes the
// locks of all tenants of a batch in one statement, in order; an operation that comes to another
// tenant takes its lock then. Transactions that only read take none: they read one snapshot.
//
// Errors are sticky in the connection. Thread safety: one thread at a time.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "broker/ledger/postgres_connection.hpp"
#include "broker/ledger/records.hpp"

namespace millrace::broker {

// What a transaction is about, as far as its operations tell.
struct ExpectedRecords {
  using Names = std::set<std::pair<std::string, std::string>>;  // tenants and names
  std::set<std::string> tenants;
  bool every_tenant = false;
  std::vector<LeaseId> leases;
  Names jobs, batches, streams;
};

class PostgresRecords final : public Records {
 public:
  // `broker` as in PostgresLedgerOptions.
  PostgresRecords(PostgresConnection& connection, std::string broker)
      : connection_(connection), broker_(std::move(broker)) {}

  void begin(std::string epoch, bool writes);  // a transaction
  void others_live(bool some) { others_live_ = some; }
  // Sends the news of this batch of the handle.
  void tell(const std::string& handle, std::int64_t batch, std::span<const News> news);
  // Send the locks and the questions for what is expected, and take the answers. Until then
  // nothing else may be asked.
  void send_expected(const ExpectedRecords& expected);
  void take_expected(const ExpectedRecords& expected, std::vector<PostgresRows> answers);
  void flush();      // sends all changes; call it before the commit
  void forget();     // what is kept of the transaction, after a commit
  void roll_back();  // the same, after one that did not take place

  const Status& status() const override { return connection_.status(); }
  void note_corruption(const std::string& what) override;
  const std::string& epoch() const override { return epoch_; }

  void expect_jobs(const std::string& tenant, std::span<const std::string> jobs) override;
  std::optional<JobRecord> find_job(const std::string& tenant, const std::string& job) override;
  void insert_job(JobRecord& job, const Body& body) override;
  void update_job(const JobRecord& job) override;
  std::optional<Body> find_body(const JobRecord& job) override;
  void delete_body(const JobRecord& job) override;
  void delete_job(const JobRecord& job) override;
  std::vector<JobName> ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) override;
  std::vector<std::string> due_jobs(const std::string& tenant, std::int64_t until_us,
                                    std::uint64_t max_jobs) override;
  std::vector<std::string> starting_jobs(const std::string& tenant, std::int64_t until_us,
                                         std::uint64_t max_jobs) override;
  std::vector<BatchJob> jobs_of_batch(const BatchScan& scan) override;
  std::vector<std::string> set_aside(const std::string& tenant, const std::string& batch,
                                     std::uint64_t max_jobs) override;
  std::optional<std::string> next_set_aside(const std::string& tenant,
                                            const std::string& after) override;
  std::vector<JobRecord> list_jobs(const std::string& tenant, bool failed, const std::string& after,
                                   std::uint64_t max_jobs) override;
  std::vector<JobName> jobs_of_incident(std::uint64_t incident) override;

  void enqueue(const JobRecord& job) override;
  void dequeue(const JobRecord& job) override;
  std::vector<QueuedJob> queued_jobs(const QueueKey& queue, std::optional<Place> after,
                                     std::size_t max_jobs) override;
  std::vector<QueuedSuspects> suspect_queues(const std::string& tenant) override;
  std::uint32_t next_among(const std::string& tenant, std::uint32_t after) override;

  void add_count(const std::string& tenant, const std::string& batch, JobState state,
                 std::int64_t change) override;
  StateCounts counts(const std::string& tenant, const std::string& batch) override;
  void add_ready(const std::string& tenant, const std::string& batch, const std::string& model,
                 const std::string& kv, std::int64_t change) override;
  std::vector<ReadyJobs> ready(const std::string& tenant, const std::string& batch) override;
  std::optional<std::string> next_tenant(const std::string& after) override;
  void delete_counts(const std::string& tenant, const std::string& batch) override;

  std::optional<BatchRecord> find_batch(const std::string& tenant,
                                        const std::string& batch) override;
  void put_batch(const std::string& tenant, const BatchRecord& batch) override;
  void delete_batch(const std::string& tenant, const std::string& batch) override;
  std::vector<BatchRecord> list_batches(const std::string& tenant, const std::string& after,
                                        std::uint64_t max_batches) override;

  std::vector<std::string> paused_models(const std::string& tenant) override;
  void insert_pause(const std::string& tenant, const std::string& model) override;
  void delete_pause(const std::string& tenant, const std::string& model) override;

  void insert_lease(LeaseRecord& lease) override;
  std::optional<LeaseRecord> find_lease(LeaseId lease) override;
  void extend_lease(LeaseId lease, std::int64_t until_us) override;
  void delete_lease(LeaseId lease) override;
  std::uint64_t count_leases(const std::string& engine) override;
  std::vector<LeaseRecord> all_leases() override;
  std::vector<LeaseRecord> leases_until(std::int64_t until_us) override;
  std::vector<LeaseRecord> leases_of(const std::string& engine) override;

  std::uint64_t beat(std::int64_t alive_us) override;
  std::set<LeaseId> held_elsewhere(std::span<const LeaseId> leases) override;
  std::vector<News> read_news(NewsMarks& marks) override;

  std::optional<StreamRecord> find_stream(const std::string& tenant,
                                          const std::string& stream) override;
  std::uint64_t next_number(const std::string& tenant, const std::string& stream,
                            std::uint64_t bytes) override;
  void insert_entry(const std::string& tenant, const std::string& stream, std::uint64_t number,
                    const std::string& job, const Body& body, std::int64_t written_us) override;
  void scan_entries(const std::string& tenant, const std::string& stream, std::uint64_t from,
                    std::uint64_t max_entries, const EntryVisitor& visit) override;
  void scan_oldest(const std::string& tenant, const std::string& stream, std::uint64_t max_entries,
                   const SizeVisitor& visit) override;
  void delete_entries(const std::string& tenant, const std::string& stream,
                      std::uint64_t below) override;
  void update_stream(const std::string& tenant, const std::string& stream,
                     const StreamRecord& record) override;
  std::vector<StreamInfo> list_streams(const std::string& tenant, const std::string& after,
                                       std::uint64_t max_streams) override;
  std::optional<StreamPlace> next_stream(const StreamPlace& after) override;

  std::optional<CursorInfo> find_cursor(const std::string& tenant, const std::string& stream,
                                        const std::string& cursor) override;
  void set_cursor(const std::string& tenant, const std::string& stream,
                  const CursorInfo& cursor) override;
  void delete_cursor(const std::string& tenant, const std::string& stream,
                     const std::string& cursor) override;
  std::vector<CursorInfo> list_cursors(const std::string& tenant,
                                       const std::string& stream) override;

  void store_new(std::span<NewJob> jobs) override;
  std::vector<std::optional<LeasedJob>> find_leased(std::span<const LeaseId> leases) override;
  std::vector<ClaimableJob> claimable(const Claim& claim, std::uint32_t among,
                                      std::int64_t now_us) override;
  std::vector<RenewedLease> renew(const std::string& engine, std::span<const LeaseId> leases,
                                  std::int64_t until_us) override;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant and a name
  struct KeptJob {
    std::optional<JobRecord> record;  // none: there is no such job
    bool fresh = false;               // it has no row yet
    bool changed = false;
  };
  struct KeptStream {
    StreamRecord record;
    bool exists = true;
    bool changed = false;
  };
  // What is kept of a batch, or of the tenant: of the batch "". It includes the changes that wait.
  struct KeptBatch {
    StateCounts counts{};
    std::map<Key, std::int64_t> ready;  // by model and KV policy
    std::optional<BatchRecord> record;
  };
  struct Bodies {
    IntegerColumn sequences, checksums;
    TextColumn tenants, bodies;
  };
  struct Entries {
    TextColumn tenants, streams, jobs, bodies;
    IntegerColumn numbers, checksums, written;
  };
  struct Leases {
    IntegerColumn leases, until, alone;
    TextColumn tenants, jobs, engines;
  };
  // Of a row in the queue: tenant, among, model, KV policy, priority and sequence.
  using QueuePlace = std::tuple<std::string, std::uint32_t, std::string, std::string, std::uint32_t,
                                std::uint64_t>;
  static QueuePlace place_of(const JobRecord& job);
  // Tenant, batch, model and KV policy.
  using ReadyKey = std::tuple<std::string, std::string, std::string, std::string>;

  // Takes the tenant's lock where the transaction does not have it.
  void own(const std::string& tenant) {
    if (!owns(tenant)) lock({tenant});
  }
  bool owns(const std::string& tenant) const { return !writes_ || owned_.contains(tenant); }
  void lock(const std::set<std::string>& tenants);
  void own_leases(std::span<const LeaseId> leases);
  // Reads what is not kept yet, in one round trip.
  void expect(const ExpectedRecords& expected);
  ExpectedRecords missing(const ExpectedRecords& expected) const;
  void send_questions(const ExpectedRecords& missing);
  void take_answers(const ExpectedRecords& missing, std::span<const PostgresRows> answers);
  void take_jobs(const PostgresRows& jobs, const PostgresRows& leases);
  void take_batches(const ExpectedRecords& missing, std::span<const PostgresRows> answers);
  void expect_batches_of(std::span<const JobRecord* const> jobs);
  KeptBatch& kept_batch(const std::string& tenant, const std::string& batch);

  // Each sends the changes of its tables.
  void flush_jobs();
  void insert_jobs();
  void flush_bodies();
  void flush_queue();
  void flush_leases();
  void flush_counts();
  void flush_streams();
  void flush_entries();

  std::optional<JobRecord> read_job(const PostgresRows& rows, int row, int column);
  void keep(const JobRecord& job) { kept_[{job.tenant, job.job}] = {job, false, false}; }
  static std::vector<std::string> names(const PostgresRows& rows);
  BatchRecord read_batch(const PostgresRows& rows, int row);
  KeptStream* kept_stream(const std::string& tenant, const std::string& stream);
  void insert_body(const JobRecord& job, const Body& body);
  std::vector<std::uint64_t> next_sequences(std::size_t jobs);
  std::vector<QueuedJob> choose(const Claim& claim, std::uint32_t among, std::int64_t now_us);
  static LeaseRecord read_lease(const PostgresRows& rows, int row);
  static std::vector<LeaseRecord> read_leases(const PostgresRows& rows);
  static StreamRecord read_stream(const PostgresRows& rows, int row);

  PostgresConnection& connection_;
  const std::string broker_;
  bool others_live_ = false;  // other brokers do, in this transaction
  std::string epoch_;
  bool writes_ = false;
  std::set<std::string> owned_;  // tenants whose rows this transaction has locked

  std::map<Key, KeptJob> kept_;
  std::map<LeaseId, std::optional<LeaseRecord>> kept_leases_;
  std::map<Key, KeptBatch> batches_;
  std::map<std::string, std::set<std::string>> pauses_;  // models by tenant
  std::set<Key> changed_jobs_, deleted_jobs_;
  Bodies new_bodies_;
  TextColumn deleted_bodies_of_;
  IntegerColumn deleted_bodies_;
  // What becomes of a place of the queue: a row, or none.
  std::map<QueuePlace, std::optional<QueuedJob>> queue_;
  Leases new_leases_;
  IntegerColumn deleted_leases_;
  std::map<std::tuple<std::string, std::string, int>, std::int64_t> counts_;
  std::map<ReadyKey, std::int64_t> ready_;
  std::map<Key, KeptStream> streams_;
  Entries new_entries_;
  // Numbers of leases that the sequence gave and nobody has yet. After a transaction that was lost,
  // those that it asked for are not used, because a server that crashed gives them again, and those
  // that it used are not used either, because it may have taken place.
  std::deque<LeaseId> lease_numbers_;
  bool lease_numbers_are_new_ = false;  // this transaction asked for them
};

}  // namespace millrace::broker
