#include "tests/simulation/broker_checks.hpp"

#include <algorithm>
#include <set>

namespace millrace::broker::simulation {

bool BrokerChecks::lives(const std::string& broker) const {
  const auto at = until_us_.find(broker);
  return at != until_us_.end() && at->second > clock_.now_us();
}

std::string BrokerChecks::broker_of(LeaseId lease) const {
  const auto held = leases_.find(lease);
  return held == leases_.end() ? "" : held->second.broker;
}

void BrokerChecks::committed(const std::string& broker, std::span<const Operation> operations,
                             std::span<const Result<Reply>> replies) {
  for (std::size_t i = 0; i < std::min(operations.size(), replies.size()); ++i) {
    if (replies[i]) carried_out(broker, operations[i], *replies[i]);
  }
}

void BrokerChecks::carried_out(const std::string& broker, const Operation& operation,
                               const Reply& reply) {
  if (const auto* beat = std::get_if<BeatBroker>(&operation)) {
    until_us_[broker] = clock_.now_us() + beat->alive_us;
  }
  if (const auto* claim = std::get_if<ClaimReply>(&reply)) claimed(broker, *claim);
  if (const auto* renew = std::get_if<Renew>(&operation)) {
    renewed(broker, *renew, std::get<RenewReply>(reply));
  }
  if (const auto* give = std::get_if<GiveBack>(&operation)) {
    given_back(broker, *give, std::get<GiveBackReply>(reply));
  }
}

void BrokerChecks::claimed(const std::string& broker, const ClaimReply& reply) {
  for (const ClaimedJob& job : reply.jobs) {
    LeaseId& last = lease_of_[job.job];
    leases_.erase(last);
    last = job.lease;
    leases_[job.lease] = {broker, job.job};
  }
}

void BrokerChecks::renewed(const std::string& broker, const Renew& renew, const RenewReply& reply) {
  for (const LeaseId lease : renew.leases) {
    if (std::ranges::find(reply.lost, lease) != reply.lost.end()) continue;
    const auto held = leases_.find(lease);
    if (held == leases_.end()) continue;
    carried_over_ += held->second.broker != broker;
    held->second.broker = broker;
  }
}

void BrokerChecks::given_back(const std::string& broker, const GiveBack& give,
                              const GiveBackReply& reply) {
  std::set<std::string> back(reply.returned.begin(), reply.returned.end());
  for (const FinishReply& ended : reply.ended) back.insert(ended.job);
  const bool asked = give.blame == Blame::none && !give.only_own;  // by the engine
  const bool allowed = asked || (!give.only_own && is_dead_(give.engine));
  for (const LeaseId lease : give.leases) {
    const auto held = leases_.find(lease);
    if (held == leases_.end() || !back.contains(held->second.job)) continue;
    const bool elsewhere = held->second.broker != broker;
    if (elsewhere && !allowed && lives(held->second.broker)) {
      violation_(broker + " took back lease " + std::to_string(lease) + " of " +
                 held->second.broker + ", which lives");
    }
    inherited_ += elsewhere && !lives(held->second.broker);
    leases_.erase(held);
  }
}

}  // namespace millrace::broker::simulation
