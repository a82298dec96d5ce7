// Where the queue of a fleet meets its first limit, in modelled time. The brokers' state machines
// and the ledger's rules are the real ones, on one store in memory; the database's time is a model,
// so the figures are the same on every machine.
//
//   capacity_bench brokers=100 engines=1000 jobs=1000000 tenants=100
//
// The model: a commit takes its round trips, the time of the rows that it changes, and a sync. It
// begins when it has the locks of all its tenants and holds them until it ends
// (postgres_ledger.hpp). A batch has at most 256 operations, and each broker two handles. Nothing
// fails. All jobs are queued at the beginning; an engine holds `rows` of them, and each takes
// `job_s` seconds on average.
//
//   own=1          each engine works for one tenant; else for all
//   round_trip_us, sync_us, row_us     what the database takes
//   seconds        of modelled time; the first third is not counted
//
// Prints one JSON object. Memory: about 1.6 KB for each queued job.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/capacity_database.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/results.hpp"
#include "broker/ledger/ledger_inbox.hpp"
#include "broker/ledger/memory_ledger.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "schemas/codec.hpp"
#include "tests/simulation/network.hpp"

namespace millrace::broker::capacity {
namespace {

using simulation::second;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "capacity_bench: %s\n", why.c_str());
  std::exit(1);
}

class ModelledTime final : public Clock {
 public:
  explicit ModelledTime(const simulation::Clock& clock) : clock_(clock) {}
  std::int64_t monotonic_us() const override { return clock_.now_us(); }
  std::int64_t wall_us() const override { return 1'700'000'000 * second + clock_.now_us(); }

 private:
  const simulation::Clock& clock_;
};

struct Seen {  // after the first third
  std::uint64_t ended = 0, commits = 0;
  std::int64_t commit_us = 0, waited_us = 0;
  std::array<std::uint64_t, kinds.size()> operations{};
};

struct Fleet {
  const Setup& setup;
  simulation::Clock clock;
  std::mt19937_64 random;
  Database database{setup};
  Seen seen;
  std::function<void(const Outgoing&)> deliver;

  std::int64_t end_us() const { return static_cast<std::int64_t>(setup["seconds"] * 1e6); }
  bool counted() const { return clock.now_us() > end_us() / 3; }
  double drawn() { return static_cast<double>(random() >> 11) * 0x1.0p-53; }
};

// A broker with two handles.
class Node {
 public:
  Node(Fleet& fleet, std::size_t place, const std::shared_ptr<MemoryStore>& store,
       const std::vector<Grant>& grants)
      : fleet_(fleet) {
    CoreConfig config;
    config.broker_id = "broker-" + std::to_string(place);
    config.shares_ledger = true;
    config.grants = grants;
    for (Handle& handle : handles_) {
      handle.ledger =
          make_stored_ledger(make_memory_handle(store, config.broker_id), {published_end});
    }
    broker_ = std::make_unique<Broker>(std::move(config));
    feed(Start{});
  }
  void feed(Event event) {
    Actions actions = broker_->handle(std::move(event), now());
    for (auto& request : actions.ledger) {
      waiting_[request.ticket].resize(request.operations.size(), fail(Code::internal, "none yet"));
      left_[request.ticket] = request.operations.size();
      inbox_.push(request.ticket, std::move(request.operations), {});
    }
    for (const auto& out : actions.messages) fleet_.deliver(out);
    for (Handle& handle : handles_) begin(handle);
  }

