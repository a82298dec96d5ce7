#include "tests/simulation/sim_broker.hpp"

#include <utility>

#include "tests/simulation/tenants.hpp"

namespace millrace::broker::simulation {

SimBroker::SimBroker(std::size_t place, SimWorld world, std::unique_ptr<Storage> storage, Bug bug)
    : place_(place),
      world_(std::move(world)),
      storage_(std::move(storage)),
      shares_(world_.ask, world_.violation, world_.plan.tenants),
      commits_(surroundings(), bug) {
  if (world_.plan.brokers == 1) return;
  constexpr std::uint64_t most_apart_s = 240;  // longer than a lease, and than a heartbeat counts
  unix_ahead_us_ += static_cast<std::int64_t>(world_.dice.below(most_apart_s)) * second;
}

Commits::Surroundings SimBroker::surroundings() {
  return {world_.clock,
          world_.dice,
          *storage_,
          world_.plan.look_ahead,
          [this] { return now().unix_us; },
          [this] { return stopped(); },
          [this](std::span<const Operation> operations) { world_.checks.begins(operations); },
          [this](std::span<const Operation> operations, std::span<const Result<Reply>> replies) {
            world_.checks.carried_out(operations, replies);
            shares_.carried_out(operations, replies);
          },
          [this](const Operation& operation) { shares_.asked(operation); },
          [this] { shares_.unknown(); },
          [this](std::vector<Completed> done) { answer(std::move(done)); },
          [this] { kill(); },
          [this] { world_.checks.committed(); },
          world_.violation};
}

void SimBroker::start() {
  ++incarnation_;
  CoreConfig config;
  config.broker_id = "broker-" + std::to_string(place_) + "-" + std::to_string(incarnation_);
  config.shares_ledger = world_.plan.brokers > 1;
  config.grants = grants();
  config.tenants = world_.plan.tenants;
  if (!world_.plan.tails) config.tail_jobs = 0;
  commits_.connect(config.broker_id);
  shares_.restarted();
  broker_ = std::make_unique<Broker>(std::move(config));
  feed(Start{});
}

void SimBroker::kill() {
  if (!broker_) return;
  ++kills_;
  commits_.kill();
  end();
}

void SimBroker::end() {
  broker_.reset();
  stopped_until_us_ = 0;
  const auto away = world_.dice.chance(0.2) ? 60 * second : 2 * second;
  world_.clock.after(static_cast<std::int64_t>(world_.dice.below(static_cast<std::uint64_t>(away))),
                     [this] { start(); });
}

void SimBroker::leave() {
  if (broker_ && !broker_->draining()) feed(Drain{});
}

void SimBroker::tick() {
  if (broker_) feed(Tick{});
  world_.clock.after(250'000, [this] { tick(); });
}

// What comes while the process is stopped waits in its sockets.
void SimBroker::feed(Event event) {
  if (!stopped()) return absorb(broker_->handle(std::move(event), now()));
  world_.clock.after(stopped_until_us_ - world_.clock.now_us(),
                     [this, event = std::move(event), incarnation = incarnation_] {
                       if (broker_ && incarnation == incarnation_) feed(event);
                     });
}

void SimBroker::absorb(Actions actions) {
  const bool asks = !actions.ledger.empty();
  for (auto& request : actions.ledger) commits_.push(std::move(request));
  for (const auto& out : actions.messages) {
    if (const auto* leases = std::get_if<Leases>(&out.envelope.message)) {
      const std::string engine = out.peer.route.substr(0, out.peer.route.find('/'));
      for (const Lease& lease : leases->leases) world_.checks.handed_out(engine, lease);
    }
    world_.send(place_, out);
  }
  if (!asks) return;
  commits_.schedule();
  // A kill does most harm between a request and its commit.
  if (!world_.calm() && world_.dice.chance(world_.plan.kill)) {
    world_.clock.after(static_cast<std::int64_t>(world_.dice.below(20'000)), [this] { kill(); });
  }
}

void SimBroker::answer(std::vector<Completed> done) {
  world_.checks.committed();
  for (auto& completed : done) feed(std::move(completed));
  shares_.answered();
  if (!broker_ || !broker_->stopped() || !commits_.idle()) return;
  ++leaves_;
  world_.clock.after(0, [this, incarnation = incarnation_] {
    if (broker_ && incarnation == incarnation_) end();
  });
}

}  // namespace millrace::broker::simulation
