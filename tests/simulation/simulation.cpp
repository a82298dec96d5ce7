#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <memory>

#include "broker/core/job_cost.hpp"
#include "broker/core/prefix_key.hpp"
#include "broker/core/results.hpp"
#include "tests/simulation/actors.hpp"
#include "tests/simulation/broker_checks.hpp"
#include "tests/simulation/end_checks.hpp"
#include "tests/simulation/ledger_checks.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/sim_broker.hpp"
#include "tests/simulation/storage.hpp"
#include "tests/simulation/tenants.hpp"

namespace millrace::broker::simulation {
namespace {

constexpr std::int64_t calm_after = 600 * second;  // no faults after this, so that all can finish
constexpr std::int64_t give_up = 3'600 * second;

class Simulation {
 public:
  Simulation(std::uint64_t seed, Bug bug)
      : dice_(seed),
        plan_(draw_plan(dice_, is_shared(seed, bug))),
        checks_([this](const Operation& operation) { return ask(operation); },
                [this](std::string text) { violation(std::move(text)); }, record_, plan_,
                [this](LeaseId lease) { return place_of(lease); }),
        broker_checks_(
            clock_, [this](std::string text) { violation(std::move(text)); },
            [this](const std::string& engine) { return is_dead(engine); }) {
    make_brokers(needs_disk(bug) || seed % disk_each == 0, bug);
    record_.calm = [this] { return calm(); };
    record_.may_be_full = [this] { return any_broker_has(&Storage::was_full); };
    network_faults_.lose = dice_.chance(0.3) ? 0 : 0.03;
    network_faults_.late = dice_.chance(0.3) ? 0 : 0.05;
    record_.is_stored = [this](const std::string& job) { return ask_job(job).has_value(); };
    record_.has_ended = [this](const std::string& job) {
      const auto reply = ask_job(job);
      return reply && is_end(std::get<GetJobReply>(*reply).state);
    };
    record_.is_current = [this](LeaseId lease, const std::string& job) {
      const auto reply = ask_job(job);
      return reply && std::get<GetJobReply>(*reply).lease == lease;
    };
    for (const auto& broker : brokers_) broker->start();
    make_clients();
    for (int i = 0; i < plan_.engines; ++i) add_engine();
    for (const auto& broker : brokers_) broker->tick();
    trouble();
  }

  Outcome run() {
    // Broken rules end the run, because it may not end by itself.
    while (!finished() && record_.violations.size() < 100 && clock_.step(give_up)) {
    }
    checks_.all();
    std::uint64_t flips = 0;
    for (const auto& broker : brokers_) flips += broker->storage().flips();
    EndChecks([this](const Operation& operation) { return ask(operation); }, record_, outcome_)
        .all(jobs_of_, clients_, flips);
    count();
    outcome_.flips = flips;
    return outcome_;
  }

 private:
  std::uint32_t connection_of(const Peer& peer) const {
    if (brokers_.size() == 1) return 0;
    const auto at = std::ranges::find_if(
        engines_, [&](const auto& one) { return one->peer() == peer && !one->dead(); });
    return at == engines_.end() ? 0 : (*at)->connection();
  }
  // Leases of one place count as running together. Where an engine has turned to another broker, a
  // lease that was on its way never comes, and its broker gives it back when it misses it.
  std::string place_of(LeaseId lease) const {
    const bool has_come =
        brokers_.size() == 1 ||
        std::ranges::any_of(engines_, [&](const auto& one) { return one->holds(lease); });
    return broker_checks_.broker_of(lease) + (has_come ? "" : ", on its way");
  }
  static bool is_shared(std::uint64_t seed, Bug bug) {
    return needs_brokers(bug) || (!needs_disk(bug) && seed % shared_each == 2);
  }
  void make_brokers(bool on_disk, Bug bug);
  void make_clients();
  void add_engine();
  void trouble();
  void trouble_engines();
  void trouble_brokers();
  void part_or_stop();
  void count();
  void travel(const Peer& peer, std::size_t broker, const std::function<void()>& arrive);
  std::string link(const std::string& peer, std::size_t broker) const;
  void deliver(std::size_t broker, const Outgoing& out);
  Wire wire(const std::string& key);
  SimBroker& any_broker() {
    return *brokers_[brokers_.size() == 1 ? 0 : dice_.below(brokers_.size())];
  }
  bool any_broker_has(bool (Storage::*what)() const) const {
    return std::ranges::any_of(brokers_,
                               [&](const auto& broker) { return (broker->storage().*what)(); });
  }
  SimEngine* any_engine();
  // The broker knows it by the name of its key and its own.
  bool is_dead(const std::string& engine) const {
    return std::ranges::none_of(engines_, [&](const auto& one) {
      return !one->dead() && engine.ends_with("/" + one->name());
    });
  }
  bool finished() const;
  bool calm() const { return clock_.now_us() > calm_after; }
  Result<Reply> ask(const Operation& operation) {
    SimBroker& any = *brokers_.front();
    auto replies = any.storage().sound().apply(std::span(&operation, 1), any.now().unix_us);
    if (!replies) return fail(replies.error());
    return std::move(replies->front());
  }
  Result<Reply> ask_job(const std::string& job) {
    return ask(GetJob{record_.tenants.at(job), job});
  }
  void violation(std::string text) { record_.violations.push_back(std::move(text)); }

