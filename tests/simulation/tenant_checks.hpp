#pragma once
// The limits of tenants, checked on the ledger after each commit:
//   - a tenant holds no more leases than it may;
//   - a new job is stored only while fewer of the tenant's jobs wait than may wait. Jobs that come
//     back from engines may go beyond that;
//   - the tenant's count of leased jobs is that of its leases (of one tenant after each commit, in
//     turns).
// Thread safety: none.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/ledger.hpp"
#include "tests/simulation/actors.hpp"

namespace millrace::broker::simulation {

class TenantChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  TenantChecks(Ask ask, std::function<void(std::string)> violation, const Record& record,
               const TenantTable& limits);

  void begins(std::span<const Operation> operations);  // call it before each commit
  void carried_out(std::span<const Operation> operations, std::span<const Result<Reply>> replies);
  void committed(const std::vector<LapsedLease>& live);             // call it after each commit
  std::uint64_t at_most_leases() const { return at_most_leases_; }  // commits after which one was

 private:
  JobCounts counts_of(const std::string& tenant);
  void check_leases(const std::map<std::string, std::uint64_t>& held);

  Ask ask_;
  std::function<void(std::string)> violation_;
  const Record& record_;
  const TenantTable& limits_;
  // Of the tenants that the commit under way brings jobs: how many may wait after it, as far as
  // nothing comes back.
  std::map<std::string, std::uint64_t> may_wait_;
  std::uint64_t commits_ = 0, at_most_leases_ = 0;
};

}  // namespace millrace::broker::simulation