 private:
  struct Handle {
    std::unique_ptr<Ledger> ledger;
    std::optional<LedgerBatch> batch;
    std::vector<Operation> operations;
  };
  Now now() const {
    return {fleet_.clock.now_us(), 1'700'000'000 * second + fleet_.clock.now_us()};
  }
  void begin(Handle& handle) {
    if (handle.batch || !inbox_.ready()) return;
    handle.batch = inbox_.take({256, 16 * limits::MiB});
    for (Posted& read : handle.batch->reads) handle.batch->operations.push_back(std::move(read));
    handle.operations.clear();
    for (Posted& one : handle.batch->operations) {
      handle.operations.push_back(std::move(one.operation));
    }
    const auto cost = fleet_.database.cost_of(handle.operations);
    const std::int64_t now_us = fleet_.clock.now_us();
    const std::int64_t start_us = fleet_.database.begin(cost, now_us, fleet_.counted());
    if (fleet_.counted()) {
      ++fleet_.seen.commits;
      fleet_.seen.commit_us += cost.us;
      fleet_.seen.waited_us += start_us - now_us;
      for (const Operation& one : handle.operations) ++fleet_.seen.operations[kind_of(one)];
    }
    fleet_.clock.after(start_us + cost.us - now_us, [this, &handle] { commit(handle); });
  }
  void commit(Handle& handle) {
    auto replies = handle.ledger->apply(handle.operations, now().unix_us);
    if (!replies) die(replies.error().text());
    const LedgerBatch batch = *std::exchange(handle.batch, std::nullopt);
    std::vector<Completed> done;
    for (std::size_t i = 0; i < batch.operations.size(); ++i) {
      note(handle.operations[i], (*replies)[i]);
      const Posted& posted = batch.operations[i];
      waiting_[posted.token].at(posted.place) = std::move((*replies)[i]);
      if (--left_[posted.token] > 0) continue;
      done.push_back({posted.token, std::move(waiting_[posted.token])});
      waiting_.erase(posted.token);
      left_.erase(posted.token);
    }
    inbox_.done(batch);
    for (Completed& one : done) feed(std::move(one));
    begin(handle);
  }
  void note(const Operation& operation, const Result<Reply>& reply) {
    if (!reply) return;
    if (const auto* claimed = std::get_if<ClaimReply>(&*reply)) fleet_.database.leased(*claimed);
    const auto* finish = std::get_if<Finish>(&operation);
    if (finish == nullptr) return;
    fleet_.database.ended(finish->lease);
    if (fleet_.counted()) ++fleet_.seen.ended;
  }

  Fleet& fleet_;
  std::array<Handle, 2> handles_;
  LedgerInbox inbox_;
  std::map<std::uint64_t, std::vector<Result<Reply>>> waiting_;  // by ticket
  std::map<std::uint64_t, std::size_t> left_;
  std::unique_ptr<Broker> broker_;
};

// An engine that ends what it holds when its time has come, four times a second.
class ModelEngine {
 public:
  ModelEngine(Fleet& fleet, Node& node, std::string name, std::string key)
      : fleet_(fleet), node_(node), peer_{Endpoint::engine, std::move(name)}, key_(std::move(key)) {
    Hello hello;
    hello.role = Role::engine;
    hello.name = hello.instance = peer_.route;
    hello.engine.facts.model = "m";
    say(std::move(hello));
    fleet_.clock.after(static_cast<std::int64_t>(fleet_.drawn() * 1e6), [this] { tick(); });
  }
  const Peer& peer() const { return peer_; }
  void take(const Leases& leases) {
    for (const Lease& lease : leases.leases) {
      const double took_s = fleet_.setup["job_s"] * (0.5 + fleet_.drawn());
      ends_us_[lease.lease] = fleet_.clock.now_us() + static_cast<std::int64_t>(1e6 * took_s);
    }
  }

