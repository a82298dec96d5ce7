#pragma once
// A store in front of another. Its records pass on every operation but those on sets, whose plain
// forms it uses: so it shows what the plain forms do on any store. Thread safety: that of the store
// behind it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/store.hpp"

namespace millrace::broker::test {

class ForwardingRecords : public Records {
 public:
  explicit ForwardingRecords(Records& to) : to_(to) {}

  const Status& status() const override { return to_.status(); }
  void note_corruption(const std::string& what) override { to_.note_corruption(what); }
  const std::string& epoch() const override { return to_.epoch(); }

  void expect_jobs(const std::string& tenant, std::span<const std::string> jobs) override {
    if (step()) to_.expect_jobs(tenant, jobs);
  }
  std::optional<JobRecord> find_job(const std::string& tenant, const std::string& job) override {
    return step() ? to_.find_job(tenant, job) : std::nullopt;
  }
  void insert_job(JobRecord& job, const Body& body) override {
    if (step()) to_.insert_job(job, body);
  }
  void update_job(const JobRecord& job) override {
    if (step()) to_.update_job(job);
  }
  std::optional<Body> find_body(const JobRecord& job) override {
    return step() ? to_.find_body(job) : std::nullopt;
  }
  void delete_body(const JobRecord& job) override {
    if (step()) to_.delete_body(job);
  }
  void delete_job(const JobRecord& job) override {
    if (step()) to_.delete_job(job);
  }
  std::vector<JobName> ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) override {
    return step() ? to_.ended_jobs(until_us, max_jobs) : std::vector<JobName>();
  }
  std::vector<std::string> due_jobs(const std::string& tenant, std::int64_t until_us,
                                    std::uint64_t max_jobs) override {
    return step() ? to_.due_jobs(tenant, until_us, max_jobs) : std::vector<std::string>();
  }
  std::vector<std::string> starting_jobs(const std::string& tenant, std::int64_t until_us,
                                         std::uint64_t max_jobs) override {
    return step() ? to_.starting_jobs(tenant, until_us, max_jobs) : std::vector<std::string>();
  }
  std::vector<BatchJob> jobs_of_batch(const BatchScan& scan) override {
    return step() ? to_.jobs_of_batch(scan) : std::vector<BatchJob>();
  }
  std::vector<std::string> set_aside(const std::string& tenant, const std::string& batch,
                                     std::uint64_t max_jobs) override {
    return step() ? to_.set_aside(tenant, batch, max_jobs) : std::vector<std::string>();
  }
  std::optional<std::string> next_set_aside(const std::string& tenant,
                                            const std::string& after) override {
    return step() ? to_.next_set_aside(tenant, after) : std::nullopt;
  }
  std::vector<std::string> paused_models(const std::string& tenant) override {
    return step() ? to_.paused_models(tenant) : std::vector<std::string>();
  }
  void insert_pause(const std::string& tenant, const std::string& model) override {
    if (step()) to_.insert_pause(tenant, model);
  }
  void delete_pause(const std::string& tenant, const std::string& model) override {
    if (step()) to_.delete_pause(tenant, model);
  }
  std::vector<JobRecord> list_jobs(const std::string& tenant, bool failed, const std::string& after,
                                   std::uint64_t max_jobs) override {
    return step() ? to_.list_jobs(tenant, failed, after, max_jobs) : std::vector<JobRecord>();
  }

  std::vector<JobName> jobs_of_incident(std::uint64_t incident) override {
    return step() ? to_.jobs_of_incident(incident) : std::vector<JobName>();
  }

  void enqueue(const JobRecord& job) override {
    if (step()) to_.enqueue(job);
  }
  void dequeue(const JobRecord& job) override {
    if (step()) to_.dequeue(job);
  }
  std::vector<QueuedJob> queued_jobs(const QueueKey& queue, std::optional<Place> after,
                                     std::size_t max_jobs) override {
    return step() ? to_.queued_jobs(queue, after, max_jobs) : std::vector<QueuedJob>();
  }
  std::vector<QueuedSuspects> suspect_queues(const std::string& tenant) override {
    return step() ? to_.suspect_queues(tenant) : std::vector<QueuedSuspects>();
  }

  std::uint32_t next_among(const std::string& tenant, std::uint32_t after) override {
    return step() ? to_.next_among(tenant, after) : 0;
  }

  void add_count(const std::string& tenant, const std::string& batch, JobState state,
                 std::int64_t change) override {
    if (step()) to_.add_count(tenant, batch, state, change);
  }
  StateCounts counts(const std::string& tenant, const std::string& batch) override {
    return step() ? to_.counts(tenant, batch) : StateCounts{};
  }
  void add_ready(const std::string& tenant, const std::string& batch, const std::string& model,
                 const std::string& kv, std::int64_t change) override {
    if (step()) to_.add_ready(tenant, batch, model, kv, change);
  }
  std::vector<ReadyJobs> ready(const std::string& tenant, const std::string& batch) override {
    return step() ? to_.ready(tenant, batch) : std::vector<ReadyJobs>();
  }
  std::optional<std::string> next_tenant(const std::string& after) override {
    return step() ? to_.next_tenant(after) : std::nullopt;
  }
  void delete_counts(const std::string& tenant, const std::string& batch) override {
    if (step()) to_.delete_counts(tenant, batch);
  }

