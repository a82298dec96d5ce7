#pragma once
// The records as rows of the tables in README.md. Numbers that many operations of a transaction
// take (sequences, leases, the last numbers of streams) are kept in memory and written once, at its
// end. Errors are sticky in the Database. Thread safety: one thread at a time.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/records.hpp"
#include "broker/ledger/sqlite_database.hpp"

namespace millrace::broker {

class SqliteRecords final : public Records {
 public:
  explicit SqliteRecords(Database& database);  // the tables must exist

  void load();   // reads the counters; call it after opening and after each rollback
  void flush();  // writes what is kept in memory; call it before each commit

  const Status& status() const override { return database_.status(); }
  void note_corruption(const std::string& what) override;
  const std::string& epoch() const override { return epoch_; }

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
  struct KeptStream {
    StreamRecord record;
    bool changed = false;
  };
  KeptStream* kept_stream(const std::string& tenant, const std::string& stream);
  void flush_streams();
  void insert_body(const JobRecord& job, const Body& body);
  std::optional<JobRecord> read_job(const Statement& row, int column, std::string tenant,
                                    std::string job);
  BatchRecord read_batch(const Statement& row);
  std::vector<LeaseRecord> read_leases(Statement& rows, bool row);
  Statement& queue_reader(std::size_t place);
  static QueuedJob read_queued(const Statement& row);
  std::vector<Statement*> queue_heads(const Claim& claim, std::uint32_t among);

  Database& database_;
  std::string epoch_;
  std::int64_t next_sequence_ = 1, next_lease_ = 1;
  bool counters_changed_ = false;
  std::map<std::pair<std::string, std::string>, KeptStream> streams_;  // of this transaction

  Statement select_meta_, select_counter_, update_counter_;
  Statement select_job_, insert_job_, insert_new_job_, update_job_;
  Statement insert_body_, select_body_, delete_body_;
  Statement select_due_, select_starting_, select_batch_, list_jobs_, list_failed_;
  Statement select_ended_, delete_job_, select_incident_;
  Statement insert_queue_, delete_queue_, select_queue_page_, select_suspects_, select_among_;
  std::vector<std::unique_ptr<Statement>> select_queue_;  // one for each queue of the widest claim
  Statement add_ready_, delete_ready_, select_ready_;
  Statement add_count_, select_counts_, select_tenant_, delete_counts_;
  Statement select_batch_record_, put_batch_, delete_batch_, list_batches_;
  Statement select_set_aside_, next_set_aside_, select_pauses_, insert_pause_, delete_pause_;
  Statement select_lease_, insert_lease_, update_lease_, delete_lease_, count_leases_;
  Statement select_leases_, select_leases_until_, select_leases_of_engine_;
  Statement select_leased_, select_renewed_, select_claimable_;
  Statement select_stream_, insert_stream_, list_streams_, next_stream_;
  Statement insert_entry_, select_entries_, select_sizes_, delete_entries_;
  Statement select_cursor_, set_cursor_, delete_cursor_, list_cursors_;
};

}  // namespace millrace::broker