 private:
  void say(Message message) {
    node_.feed(Received{peer_, Envelope{1, std::move(message)}, 0, key_});
  }
  void tick() {
    Ends ends;
    const Body result = encode_generation({});
    const std::int64_t now_us = fleet_.clock.now_us();
    std::erase_if(ends_us_, [&](const auto& held) {
      if (held.second > now_us) return false;
      ends.ends.push_back({held.first, JobState::completed, result, {}});
      return true;
    });
    const bool some = !ends.ends.empty();
    if (some) say(std::move(ends));
    const auto room = static_cast<std::uint32_t>(fleet_.setup.count("rows") - ends_us_.size());
    if (ticks_++ % 4 == 0) {
      Heartbeat beat;
      for (const auto& held : ends_us_) beat.leases.push_back(held.first);
      beat.steps = beat.tokens = ticks_;
      beat.credit = room;
      say(std::move(beat));
    } else if (some) {
      say(Ready{room});
    }
    fleet_.clock.after(250'000, [this] { tick(); });
  }

  Fleet& fleet_;
  Node& node_;
  const Peer peer_;
  const std::string key_;
  std::map<LeaseId, std::int64_t> ends_us_;
  std::uint64_t ticks_ = 0;
};

std::string tenant_name(std::uint64_t i) {
  return "tenant-" + std::to_string(i);
}

std::vector<Grant> grants_of(const Setup& setup) {
  std::vector<Grant> out{{"all", std::string(every_tenant), {KeyRole::work}, "all"}};
  for (std::uint64_t i = 0; i < setup.count("tenants"); ++i) {
    out.push_back({tenant_name(i), tenant_name(i), {KeyRole::work}, tenant_name(i)});
  }
  return out;
}

void submit_all(const Setup& setup, const std::shared_ptr<MemoryStore>& store) {
  const auto ledger = make_memory_ledger(store);
  std::vector<Operation> batch;
  for (std::uint64_t i = 0; i < setup.count("jobs"); ++i) {
    SubmitJob job;
    job.tenant = tenant_name(i % setup.count("tenants"));
    job.id = job.hash = "job-" + std::to_string(i);
    job.model = "m";
    job.stream = "results";
    job.cost_tokens = 256;
    job.body = "a body that no modelled engine reads";
    batch.push_back(std::move(job));
    if (batch.size() < 256 && i + 1 < setup.count("jobs")) continue;
    if (auto done = ledger->apply(batch, 1); !done) die(done.error().text());
    batch.clear();
  }
}

void print(const Fleet& fleet) {
  const Seen& seen = fleet.seen;
  const double seconds = 1e-6 * 2 / 3 * static_cast<double>(fleet.end_us());
  const auto commits = static_cast<double>(std::max<std::uint64_t>(seen.commits, 1));
  std::printf("{");
  for (const auto& [name, value] : fleet.setup.values)
    std::printf("\"%s\": %g, ", name.c_str(), value);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    std::printf("\"%s_per_s\": %.0f, ", kinds[kind],
                static_cast<double>(seen.operations[kind]) / seconds);
  }
  std::printf(
      "\"jobs_per_s\": %.0f, \"wanted_per_s\": %.0f, \"commits_per_s\": %.0f, \"commit_ms\": %.2f, "
      "\"lock_wait_ms\": %.2f, \"busiest_lock\": %.2f}\n",
      static_cast<double>(seen.ended) / seconds,
      fleet.setup["engines"] * fleet.setup["rows"] / fleet.setup["job_s"],
      static_cast<double>(seen.commits) / seconds,
      1e-3 * static_cast<double>(seen.commit_us) / commits,
      1e-3 * static_cast<double>(seen.waited_us) / commits,
      1e-6 * static_cast<double>(fleet.database.most_busy_us()) / seconds);
}

void run(const Setup& setup) {
  std::mt19937_64 random{17};  // NOLINT(bugprone-random-generator-seed): runs draw the same
  Fleet fleet{setup, {}, random, Database{setup}, {}, {}};
  const ModelledTime time(fleet.clock);
  const auto store = make_memory_store({published_end, "epoch", &time});
  submit_all(setup, store);
  std::map<std::string, std::unique_ptr<ModelEngine>> engines;
  fleet.deliver = [&](const Outgoing& out) {
    if (const auto* refused = std::get_if<Refused>(&out.envelope.message))
      die(refused->error.text());
    const auto* leases = std::get_if<Leases>(&out.envelope.message);
    const auto engine = engines.find(out.peer.route);
    if (leases != nullptr && engine != engines.end()) engine->second->take(*leases);
  };
  const auto grants = grants_of(setup);
  std::vector<std::unique_ptr<Node>> nodes;
  std::function<void(std::size_t)> tick = [&](std::size_t place) {
    nodes[place]->feed(Tick{});
    fleet.clock.after(100'000, [&tick, place] { tick(place); });
  };
  for (std::size_t place = 0; place < setup.count("brokers"); ++place) {
    nodes.push_back(std::make_unique<Node>(fleet, place, store, grants));
    fleet.clock.after(static_cast<std::int64_t>(fleet.drawn() * 1e6),
                      [&tick, place] { tick(place); });
  }
  for (std::uint64_t i = 0; i < setup.count("engines"); ++i) {
    const std::string name = "engine-" + std::to_string(i);
    const std::string key = setup["own"] != 0 ? tenant_name(i % setup.count("tenants")) : "all";
    engines[name] = std::make_unique<ModelEngine>(fleet, *nodes[i % nodes.size()], name, key);
  }
  while (fleet.clock.now_us() < fleet.end_us() && fleet.clock.step(fleet.end_us())) {
  }
  print(fleet);
}

}  // namespace
}  // namespace millrace::broker::capacity

int main(int argc, char** argv) {
  millrace::broker::capacity::Setup setup;
  for (int i = 1; i < argc; ++i) {
    const std::string given = argv[i];
    const auto equals = given.find('=');
    const auto at = setup.values.find(given.substr(0, equals));
    if (equals == std::string::npos || at == setup.values.end()) {
      millrace::broker::capacity::die(given +
                                      " is no setting: see the top of bench/capacity_bench.cpp");
    }
    const char* const end = given.data() + given.size();
    const auto [after, error] = std::from_chars(given.data() + equals + 1, end, at->second);
    const bool may_be_none = at->first == "own" || at->first.ends_with("_us");
    const double least = may_be_none ? 0 : 1;
    if (error != std::errc() || after != end || at->second < least) {
      millrace::broker::capacity::die(given + ": give a number, at least " +
                                      (may_be_none ? "0" : "1"));
    }
  }
  millrace::broker::capacity::run(setup);
}
