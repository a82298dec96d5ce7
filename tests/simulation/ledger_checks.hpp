#pragma once
// The invariants of the ledger and of its leases, checked while a run goes on. The cheap ones hold
// after each commit; all jobs and the stream are looked at after each 32nd one and at the end.
// Thread safety: none.
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "tests/simulation/actors.hpp"
#include "tests/simulation/suspect_checks.hpp"

namespace millrace::broker::simulation {

class LedgerChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  LedgerChecks(Ask ask, std::function<void(std::string)> violation, const Record& record)
      : ask_(std::move(ask)),
        violation_(std::move(violation)),
        record_(record),
        suspects_(ask_, violation_) {}

  void know(const std::string& job, const std::string& batch, const Body& body);
  void begins(std::span<const Operation> operations);  // call it before each commit
  void committed();                                    // call it after each commit
  void all();                                          // every job and the whole stream
  // A lease is on its way to an engine.
  void handed_out(const std::string& engine, const Lease& lease);

 private:
  struct Known {
    std::string batch;
    Body body;
    std::uint64_t number = 0;  // of its result; 0: it has not ended
    JobState end = JobState::queued;
  };
  void check_job(const std::string& id, Known& known, const GetJobReply& job);
  void check_counts(const std::map<std::string, JobCounts>& counts);
  void check_ready(std::uint64_t expected);
  void check_stream();
  std::vector<LapsedLease> live_leases();
  void check_pauses(const std::vector<LapsedLease>& live);

  Ask ask_;
  std::function<void(std::string)> violation_;
  const Record& record_;
  SuspectChecks suspects_;
  std::map<std::string, Known> jobs_;
  bool resumes_ = false;     // the commit under way may resume something
  bool all_paused_ = false;  // before that commit, as the next two
  std::set<std::string> paused_models_, paused_batches_;
  LeaseId last_lease_ = 0;
  std::map<LeaseId, std::pair<std::string, std::string>> given_;  // engine and job
  std::map<std::string, std::uint64_t> ended_;                    // jobs in the stream: number
  std::uint64_t next_number_ = 1, commits_ = 0;
};

}  // namespace millrace::broker::simulation
