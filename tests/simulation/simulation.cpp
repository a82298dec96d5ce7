#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "broker/core/broker.hpp"
#include "broker/core/job_cost.hpp"
#include "broker/core/prefix_key.hpp"
#include "broker/core/results.hpp"
#include "tests/simulation/actors.hpp"
#include "tests/simulation/commits.hpp"
#include "tests/simulation/end_checks.hpp"
#include "tests/simulation/ledger_checks.hpp"
#include "tests/simulation/plan.hpp"
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
        plan_(draw_plan(dice_)),
        checks_([this](const Operation& operation) { return ask(operation); },
                [this](std::string text) { violation(std::move(text)); }, record_, plan_) {
    const StorageKind memory =
        plan_.unavailable ? StorageKind::unavailable_memory : StorageKind::memory;
    const bool on_disk = needs_disk(bug) || seed % disk_each == 0;
    storage_ = make_storage(on_disk ? StorageKind::disk : memory,
                            {clock_, dice_, [this] { return calm(); }, published_end, bug});
    commits_.emplace(
        Commits::Surroundings{
            clock_, dice_, *storage_, plan_.look_ahead, [this] { return now().unix_us; },
            [this] { return paused(); },
            [this](std::span<const Operation> operations) { checks_.begins(operations); },
            [this](std::span<const Operation> operations, std::span<const Result<Reply>> replies) {
              checks_.carried_out(operations, replies);
            },
            [this](const Operation& operation) { checks_.shares().asked(operation); },
            [this] { checks_.shares().unknown(); },
            [this](std::vector<Completed> done) { answer(std::move(done)); },
            [this] { kill_broker(); }, [this](std::string text) { violation(std::move(text)); }},
        bug);
    record_.calm = [this] { return calm(); };
    record_.may_be_full = [this] { return storage_->was_full(); };
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
    start_broker();
    make_clients();
    for (int i = 0; i < plan_.engines; ++i) add_engine();
    broker_tick();
    trouble();
  }

  Outcome run() {
    // Broken rules end the run, because it may not end by itself.
    while (!finished() && record_.violations.size() < 100 && clock_.step(give_up)) {
    }
    checks_.all();
    EndChecks([this](const Operation& operation) { return ask(operation); }, record_, outcome_)
        .all(jobs_of_, clients_, storage_->flips());
    outcome_.violations = record_.violations;
    outcome_.engine_deaths = record_.engine_deaths;
    (storage_->may_end() ? outcome_.disk_faults : outcome_.store_faults) = storage_->faults();
    outcome_.flips = storage_->flips();
    outcome_.excused = commits_->excused();
    outcome_.queue_full = record_.queue_full;
    outcome_.overtaken = checks_.order().overtaken();
    outcome_.shares_compared = checks_.shares().compared();
    outcome_.share_bounds = checks_.shares().bounds();
    outcome_.at_most_leases = checks_.tenants().at_most_leases();
    for (const auto& [job, deaths] : record_.deaths_by) {
      outcome_.most_deaths = std::max(outcome_.most_deaths, deaths);
    }
    outcome_.simulated_us = clock_.now_us();
    return outcome_;
  }

 private:
  void make_clients();
  void add_engine();
  void start_broker();
  void kill_broker();
  void broker_tick();
  void trouble();
  void part_or_pause();
  void travel(const Peer& peer, const std::function<void()>& arrive);
  void feed(Event event);
  void absorb(Actions actions);
  void answer(std::vector<Completed> done);
  void deliver(const Outgoing& out);
  Wire wire(const std::string& key);
  SimEngine* any_engine();
  bool finished() const;
  Now now() const { return {clock_.now_us(), clock_.now_us() + unix_ahead_us_}; }
  bool calm() const { return clock_.now_us() > calm_after; }
  bool paused() const { return clock_.now_us() < paused_until_us_; }
  Result<Reply> ask(const Operation& operation) {
    auto replies = storage_->sound().apply(std::span(&operation, 1), now().unix_us);
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
  NetworkFaults network_faults_;
  Record record_;
  LedgerChecks checks_;
  Outcome outcome_;
  std::int64_t unix_ahead_us_ = 1'700'000'000 * second;
  std::int64_t paused_until_us_ = 0;  // of the broker
  Links links_;
  std::unique_ptr<Storage> storage_;
  std::optional<Commits> commits_;  // the broker's
  std::unique_ptr<Broker> broker_;  // null while no broker runs
  std::uint64_t incarnation_ = 0;
  std::map<std::string, std::size_t> jobs_of_;  // by tenant
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimEngine>> engines_;  // dead ones stay: their timers may still run
  int next_engine_ = 0;
};

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
      checks_.shares().know(tenants[c], job_cost_tokens(job));
      checks_.know(job.id, tenants[c], job.batch, jobs.back());
    }
    outcome_.jobs += count;
    jobs_of_[tenants[c]] += count;
    clients_.push_back(std::make_unique<SimClient>(plan_, "client-" + std::to_string(c), tenants[c],
                                                   std::move(jobs), clock_, dice_,
                                                   wire(key_of(tenants[c])), record_));
    clients_.back()->start();
  }
}