  Dice dice_;
  const Plan plan_;
  Clock clock_;
  const SimulatedClock server_clock_{clock_};
  NetworkFaults network_faults_;
  Record record_;
  LedgerChecks checks_;
  BrokerChecks broker_checks_;
  Outcome outcome_;
  Links links_;
  std::shared_ptr<Server> server_;  // null: one broker has its store alone
  std::vector<std::unique_ptr<SimBroker>> brokers_;
  std::map<std::string, std::size_t> jobs_of_;  // by tenant
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimEngine>> engines_;  // dead ones stay: their timers may still run
  std::size_t next_engine_ = 0;
};

void Simulation::make_brokers(bool on_disk, Bug bug) {
  const auto kind = plan_.unavailable ? StorageKind::unavailable_memory : StorageKind::memory;
  if (plan_.brokers > 1) server_ = make_server(published_end, server_clock_);
  const SimWorld world{clock_,
                       dice_,
                       plan_,
                       checks_,
                       [this] { return calm(); },
                       [this](const Operation& operation) { return ask(operation); },
                       [this](std::size_t broker, const Outgoing& out) {
                         const std::uint32_t connection = connection_of(out.peer);
                         travel(out.peer, broker, [this, broker, out, connection] {
                           if (connection == connection_of(out.peer)) deliver(broker, out);
                         });
                       },
                       [this](std::string text) { violation(std::move(text)); }};
  for (std::size_t place = 0; place < plan_.brokers; ++place) {
    Storage::Surroundings around{
        clock_,
        dice_,
        world.calm,
        published_end,
        bug,
        server_,
        [this](const std::string& broker, std::span<const Operation> operations,
               std::span<const Result<Reply>> replies) {
          broker_checks_.committed(broker, operations, replies);
        }};
    auto storage = make_storage(on_disk && !server_ ? StorageKind::disk : kind, std::move(around));
    brokers_.push_back(std::make_unique<SimBroker>(place, world, std::move(storage), bug));
  }
}

void Simulation::count() {
  for (const auto& broker : brokers_) {
    const Storage& storage = broker->storage();
    (storage.may_end() ? outcome_.disk_faults : outcome_.store_faults) += storage.faults();
    outcome_.excused += broker->excused();
    outcome_.broker_restarts += broker->kills();
    outcome_.brokers_left += broker->leaves();
    outcome_.shares_compared += broker->shares().compared();
    outcome_.share_bounds += broker->shares().bounds();
  }
  outcome_.violations = record_.violations;
  outcome_.engine_deaths = record_.engine_deaths;
  outcome_.queue_full = record_.queue_full;
  outcome_.turns = record_.turns;
  outcome_.carried_over = broker_checks_.carried_over();
  outcome_.inherited = broker_checks_.inherited();
  outcome_.overtaken = checks_.order().overtaken();
  outcome_.at_most_leases = checks_.tenants().at_most_leases();
  for (const auto& [job, deaths] : record_.deaths_by) {
    outcome_.most_deaths = std::max(outcome_.most_deaths, deaths);
  }
  outcome_.simulated_us = clock_.now_us();
}

void Simulation::make_clients() {
  const auto killers = dice_.below(3);
  const auto tenants = clients_of_tenants();
  for (std::size_t c = 0; c < tenants.size(); ++c) {
    std::vector<Body> jobs;
    const auto count = 10 + dice_.below(30);
    const std::uint64_t most_tokens = dice_.chance(0.5) ? 200 : 2'000;
    for (std::uint64_t i = 0; i < count; ++i) {
      Job job;
      const bool killer = c == 0 && i < killers;
      job.id = (killer ? "kill-" : "job-") + std::to_string(c) + "-" + std::to_string(i);
      job.model = dice_.chance(0.5) ? "m" : "*";
      job.priority = static_cast<std::uint32_t>(dice_.below(plan_.priorities));
      // Faults also kill engines that run innocent suspects, which must survive all these deaths.
      job.max_attempts = killer ? 2 : limits::max_attempts;
      job.batch = dice_.chance(0.5) ? tenants[c] + "-" + std::to_string(dice_.below(2)) : "";
      // Some prompts begin alike, with more than the broker looks at.
      const auto beginning = std::string(dice_.chance(plan_.alike) ? prefix_bytes : 0,
                                         static_cast<char>('a' + dice_.below(plan_.beginnings)));
      job.request.prompt = beginning + job.id + padding;
      job.request.max_tokens = static_cast<std::uint32_t>(1 + dice_.below(most_tokens));
      jobs.push_back(encode_job(job));
      record_.tenants[job.id] = tenants[c];
      checks_.order().know(job.id, tenants[c], job.priority);
      for (const auto& broker : brokers_) broker->shares().know(tenants[c], job_cost_tokens(job));
      checks_.know(job.id, tenants[c], job.batch, jobs.back());
    }
    outcome_.jobs += count;
    jobs_of_[tenants[c]] += count;
    clients_.push_back(std::make_unique<SimClient>(plan_, c, tenants[c], std::move(jobs), clock_,
                                                   dice_, wire(key_of(tenants[c])), record_));
    clients_.back()->start();
  }
}

void Simulation::add_engine() {
  engines_.push_back(
      std::make_unique<SimEngine>(plan_, next_engine_++, clock_, dice_, wire(engine_key), record_));
  engines_.back()->start();
}

Wire Simulation::wire(const std::string& key) {
  return [this, key](std::size_t broker, const Peer& peer, const Envelope& envelope) {
    travel(peer, broker, [=, this, connection = connection_of(peer)] {
      const bool comes = brokers_[broker]->runs() && connection_of(peer) <= connection;
      if (comes) brokers_[broker]->feed(Received{peer, envelope, 0, key});
    });
  };
}

std::string Simulation::link(const std::string& peer, std::size_t broker) const {
  return brokers_.size() == 1 ? peer : peer + " to " + std::to_string(broker);
}

// A process keeps its link to a broker when it connects anew under another route.
void Simulation::travel(const Peer& peer, std::size_t broker, const std::function<void()>& arrive) {
  const std::string name = link(peer.route.substr(0, peer.route.find('/')), broker);
  carry(clock_, dice_, network_faults_, [this, name, arrive] {
    if (links_.is_cut(name, clock_.now_us())) return;
    const std::int64_t wait_us = links_.held_until_us(name) - clock_.now_us();
    if (wait_us <= 0) return arrive();
    clock_.after(wait_us, arrive);
  });
}

void Simulation::deliver(std::size_t broker, const Outgoing& out) {
  for (const auto& client : clients_) {
    if (client->peer() == out.peer && client->broker() == broker) {
      return client->receive(out.envelope);
    }
  }
  for (const auto& engine : engines_) {
    if (engine->peer() == out.peer && engine->broker() == broker && !engine->dead()) {
      return engine->receive(out.envelope);
    }
  }
  SimBroker& from = *brokers_[broker];
  if (from.runs() && dice_.chance(0.5)) from.feed(PeerGone{out.peer});
}

SimEngine* Simulation::any_engine() {
  std::vector<SimEngine*> alive;
  for (const auto& engine : engines_) {
    if (!engine->dead()) alive.push_back(engine.get());
  }
  return alive.empty() ? nullptr : alive[dice_.below(alive.size())];
}

void Simulation::trouble() {
  // Dead engines are replaced; a broker may or may not be told of the death.
  int alive = 0;
  for (const auto& engine : engines_) {
    if (!engine->dead()) ++alive;
  }
  for (; alive < plan_.engines; ++alive) {
    SimBroker& broker = any_broker();
    if (broker.runs() && dice_.chance(0.3)) {
      for (const auto& engine : engines_) {
        if (engine->dead()) broker.feed(EngineDied{engine->name()});
      }
    }
    add_engine();
  }
  if (!calm()) {
    trouble_engines();
    part_or_stop();
    trouble_brokers();
  }
  clock_.after(plan_.trouble_us, [this] { trouble(); });
}

void Simulation::trouble_engines() {
  SimEngine* engine = any_engine();
  if (engine == nullptr) return;
  if (dice_.chance(0.05)) engine->die();
  if (dice_.chance(0.03)) engine->hang();
  if (dice_.chance(0.06)) engine->freeze_us(static_cast<std::int64_t>(dice_.below(40)) * second);
  if (dice_.chance(0.08)) engine->reconnect();
  if (dice_.chance(0.02)) engine->leave();
  if (server_ && dice_.chance(0.04)) engine->turn();
}

void Simulation::trouble_brokers() {
  if (dice_.chance(0.06)) any_broker().kill();
  if (dice_.chance(0.01))
    any_broker().move_clock(static_cast<std::int64_t>(dice_.below(7'200)) * second);
  if (dice_.chance(0.01))
    any_broker().move_clock(-static_cast<std::int64_t>(dice_.below(60)) * second);
  if (!server_) return;
  if (dice_.chance(0.02)) any_broker().leave();
  if (dice_.chance(0.01)) {
    ++outcome_.outages;
    server_->down_until_us = clock_.now_us() + static_cast<std::int64_t>(dice_.below(60)) * second;
  }
}

// Links that lose everything or stall, and processes that are stopped for a while.
void Simulation::part_or_stop() {
  const auto until = [&](std::uint64_t most_s) {
    return clock_.now_us() + static_cast<std::int64_t>(1 + dice_.below(most_s)) * second;
  };
  const SimClient& client = *clients_[dice_.below(clients_.size())];
  const SimEngine* engine = any_engine();
  for (const std::string& name :
       {link(client.peer().route, client.broker()),
        engine == nullptr ? "" : link(engine->name(), engine->broker())}) {
    if (dice_.chance(0.03)) {
      ++outcome_.links_cut;
      links_.cut(name, until(60));
    }
    if (dice_.chance(0.03)) {
      ++outcome_.links_cut;
      links_.hold(name, until(40));
    }
  }
  SimBroker& broker = any_broker();
  if (broker.runs() && dice_.chance(0.02)) {
    ++outcome_.pauses;
    broker.stop_until(until(server_ ? 60 : 30));
  }
}

bool Simulation::finished() const {
  for (const auto& client : clients_) {
    if (!client->done(jobs_of_.at(client->tenant()))) return false;
  }
  return std::ranges::all_of(brokers_, [](const auto& broker) { return broker->runs(); });
}

}  // namespace

void Outcome::add(const Outcome& other) {
  for (const auto count :
       {&Outcome::jobs,         &Outcome::completed,      &Outcome::failed,
        &Outcome::cancelled,    &Outcome::engine_deaths,  &Outcome::broker_restarts,
        &Outcome::store_faults, &Outcome::disk_faults,    &Outcome::flips,
        &Outcome::links_cut,    &Outcome::pauses,         &Outcome::excused,
        &Outcome::queue_full,   &Outcome::at_most_leases, &Outcome::shares_compared,
        &Outcome::share_bounds, &Outcome::overtaken,      &Outcome::turns,
        &Outcome::carried_over, &Outcome::inherited,      &Outcome::brokers_left,
        &Outcome::outages}) {
    this->*count += other.*count;
  }
  most_deaths = std::max(most_deaths, other.most_deaths);
  simulated_us += other.simulated_us;
}

Outcome simulate(std::uint64_t seed, Bug bug) {
  try {
    return Simulation(seed, bug).run();
  } catch (const LostLedger& lost) {
    Outcome outcome;
    outcome.violations.emplace_back(lost.what());
    return outcome;
  }
}

}  // namespace millrace::broker::simulation
