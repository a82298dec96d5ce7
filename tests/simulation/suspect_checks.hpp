#pragma once
// The invariants of suspects, checked from the ledger after each commit. Thread safety: none.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker::simulation {

class SuspectChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  // `place_of`: leases of one engine and one place count as running together.
  SuspectChecks(Ask ask, std::function<void(std::string)> violation,
                std::function<std::string(LeaseId)> place_of)
      : ask_(std::move(ask)), violation_(std::move(violation)), place_of_(std::move(place_of)) {}

  void know(const std::string& job, const std::string& tenant) { jobs_[job] = tenant; }
  void committed(const std::vector<LapsedLease>& live);  // call it after each commit

 private:
  struct Seen {  // of a job, when it was last leased
    bool alone = false;
    std::uint32_t among = 0, failures = 0;
    std::uint64_t incident = 0;
  };
  void check_engine(const std::string& engine, const std::vector<LapsedLease>& leases);
  void check_history(const LapsedLease& lease, const GetJobReply& job);
  void check_failed(const std::string& job, const std::string& tenant);
  bool was_damaged(const std::string& tenant, const GetJobReply& job);

  Ask ask_;
  std::function<void(std::string)> violation_;
  std::function<std::string(LeaseId)> place_of_;
  std::map<std::string, std::string> jobs_;  // with their tenants
  std::set<std::string> failed_;
  std::map<std::string, Seen> seen_;
};

}  // namespace millrace::broker::simulation
