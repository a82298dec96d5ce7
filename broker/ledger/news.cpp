#include "broker/ledger/news.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace millrace::broker {
namespace {

class Gatherer {
 public:
  template <class Op, class R>
  void operator()(const Op& op, const R& reply) {
    if constexpr (requires { reply.ended.front().number; }) entries(reply.ended);
    if constexpr (requires { reply.numbers.front().number; }) entries(reply.numbers);
    told(op, reply);
  }

  std::vector<News> take() {
    for (const auto& [key, high] : highs_) {
      news_.push_back({News::Kind::entry, key.first, key.second, high});
    }
    for (const auto& [tenant, jobs] : work_) news_.push_back({News::Kind::work, tenant, "", jobs});
    for (const auto& tenant : suspects_) news_.push_back({News::Kind::suspects, tenant, "", 0});
    return std::move(news_);
  }

 private:
  template <class Op, class R>
  void told(const Op&, const R&) {}
  void told(const SubmitJob& op, const SubmitReply& reply) {
    if (reply.ready) work(op.tenant, 1);
  }
  void told(const Finish&, const FinishReply& reply) { entry(reply); }
  void told(const Append&, const FinishReply& reply) { entry(reply); }
  void told(const UpdateBatch& op, const UpdateBatchReply& reply) {
    high(op.tenant, batches_stream, reply.written);
  }
  void told(const GiveBack&, const GiveBackReply& reply) {
    for (const std::string& tenant : reply.tenants) any_work(tenant);
  }
  void told(const Resume& op, const PauseReply& reply) {
    if (reply.changed) any_work(op.tenant);
  }
  void told(const RetryJobs& op, const RetryReply& reply) {
    if (reply.retried > 0) work(op.tenant, 0);  // some may be paused
  }
  void told(const StartJobs& op, const StartReply& reply) {
    if (reply.suspects > 0) suspects_.insert(op.tenant);
    if (reply.started > reply.suspects) work(op.tenant, 0);
  }
  void told(const CancelJobs&, const CancelReply& reply) {
    leases(News::Kind::cancelled, reply.leases);
  }
  void told(const ExpireJobs&, const ExpireReply& reply) { leases(News::Kind::lost, reply.leases); }

  void entries(const std::vector<FinishReply>& ends) {
    for (const FinishReply& end : ends) entry(end);
  }
  void entry(const FinishReply& end) {
    high(end.tenant, end.stream, end.number);
    high(end.tenant, batches_stream, end.batch_number);
  }
  void high(const std::string& tenant, const std::string& stream, std::uint64_t number) {
    if (number == 0) return;
    std::uint64_t& last = highs_[{tenant, stream}];
    last = std::max(last, number);
  }
  // 0: nobody has counted them, and so neither their sum with others.
  void work(const std::string& tenant, std::uint64_t jobs) {
    const auto [at, is_new] = work_.try_emplace(tenant, jobs);
    if (is_new) return;
    at->second = jobs == 0 || at->second == 0 ? 0 : at->second + jobs;
  }
  void any_work(const std::string& tenant) {
    work(tenant, 0);
    suspects_.insert(tenant);
  }
  void leases(News::Kind kind, const std::vector<LapsedLease>& leases) {
    for (const LapsedLease& one : leases) {
      news_.push_back({kind, one.tenant, one.engine, one.lease});
    }
  }

  std::vector<News> news_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> highs_;  // by tenant and stream
  std::map<std::string, std::uint64_t> work_;
  std::set<std::string> suspects_;
};

}  // namespace

std::vector<News> news_of(std::span<const Operation> operations,
                          std::span<const Result<Reply>> replies) {
  Gatherer gatherer;
  for (std::size_t i = 0; i < std::min(operations.size(), replies.size()); ++i) {
    if (replies[i]) std::visit(gatherer, operations[i], *replies[i]);
  }
  return gatherer.take();
}

}  // namespace millrace::broker
