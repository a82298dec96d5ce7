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
#include "tests/simulation/order_checks.hpp"
#include "tests/simulation/suspect_checks.hpp"
#include "tests/simulation/tenant_checks.hpp"

namespace millrace::broker::simulation {

class LedgerChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  LedgerChecks(Ask ask, std::function<void(std::string)> violation, const Record& record,
               const Plan& plan, std::function<std::string(LeaseId)> place_of)
      : ask_(std::move(ask)),
        violation_(std::move(violation)),
        record_(record),
        suspects_(ask_, violation_, std::move(place_of)),
        tenants_(ask_, violation_, record, plan.tenants),
        order_(ask_, violation_, plan.tenants, plan.look_ahead) {}

  void know(const std::string& job, const std::string& tenant, const std::string& batch,
            const Body& body);
  void begins(std::span<const Operation> operations);  // call it before each commit
  void carried_out(std::span<const Operation> operations, std::span<const Result<Reply>> replies) {
    tenants_.carried_out(operations, replies);
    order_.carried_out(operations, replies);
  }
  void committed();  // call it after each commit
  void all();        // every job and the whole stream
  // A lease is on its way to an engine.
  void handed_out(const std::string& engine, const Lease& lease);
  TenantChecks& tenants() { return tenants_; }
  OrderChecks& order() { return order_; }

 private:
  struct Known {
    std::string tenant, batch;
    Body body;
    std::uint64_t number = 0;  // of its result; 0: it has not ended
    JobState end = JobState::queued;
  };
  void check_job(const std::string& id, Known& known, const GetJobReply& job);
  using Batch = std::pair<std::string, std::string>;  // of a tenant; "": the tenant itself
  void check_counts(const std::map<Batch, JobCounts>& counts);
  void check_ready(const std::map<std::string, std::uint64_t>& expected);
  void check_stream(const std::string& tenant);
  std::vector<LapsedLease> live_leases();
  void check_pauses(const std::vector<LapsedLease>& live);

  Ask ask_;
  std::function<void(std::string)> violation_;
  const Record& record_;
  SuspectChecks suspects_;
  TenantChecks tenants_;
  OrderChecks order_;
  std::map<std::string, Known> jobs_;
  bool claims_ = false, resumes_ = false;  // the commit under way may hand out, or resume
  struct Paused {
    bool all = false;
    std::set<std::string> models, batches;
  };
  std::map<std::string, Paused> paused_;  // by tenant, before that commit
  LeaseId last_lease_ = 0;
  std::map<LeaseId, std::pair<std::string, std::string>> given_;  // engine and job
  std::map<std::string, std::uint64_t> ended_;                    // jobs in the stream: number
  std::map<std::string, std::uint64_t> high_;                     // of the stream of each tenant
  std::uint64_t commits_ = 0;
};

}  // namespace millrace::broker::simulation
