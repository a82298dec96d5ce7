#pragma once
// The changes of a job's state, each with all that follows from it: its place in the queue, its
// lease, its result, the counts. No step checks whether it is allowed; the rule does so before.
// Errors are sticky in the records. Thread safety: one thread at a time.
#include <cstdint>
#include <map>
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

  // Each of these changes both `job` and what is stored.
  void stored(const JobRecord& job);  // after Records::store_new has stored it
  LeaseId hand_out(JobRecord& job, const Claim& claim, bool alone);
  void put_back(JobRecord& job);         // from leased or failed to queued; the job's marks stay
  void clear_suspicion(JobRecord& job);  // queued or leased
  void request_cancel(JobRecord& job);
  void forget(const JobRecord& job);  // an ended one
  FinishReply end(JobRecord& job, const Outcome& outcome);
  FinishReply end_here(JobRecord& job, JobState state, Code reason);  // the ledger's own decision
  FinishReply append(const std::string& tenant, const std::string& stream, const std::string& job,
                     const Body& body, JobState state);

 private:
  void count(const JobRecord& job, std::int64_t change);
  void move_to(JobRecord& job, JobState state);

  Records& records_;
  const Publish& publish_;
  std::int64_t now_us_ = 0;
  std::map<std::string, StateCounts> counts_;  // by tenant, for those asked for so far
  // Changes of this transaction by (tenant, batch).
  std::map<std::pair<std::string, std::string>, StateCounts> changes_;
};

}  // namespace millrace::broker
