#pragma once
// The state of a ledger in memory, and its operations, one function each. It is the plainest
// implementation of ledger.hpp, and tests compare the other ledgers with it. Private to
// memory_ledger.cpp, memory_store.cpp and memory_streams.cpp. Thread safety: use it under `mutex`.
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/memory_ledger.hpp"

namespace millrace::broker {

class MemoryStore {
 public:
  explicit MemoryStore(MemoryStoreOptions options);
  // Carries out one operation. The caller holds `mutex`.
  Result<Reply> carry_out(const Operation& operation, std::int64_t now_us);

  std::mutex mutex;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant and a name
  struct JobRecord {
    SubmitJob given;  // its body is dropped when the job cannot run again
    JobState state = JobState::queued;
    std::uint64_t sequence = 0;  // order of submission
    std::int64_t submitted_us = 0, suspect_us = 0;
    std::uint32_t attempts = 0, failures = 0;
    bool suspect = false, cancel_requested = false;
    std::uint64_t number = 0;
    LeaseId lease = 0;
  };
  struct LeaseRecord {
    JobRecord* job = nullptr;
    std::string engine;
    std::int64_t until_us = 0;
    bool alone = false;
  };
  struct Stream {
    std::uint64_t first = 1;
    std::deque<Entry> entries;
    std::map<std::string, std::uint64_t> cursors;
    std::uint64_t high() const { return first - 1 + entries.size(); }
  };
  using InOrder = std::set<std::pair<std::uint64_t, JobRecord*>>;  // by sequence
  using Queue = std::map<std::pair<std::uint32_t, std::uint64_t>, JobRecord*>;

  Result<Reply> carry_out(const SubmitJob& op);
  Result<Reply> carry_out(const Claim& op);
  Result<Reply> carry_out(const Renew& op);
  Result<Reply> carry_out(const Finish& op);
  Result<Reply> carry_out(const GiveBack& op);
  Result<Reply> carry_out(const FindLapsed& op);
  Result<Reply> carry_out(const ExpireJobs& op);
  Result<Reply> carry_out(const CancelJobs& op);
  Result<Reply> carry_out(const RetryJobs& op);
  Result<Reply> carry_out(const ReadStream& op);
  Result<Reply> carry_out(const ListStreams& op);
  Result<Reply> carry_out(const MoveCursor& op);
  Result<Reply> carry_out(const TrimStream& op);
  Result<Reply> carry_out(const Append& op);
  Result<Reply> carry_out(const GetJob& op);
  Result<Reply> carry_out(const Count& op);

  JobRecord* find_job(const std::string& tenant, const std::string& job);
  Queue& queue_of(const JobRecord& job);
  void enqueue(JobRecord& job);
  void dequeue(JobRecord& job);
  void drop_lease(JobRecord& job);
  void set_state(JobRecord& job, JobState state);
  std::vector<JobRecord*> next_queued(const Claim& op);
  FinishReply append(const std::string& tenant, const std::string& stream, const std::string& job,
                     Body body, JobState state);
  FinishReply end(JobRecord& job, const Outcome& outcome);
  FinishReply end_here(JobRecord& job, JobState state, Code reason);
  void cancel(JobRecord& job, CancelReply& reply);
  void retry(JobRecord& job);
  LapsedLease describe(LeaseId id, const LeaseRecord& lease) const;

  MemoryStoreOptions options_;
  std::int64_t now_us_ = 0;
  std::uint64_t next_sequence_ = 1;
  LeaseId next_lease_ = 1;
  std::map<Key, JobRecord> jobs_;
  // The key is tenant, suspect, model and KV policy.
  std::map<std::tuple<std::string, bool, std::string, std::string>, Queue> queues_;
  std::set<std::tuple<std::string, std::int64_t, std::uint64_t, JobRecord*>> deadlines_;
  std::map<LeaseId, LeaseRecord> leases_;
  std::map<Key, std::array<InOrder, 6>> batches_;               // by state
  std::map<std::string, std::array<std::uint64_t, 6>> counts_;  // of a tenant, by state
  std::map<Key, Stream> streams_;
};

}  // namespace millrace::broker
