#pragma once
// Whose leases are whose, where several brokers use one store. It sees each commit at the moment
// when it takes place:
//   - a broker lives as long as its last heartbeat counts, by the store's clock;
//   - a lease belongs to the broker that handed it out or renewed it last;
//   - no broker takes back the lease of another one that lives, unless its engine asked for that or
//     is dead.
// Thread safety: none.
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "broker/ledger/ledger.hpp"
#include "tests/simulation/network.hpp"

namespace millrace::broker::simulation {

class BrokerChecks {
 public:
  // `is_dead`: whether an engine, by its id, has really ended.
  BrokerChecks(const Clock& clock, std::function<void(std::string)> violation,
               std::function<bool(const std::string&)> is_dead)
      : clock_(clock), violation_(std::move(violation)), is_dead_(std::move(is_dead)) {}

  void committed(const std::string& broker, std::span<const Operation> operations,
                 std::span<const Result<Reply>> replies);
  std::string broker_of(LeaseId lease) const;                   // empty: nobody's
  std::uint64_t carried_over() const { return carried_over_; }  // leases, by their engines
  // Leases that a broker took back of another one that was gone.
  std::uint64_t inherited() const { return inherited_; }

 private:
  struct Held {
    std::string broker, job;
  };
  void carried_out(const std::string& broker, const Operation& operation, const Reply& reply);
  void claimed(const std::string& broker, const ClaimReply& reply);
  void renewed(const std::string& broker, const Renew& renew, const RenewReply& reply);
  void given_back(const std::string& broker, const GiveBack& give, const GiveBackReply& reply);
  bool lives(const std::string& broker) const;

  const Clock& clock_;
  std::function<void(std::string)> violation_;
  std::function<bool(const std::string&)> is_dead_;
  std::map<std::string, std::int64_t> until_us_;  // how long each broker lives
  std::map<LeaseId, Held> leases_;                // the last one of each job
  std::map<std::string, LeaseId> lease_of_;       // by job
  std::uint64_t carried_over_ = 0, inherited_ = 0;
};

}  // namespace millrace::broker::simulation
