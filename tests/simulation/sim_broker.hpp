#pragma once
// A broker process of the simulation: the state machine, its requests to the ledger, and the clock
// of its machine. It is killed, is stopped for a while, leaves in order, and starts again under
// another name. Thread safety: one thread.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/core/broker.hpp"
#include "tests/simulation/commits.hpp"
#include "tests/simulation/ledger_checks.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/share_checks.hpp"
#include "tests/simulation/storage.hpp"

namespace millrace::broker::simulation {

// What the brokers of a run have in common.
struct SimWorld {
  Clock& clock;
  Dice& dice;
  const Plan& plan;
  LedgerChecks& checks;
  std::function<bool()> calm;  // no more faults
  std::function<Result<Reply>(const Operation&)> ask;
  std::function<void(std::size_t broker, const Outgoing&)> send;
  std::function<void(std::string)> violation;
};

class SimBroker {
 public:
  // `place`: which of the brokers it is.
  SimBroker(std::size_t place, SimWorld world, std::unique_ptr<Storage> storage, Bug bug);

  void start();
  void kill();   // as SIGKILL does; it starts again after a while
  void leave();  // drains, and starts again after a while
  void feed(Event event);
  void tick();  // now, and a few times a second from then on
  void stop_until(std::int64_t until_us) { stopped_until_us_ = until_us; }
  void move_clock(std::int64_t us) { unix_ahead_us_ += us; }

  bool runs() const { return broker_ != nullptr; }
  Now now() const { return {world_.clock.now_us(), world_.clock.now_us() + unix_ahead_us_}; }
  Storage& storage() { return *storage_; }
  ShareChecks& shares() { return shares_; }
  std::uint64_t kills() const { return kills_; }
  std::uint64_t leaves() const { return leaves_; }
  std::uint64_t excused() const { return commits_.excused(); }

 private:
  Commits::Surroundings surroundings();
  bool stopped() const { return world_.clock.now_us() < stopped_until_us_; }
  void absorb(Actions actions);
  void answer(std::vector<Completed> done);
  void end();

  const std::size_t place_;
  SimWorld world_;
  std::unique_ptr<Storage> storage_;
  ShareChecks shares_;
  Commits commits_;
  std::unique_ptr<Broker> broker_;  // null while the process does not run
  std::uint64_t incarnation_ = 0, kills_ = 0, leaves_ = 0;
  std::int64_t unix_ahead_us_ = 1'700'000'000 * second;
  std::int64_t stopped_until_us_ = 0;
};

}  // namespace millrace::broker::simulation