void Simulation::add_engine() {
  engines_.push_back(std::make_unique<SimEngine>("engine-" + std::to_string(next_engine_++), clock_,
                                                 dice_, wire(engine_key), record_));
  engines_.back()->start();
}

Wire Simulation::wire(const std::string& key) {
  return [this, key](const Peer& peer, Envelope envelope) {
    travel(peer, [this, peer, key, envelope = std::move(envelope)] {
      if (broker_) feed(Received{peer, envelope, 0, key});
    });
  };
}

// A process keeps its link when it connects anew under another route.
void Simulation::travel(const Peer& peer, const std::function<void()>& arrive) {
  const std::string name = peer.route.substr(0, peer.route.find('/'));
  carry(clock_, dice_, network_faults_, [this, name, arrive] {
    if (links_.is_cut(name, clock_.now_us())) return;
    const std::int64_t wait_us = links_.held_until_us(name) - clock_.now_us();
    if (wait_us <= 0) return arrive();
    clock_.after(wait_us, arrive);
  });
}

void Simulation::start_broker() {
  ++incarnation_;
  CoreConfig config;
  config.broker_id = "broker-" + std::to_string(incarnation_);
  config.grants = grants();
  config.tenants = plan_.tenants;
  if (!plan_.tails) config.tail_jobs = 0;
  commits_->connect();
  checks_.shares().restarted();
  broker_ = std::make_unique<Broker>(std::move(config));
  feed(Start{});
}

void Simulation::kill_broker() {
  if (!broker_) return;
  ++outcome_.broker_restarts;
  commits_->kill();
  broker_.reset();
  paused_until_us_ = 0;
  const auto away = dice_.chance(0.2) ? 60 * second : 2 * second;
  clock_.after(static_cast<std::int64_t>(dice_.below(static_cast<std::uint64_t>(away))),
               [this] { start_broker(); });
}

