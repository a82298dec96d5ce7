#pragma once
// The records in memory, with the indexes that other stores have as tables. Each change notes how
// to undo it, so that a transaction can be rolled back. It offers the plain forms of the operations
// on sets. Private to the ledger in memory. Thread safety: use it under the store's mutex.
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "broker/ledger/records.hpp"

namespace millrace::broker {

// Who carries out a transaction: a handle, and the broker that it belongs to. No broker: its leases
// are nobody's, and it tells and learns no news.
struct MemoryCaller {
  std::string handle, broker;
};

class MemoryRecords final : public Records {
 public:
  explicit MemoryRecords(std::string epoch) : epoch_(std::move(epoch)) {}

  // Begins a transaction of this handle, at `now_us` of the store's clock. `batch` numbers those
  // that change something; 0: it only reads.
  void begin(const MemoryCaller& caller, std::uint64_t batch, std::int64_t now_us);
  void keep();  // ends a transaction and keeps its changes
  void undo();  // ends it and takes them back
  // Whether other brokers live, which have to be told; and tells them.
  bool others_live() const;
  void tell(std::vector<News> news);

  const Status& status() const override { return status_; }
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

 private:
  using Key = std::pair<std::string, std::string>;            // tenant and a name
  using InOrder = std::map<std::uint64_t, const JobRecord*>;  // by sequence
  struct KeptEntry {
    Entry entry;
    std::int64_t written_us = 0;
  };
  struct Stream {
    StreamRecord record;
    std::deque<KeptEntry> entries;
    std::map<std::string, CursorInfo> cursors;
  };

  struct KeptLease {
    LeaseRecord record;
    std::string broker;  // that handed it out or renewed it last
  };
  struct Told {
    std::uint64_t batch = 0;
    std::int64_t written_us = 0;
    News news;
  };
  struct Handle {
    std::string broker;
    std::uint64_t batch = 0;  // of its last transaction
    std::deque<Told> news;
  };

  void put_job(JobRecord job);  // inserts or replaces
  void index(const JobRecord& job);
  void unindex(const JobRecord& job);
  void put_lease(KeptLease lease);
  void remove_lease(LeaseId lease);
  void note_undo(std::function<void()> step) { undo_.push_back(std::move(step)); }

  bool lives(const std::string& broker) const;
  void forget_news_of(const std::string& broker, std::int64_t until_us);

  const std::string epoch_;
  Status status_;
  std::vector<std::function<void()>> undo_;  // of this transaction, in the order of the changes

  std::uint64_t next_sequence_ = 1;
  LeaseId next_lease_ = 1;
  std::map<Key, JobRecord> jobs_;
  std::map<std::pair<std::string, std::uint64_t>, Body> bodies_;
  // Ids by tenant, time and sequence.
  using ByTime = std::map<std::tuple<std::string, std::int64_t, std::uint64_t>, std::string>;
  static std::vector<std::string> until(const ByTime& jobs, const std::string& tenant,
                                        std::int64_t until_us, std::uint64_t max_jobs);
  ByTime deadlines_, starts_;
  std::map<Key, const JobRecord*> failed_;
  std::map<std::tuple<std::string, std::string, JobState>, InOrder> batches_;
  std::map<Key, InOrder> set_aside_;                                    // by batch; none is empty
  std::set<Key> pauses_;                                                // tenant and model
  std::set<std::tuple<std::int64_t, std::string, std::string>> ended_;  // time, tenant, job
  std::map<std::uint64_t, InOrder> incidents_;
  // The key is tenant, JobRecord::among, model and KV policy.
  using QueueName = std::tuple<std::string, std::uint32_t, std::string, std::string>;
  static QueueName queue_of(const JobRecord& job);
  std::map<QueueName, std::map<Place, QueuedJob>> queues_;
  std::map<Key, StateCounts> counts_;
  std::map<Key, std::map<Key, std::int64_t>> ready_;  // by tenant and batch, then model and policy
  std::map<Key, BatchRecord> batch_records_;
  std::map<LeaseId, KeptLease> leases_;
  std::map<std::string, std::set<LeaseId>> leases_by_engine_;
  std::set<std::pair<std::int64_t, LeaseId>> leases_by_end_;
  std::map<Key, Stream> streams_;

  MemoryCaller caller_;  // of this transaction, and its time
  std::int64_t now_us_ = 0;
  std::map<std::string, std::int64_t> brokers_;  // until when each lives
  std::map<std::string, Handle> handles_;        // of brokers, by name
};

}  // namespace millrace::broker
