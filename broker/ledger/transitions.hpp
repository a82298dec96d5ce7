#pragma once
// The changes of a job's state, each with all that follows from it: its place in the queue, its
// lease, its result, the counts. No step checks whether it is allowed; the rule does so before.
// Errors are sticky in the records. Thread safety: one thread at a time.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "broker/ledger/records.hpp"

namespace millrace::broker {

class Transitions {
 public:
  Transitions(Records& records, const Publish& publish) : records_(records), publish_(publish) {}

  void begin(std::int64_t now_us);  // of a transaction
  void flush();  // writes the counts; call it before each commit and before counts are read

  std::int64_t now_us() const { return now_us_; }
  // The tenant's jobs in this state. Includes this transaction's changes.
  std::uint64_t count_of(const std::string& tenant, JobState state);

  // ---- ready jobs (records.hpp), this transaction's changes included
  // Those of the tenant whose model is not paused.
  std::uint64_t ready_of(const std::string& tenant);
  // Those of a batch, or with "" of the tenant, that are in the queues of the claim.
  std::uint64_t ready_for(const Claim& claim, const std::string& batch);

  // Each of these changes both `job` and what is stored.
  void stored(const JobRecord& job);  // after Records::store_new has stored it
  LeaseId hand_out(JobRecord& job, const Claim& claim, bool alone);
  void put_back(JobRecord& job);   // from leased or failed to queued; the job's marks stay
  void start(JobRecord& job);      // one that waited for its time, or was set aside
  void set_aside(JobRecord& job);  // a queued one whose batch is paused
  // From leased to waiting for a start at `start_us`.
  FinishReply run_later(JobRecord& job, const Error& error, std::int64_t start_us);
  void clear_suspicion(JobRecord& job);  // queued or leased
  void request_cancel(JobRecord& job);
  void forget(const JobRecord& job);  // an ended one
  // ---- the job's batch
  bool is_closed(const std::string& tenant, const std::string& batch);
  bool is_paused(const std::string& tenant, const std::string& batch);
  void reopen(const JobRecord& job);  // its batch has not finished
  // Finishes a batch that is closed and whose jobs have all ended. Returns the number of the entry
  // that tells it; 0 where the batch has not finished, or did before.
  std::uint64_t finish_batch(const std::string& tenant, const std::string& batch);
  void update_batch(const std::string& tenant, const BatchRecord& record);
  void forget_batch(const std::string& tenant, const std::string& batch);
  // ---- the pauses of a tenant: models, and "" for all its jobs
  const std::set<std::string>& pauses_of(const std::string& tenant);
  void change_pause(const std::string& tenant, const std::string& model, bool paused);
  PausedBy paused_by(const JobRecord& job);  // while it is queued
  FinishReply end(JobRecord& job, const Outcome& outcome);
  FinishReply end_here(JobRecord& job, JobState state, Code reason);  // the ledger's own decision
  FinishReply append(const std::string& tenant, const std::string& stream, const std::string& job,
                     const Body& body, JobState state);

 private:
  struct Book {  // of a batch, read once in a transaction
    std::optional<BatchRecord> record;
    std::int64_t open = 0;  // jobs that have not ended
  };
  using Queues = std::map<std::pair<std::string, std::string>, std::int64_t>;  // by model, policy
  struct Ready {  // jobs of a batch, or of the tenant; read once in a transaction
    Queues jobs, changes;
  };
  Ready& ready_in(const std::string& tenant, const std::string& batch);
  void add_ready(const std::string& tenant, const std::string& batch, const Queues& jobs,
                 int times);
  void count_ready(const JobRecord& job, int change);
  Book& book_of(const std::string& tenant, const std::string& batch);
  void enqueue_if_started(const JobRecord& job);
  void dequeue_if_started(const JobRecord& job);
  void count(const JobRecord& job, std::int64_t change);
  void move_to(JobRecord& job, JobState state);

  Records& records_;
  const Publish& publish_;
  std::int64_t now_us_ = 0;
  std::map<std::string, StateCounts> counts_;  // by tenant, for those asked for so far
  // Changes of this transaction by (tenant, batch).
  std::map<std::pair<std::string, std::string>, StateCounts> changes_;
  std::map<std::pair<std::string, std::string>, Book> books_;
  std::map<std::pair<std::string, std::string>, Ready> ready_;
  std::map<std::string, std::set<std::string>> pauses_;  // by tenant, read once in a transaction
};

}  // namespace millrace::broker
