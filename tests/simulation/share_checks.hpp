#pragma once
// Whether tenants whose jobs wait get their shares of the engines, which serve all of them. It sees
// the claims that the broker asks for, and what the ledger gives to them:
//   - a tenant that the broker knows to have ready jobs takes part in every claim of jobs;
//   - of two that wait all the time, each gets tokens in proportion to its weight. Over any part of
//     that time the tokens of one, divided by its weight, differ from those of the other by no more
//     than the bound of broker/core/fair_share.hpp. So nobody starves.
// The broker knows that a tenant has ready jobs from the moment when it reads the ledger's count of
// them, each second, until a claim finds no more, or they are paused or cancelled.
// Thread safety: none.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker::simulation {

class ShareChecks {
 public:
  using Ask = std::function<Result<Reply>(const Operation&)>;
  ShareChecks(Ask ask, std::function<void(std::string)> violation, const TenantTable& limits);

  void know(const std::string& tenant, std::uint64_t cost_tokens);  // of a job
  void asked(const Operation& operation);                           // the broker wants it done
  void carried_out(std::span<const Operation> operations, std::span<const Result<Reply>> replies);
  void answered();   // all replies of a commit have reached the broker
  void unknown();    // nobody knows when the ledger carried out a commit
  void restarted();  // another broker, which knows nothing
  std::uint64_t compared() const { return compared_; }  // claims, while two tenants waited
  std::uint64_t bounds() const { return bounds_; }  // how often a tenant got as much as a bound is

 private:
  struct Both {  // of two tenants that wait: what the first got more than the second, by weight
    double now = 0, least = 0, most = 0;
    double got = 0;  // by the one that got less
    double first = 0, second = 0;
  };
  using Pair = std::pair<std::string, std::string>;
  std::uint64_t posted(const std::string& engine);
  void claimed(const std::string& engine, const std::map<std::string, bool>& tenants,
               const ClaimReply& reply);
  void shared(const ClaimShared& claim, const Result<Reply>& reply);
  void alone(const Claim& claim, const Result<Reply>& reply);
  void compare(const Pair& pair, Both& both, std::map<std::string, double> tokens);
  double bound(const Pair& pair) const;
  void end(const std::string& tenant);  // it may wait no more
  void count();

  Ask ask_;
  std::function<void(std::string)> violation_;
  const TenantTable& limits_;
  std::map<std::string, std::uint64_t> largest_;            // cost of a job, by tenant
  std::map<std::string, std::deque<std::uint64_t>> asked_;  // when, by engine
  std::uint64_t time_ = 0;                                  // counts commits that were answered
  std::set<std::string> heard_;  // of these the broker is about to hear that they wait
  std::map<std::string, std::uint64_t> since_;  // when the others heard it
  std::map<Pair, Both> pairs_;
  std::uint64_t under_way_ = 0, most_under_way_ = 0;  // claims
  std::uint64_t compared_ = 0, bounds_ = 0;
  bool recount_ = false;
};

}  // namespace millrace::broker::simulation
