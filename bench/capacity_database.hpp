#pragma once
// The model of a database that capacity_bench uses: what a commit takes, and the tenants that it
// locks meanwhile. Thread safety: none.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker::capacity {

struct Setup {
  std::map<std::string, double> values{
      {"brokers", 2}, {"engines", 20},        {"tenants", 10},   {"jobs", 20'000},
      {"rows", 64},   {"job_s", 10},          {"own", 0},        {"seconds", 30},
      {"row_us", 30}, {"round_trip_us", 200}, {"sync_us", 1'000}};
  double operator[](const std::string& name) const { return values.at(name); }
  std::uint64_t count(const std::string& name) const {
    return static_cast<std::uint64_t>(values.at(name));
  }
};

// The kinds of operations that are told apart, and which an operation is.
constexpr std::array<const char*, 6> kinds{"ends", "claims", "renewals", "sweeps", "news", "other"};
inline std::size_t kind_of(const Operation& operation) {
  if (std::holds_alternative<Finish>(operation)) return 0;
  if (std::holds_alternative<Claim>(operation)) return 1;
  if (std::holds_alternative<ClaimShared>(operation)) return 1;
  if (std::holds_alternative<Renew>(operation)) return 2;
  if (std::holds_alternative<ExpireJobs>(operation)) return 3;
  if (std::holds_alternative<StartJobs>(operation)) return 3;
  if (std::holds_alternative<Retain>(operation)) return 3;
  return std::holds_alternative<ReadNews>(operation) ? 4 : 5;
}

// The database: what a commit takes, and which tenants it locks.
class Database {
 public:
  explicit Database(const Setup& setup) : setup_(setup) {}

  struct Cost {
    std::int64_t us = 0;
    std::set<std::string> tenants;
  };
  Cost cost_of(const std::vector<Operation>& operations) const {
    Cost cost;
    double trips = 2, rows = 0;
    bool writes = false;
    for (const Operation& operation : operations) {
      writes = writes || !only_reads(operation);
      if (!only_reads(operation))
        std::visit([&](const auto& op) { lock(op, cost.tenants); }, operation);
      const std::size_t kind = kind_of(operation);
      trips = std::max(trips, kind == 0 ? 3.0 : kind == 1 ? 5.0 : 2.0);
      rows += rows_of(operation);
    }
    if (!writes) cost.tenants.clear();
    cost.us = static_cast<std::int64_t>(trips * setup_["round_trip_us"] + rows * setup_["row_us"] +
                                        (writes ? setup_["sync_us"] : 0));
    return cost;
  }
  // When the commit has its locks. They are held for as long as it takes.
  std::int64_t begin(const Cost& cost, std::int64_t now_us, bool counted) {
    std::int64_t start_us = now_us;
    for (const std::string& tenant : cost.tenants) {
      start_us = std::max(start_us, free_us_[tenant]);
    }
    for (const std::string& tenant : cost.tenants) {
      free_us_[tenant] = start_us + cost.us;
      if (counted) busy_us_[tenant] += cost.us;
    }
    return start_us;
  }
  void leased(const ClaimReply& reply) {
    for (const ClaimedJob& job : reply.jobs) tenant_of_[job.lease] = job.tenant;
  }
  void ended(LeaseId lease) { tenant_of_.erase(lease); }
  std::int64_t most_busy_us() const {
    std::int64_t most = 0;
    for (const auto& [tenant, us] : busy_us_) most = std::max(most, us);
    return most;
  }

 private:
  // A lease that is renewed is one short change of many in a statement.
  static double rows_of(const Operation& operation) {
    if (const auto* renew = std::get_if<Renew>(&operation)) {
      return 0.1 * static_cast<double>(renew->leases.size());
    }
    if (const auto* claim = std::get_if<Claim>(&operation)) return claim->max_jobs;
    if (const auto* claim = std::get_if<ClaimShared>(&operation)) return claim->max_jobs;
    return only_reads(operation) ? 0.1 : 1;
  }
  void lock(const ClaimShared& op, std::set<std::string>& tenants) const {
    for (const TenantShare& share : op.shares) tenants.insert(share.tenant);
  }
  template <class Op>
  void lock(const Op& op, std::set<std::string>& tenants) const {
    if constexpr (requires { op.tenant; }) tenants.insert(op.tenant);
    if constexpr (requires { op.lease; }) of_lease(op.lease, tenants);
    if constexpr (requires { op.leases; }) {
      for (const LeaseId lease : op.leases) of_lease(lease, tenants);
    }
  }
  void of_lease(LeaseId lease, std::set<std::string>& tenants) const {
    const auto at = tenant_of_.find(lease);
    if (at != tenant_of_.end()) tenants.insert(at->second);
  }

  const Setup& setup_;
  std::map<std::string, std::int64_t> free_us_, busy_us_;  // by tenant
  std::map<LeaseId, std::string> tenant_of_;
};

}  // namespace millrace::broker::capacity
