#pragma once
// The order in which a tenant's jobs are handed out, checked in runs with long queues. Of the jobs
// that stay ready throughout a commit,
//   - none has a smaller priority number than a job of its tenant that the commit handed out;
//   - none of the same priority is passed by a job that was submitted as many places behind it as a
//     claim may look ahead (broker/ledger/claim_order.hpp), and, where there are tails, as many
//     again as these reach (broker/ledger/tails.hpp). So no more jobs than that overtake it.
// Thread safety: none.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker::simulation {

class OrderChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  // `look_ahead`: places that a claim may look ahead; 0: nothing is checked.
  OrderChecks(Ask ask, std::function<void(std::string)> violation, const TenantTable& tenants,
              std::uint64_t look_ahead);

  void know(const std::string& job, const std::string& tenant, std::uint32_t priority);
  void begins(std::span<const Operation> operations);  // call it before each commit
  void carried_out(std::span<const Operation> operations, std::span<const Result<Reply>> replies);
  std::uint64_t overtaken() const { return overtaken_; }  // times that a job was

 private:
  struct Known {
    std::string tenant;
    std::uint32_t priority = 0;
    std::optional<std::uint64_t> place{};  // in the order of submission; none: not known
  };
  std::set<std::string> ready_jobs();
  void submitted(const std::string& job, bool known);
  void handed_out(const std::string& job, const std::string& left, std::uint64_t most);

  Ask ask_;
  std::function<void(std::string)> violation_;
  const TenantTable& tenants_;
  const std::uint64_t look_ahead_;
  bool claims_ = false;           // the commit under way may hand out jobs
  std::set<std::string> before_;  // jobs that were ready before it
  std::map<std::string, Known> jobs_;
  std::set<std::string> stored_;
  std::uint64_t overtaken_ = 0;
};

}  // namespace millrace::broker::simulation