void Simulation::broker_tick() {
  if (broker_) feed(Tick{});
  clock_.after(250'000, [this] { broker_tick(); });
}

// What comes while the broker's process is stopped waits in its sockets.
void Simulation::feed(Event event) {
  if (!paused()) return absorb(broker_->handle(std::move(event), now()));
  clock_.after(paused_until_us_ - clock_.now_us(),
               [this, event = std::move(event), incarnation = incarnation_] {
                 if (broker_ && incarnation == incarnation_) feed(event);
               });
}

void Simulation::absorb(Actions actions) {
  const bool asks = !actions.ledger.empty();
  for (auto& request : actions.ledger) commits_->push(std::move(request));
  for (const auto& out : actions.messages) {
    if (const auto* leases = std::get_if<Leases>(&out.envelope.message)) {
      const std::string engine = out.peer.route.substr(0, out.peer.route.find('/'));
      for (const Lease& lease : leases->leases) checks_.handed_out(engine, lease);
    }
    travel(out.peer, [this, out] { deliver(out); });
  }
  if (!asks) return;
  commits_->schedule();
  // A kill does most harm between a request and its commit.
  if (!calm() && dice_.chance(plan_.kill)) {
    clock_.after(static_cast<std::int64_t>(dice_.below(20'000)), [this] { kill_broker(); });
  }
}

void Simulation::answer(std::vector<Completed> done) {
  checks_.committed();
  for (auto& completed : done) feed(std::move(completed));
  checks_.shares().answered();
}

void Simulation::deliver(const Outgoing& out) {
  for (const auto& client : clients_) {
    if (client->peer() == out.peer) return client->receive(out.envelope);
  }
  for (const auto& engine : engines_) {
    if (engine->peer() == out.peer && !engine->dead()) return engine->receive(out.envelope);
  }
  if (broker_ && dice_.chance(0.5)) feed(PeerGone{out.peer});
}

SimEngine* Simulation::any_engine() {
  std::vector<SimEngine*> alive;
  for (const auto& engine : engines_) {
    if (!engine->dead()) alive.push_back(engine.get());
  }
  return alive.empty() ? nullptr : alive[dice_.below(alive.size())];
}

void Simulation::trouble() {
  // Dead engines are replaced; the broker may or may not be told of the death.
  int alive = 0;
  for (const auto& engine : engines_) {
    if (!engine->dead()) ++alive;
  }
  for (; alive < plan_.engines; ++alive) {
    if (broker_ && dice_.chance(0.3)) {
      for (const auto& engine : engines_) {
        if (engine->dead()) feed(EngineDied{engine->name()});
      }
    }
    add_engine();
  }
  if (!calm()) {
    if (SimEngine* engine = any_engine(); engine != nullptr) {
      if (dice_.chance(0.05)) engine->die();
      if (dice_.chance(0.03)) engine->hang();
      if (dice_.chance(0.06))
        engine->freeze_us(static_cast<std::int64_t>(dice_.below(40)) * second);
      if (dice_.chance(0.08)) engine->reconnect();
      if (dice_.chance(0.02)) engine->leave();
    }
    part_or_pause();
    if (dice_.chance(0.06)) kill_broker();
    if (dice_.chance(0.01))
      unix_ahead_us_ += static_cast<std::int64_t>(dice_.below(7'200)) * second;
    if (dice_.chance(0.01)) unix_ahead_us_ -= static_cast<std::int64_t>(dice_.below(60)) * second;
  }
  clock_.after(plan_.trouble_us, [this] { trouble(); });
}

// Links that lose everything or stall, and processes that are stopped for a while.
void Simulation::part_or_pause() {
  const auto until = [&](std::uint64_t most_s) {
    return clock_.now_us() + static_cast<std::int64_t>(1 + dice_.below(most_s)) * second;
  };
  const std::size_t client = dice_.below(clients_.size());
  const SimEngine* engine = any_engine();
  for (const std::string& peer :
       {clients_[client]->peer().route, engine == nullptr ? "" : engine->name()}) {
    if (dice_.chance(0.03)) {
      ++outcome_.links_cut;
      links_.cut(peer, until(60));
    }
    if (dice_.chance(0.03)) {
      ++outcome_.links_cut;
      links_.hold(peer, until(40));
    }
  }
  if (broker_ && dice_.chance(0.02)) {
    ++outcome_.pauses;
    paused_until_us_ = until(30);
  }
}

bool Simulation::finished() const {
  for (const auto& client : clients_) {
    if (!client->done(jobs_of_.at(client->tenant()))) return false;
  }
  return broker_ != nullptr;
}

}  // namespace

void Outcome::add(const Outcome& other) {
  for (const auto count :
       {&Outcome::jobs, &Outcome::completed, &Outcome::failed, &Outcome::cancelled,
        &Outcome::engine_deaths, &Outcome::broker_restarts, &Outcome::store_faults,
        &Outcome::disk_faults, &Outcome::flips, &Outcome::links_cut, &Outcome::pauses,
        &Outcome::excused, &Outcome::queue_full, &Outcome::at_most_leases,
        &Outcome::shares_compared, &Outcome::share_bounds, &Outcome::overtaken}) {
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