  std::optional<BatchRecord> find_batch(const std::string& tenant,
                                        const std::string& batch) override {
    return step() ? to_.find_batch(tenant, batch) : std::nullopt;
  }
  void put_batch(const std::string& tenant, const BatchRecord& batch) override {
    if (step()) to_.put_batch(tenant, batch);
  }
  void delete_batch(const std::string& tenant, const std::string& batch) override {
    if (step()) to_.delete_batch(tenant, batch);
  }
  std::vector<BatchRecord> list_batches(const std::string& tenant, const std::string& after,
                                        std::uint64_t max_batches) override {
    return step() ? to_.list_batches(tenant, after, max_batches) : std::vector<BatchRecord>();
  }

  void insert_lease(LeaseRecord& lease) override {
    if (step()) to_.insert_lease(lease);
  }
  std::optional<LeaseRecord> find_lease(LeaseId lease) override {
    return step() ? to_.find_lease(lease) : std::nullopt;
  }
  void extend_lease(LeaseId lease, std::int64_t until_us) override {
    if (step()) to_.extend_lease(lease, until_us);
  }
  void delete_lease(LeaseId lease) override {
    if (step()) to_.delete_lease(lease);
  }
  std::uint64_t count_leases(const std::string& engine) override {
    return step() ? to_.count_leases(engine) : 0;
  }
  std::vector<LeaseRecord> all_leases() override {
    return step() ? to_.all_leases() : std::vector<LeaseRecord>();
  }
  std::vector<LeaseRecord> leases_until(std::int64_t until_us) override {
    return step() ? to_.leases_until(until_us) : std::vector<LeaseRecord>();
  }
  std::vector<LeaseRecord> leases_of(const std::string& engine) override {
    return step() ? to_.leases_of(engine) : std::vector<LeaseRecord>();
  }

  std::uint64_t beat(std::int64_t alive_us) override { return step() ? to_.beat(alive_us) : 0; }
  std::set<LeaseId> held_elsewhere(std::span<const LeaseId> leases) override {
    return step() ? to_.held_elsewhere(leases) : std::set<LeaseId>();
  }
  std::vector<News> read_news(NewsMarks& marks) override {
    return step() ? to_.read_news(marks) : std::vector<News>();
  }

  std::optional<StreamRecord> find_stream(const std::string& tenant,
                                          const std::string& stream) override {
    return step() ? to_.find_stream(tenant, stream) : std::nullopt;
  }
  std::uint64_t next_number(const std::string& tenant, const std::string& stream,
                            std::uint64_t bytes) override {
    return step() ? to_.next_number(tenant, stream, bytes) : 0;
  }
  void insert_entry(const std::string& tenant, const std::string& stream, std::uint64_t number,
                    const std::string& job, const Body& body, std::int64_t written_us) override {
    if (step()) to_.insert_entry(tenant, stream, number, job, body, written_us);
  }
  void scan_entries(const std::string& tenant, const std::string& stream, std::uint64_t from,
                    std::uint64_t max_entries, const EntryVisitor& visit) override {
    if (step()) to_.scan_entries(tenant, stream, from, max_entries, visit);
  }
  void scan_oldest(const std::string& tenant, const std::string& stream, std::uint64_t max_entries,
                   const SizeVisitor& visit) override {
    if (step()) to_.scan_oldest(tenant, stream, max_entries, visit);
  }
  void delete_entries(const std::string& tenant, const std::string& stream,
                      std::uint64_t below) override {
    if (step()) to_.delete_entries(tenant, stream, below);
  }
  void update_stream(const std::string& tenant, const std::string& stream,
                     const StreamRecord& record) override {
    if (step()) to_.update_stream(tenant, stream, record);
  }
  std::vector<StreamInfo> list_streams(const std::string& tenant, const std::string& after,
                                       std::uint64_t max_streams) override {
    return step() ? to_.list_streams(tenant, after, max_streams) : std::vector<StreamInfo>();
  }
  std::optional<StreamPlace> next_stream(const StreamPlace& after) override {
    return step() ? to_.next_stream(after) : std::nullopt;
  }

  std::optional<CursorInfo> find_cursor(const std::string& tenant, const std::string& stream,
                                        const std::string& cursor) override {
    return step() ? to_.find_cursor(tenant, stream, cursor) : std::nullopt;
  }
  void set_cursor(const std::string& tenant, const std::string& stream,
                  const CursorInfo& cursor) override {
    if (step()) to_.set_cursor(tenant, stream, cursor);
  }
  void delete_cursor(const std::string& tenant, const std::string& stream,
                     const std::string& cursor) override {
    if (step()) to_.delete_cursor(tenant, stream, cursor);
  }
  std::vector<CursorInfo> list_cursors(const std::string& tenant,
                                       const std::string& stream) override {
    return step() ? to_.list_cursors(tenant, stream) : std::vector<CursorInfo>();
  }

 protected:
  virtual bool step() { return true; }  // false: the records have failed

 private:
  Records& to_;
};

class PlainStore final : public LedgerStore {
 public:
  explicit PlainStore(std::unique_ptr<LedgerStore> to)
      : to_(std::move(to)), records_(to_->records()) {}

  Records& records() override { return records_; }
  void expect(std::span<const Operation> operations) override { to_->expect(operations); }
  Status begin(bool writes) override { return to_->begin(writes); }
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    to_->tell_others(operations, replies);
  }
  Status commit() override { return to_->commit(); }
  Status roll_back() override { return to_->roll_back(); }
  Status room_for(std::uint64_t bytes) override { return to_->room_for(bytes); }
  Status release_reserve() override { return to_->release_reserve(); }
  Status idle() override { return to_->idle(); }

 private:
  std::unique_ptr<LedgerStore> to_;
  ForwardingRecords records_;
};

}  // namespace millrace::broker::test
