#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/queue_load/loads.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/codec.hpp"

namespace millrace::bench {
namespace {

Hello engine_hello() {
  Hello hello = client_hello();
  hello.role = Role::engine;
  hello.instance = random_id();
  hello.engine.facts.model = "queue_load";
  return hello;
}

Body result_of(std::uint32_t bytes) {
  GenerationResult result;
  Choice choice;
  choice.text = std::string(bytes, 'r');
  result.choices.push_back(std::move(choice));
  return encode_generation(result);
}

// An engine of a given capacity that holds leases until their ends are committed.
class Engine {
 public:
  Engine(net::Context& context, const Place& place, std::uint32_t capacity)
      : capacity_(capacity), link_(context, place, engine_hello()) {}
  Link& link() { return link_; }
  std::uint64_t committed() const { return committed_; }
  std::size_t waiting() const { return waiting_.size(); }

  void take_all() {
    while (auto some = link_.receive()) take(some->message);
    const double now = seconds_now();
    if (now - beat_ < 1e-3 * link_.welcome().heartbeat_ms) return;
    beat_ = now;
    link_.send(
        Heartbeat{.leases = {held_.begin(), held_.end()}, .steps = ++steps_, .credit = room()});
  }
  void want_more() { link_.send(Ready{room()}); }
  void end(std::size_t most, const Body& result) {
    Ends ends;
    for (; most > 0 && !waiting_.empty(); --most) {
      ends.ends.push_back({waiting_.front(), JobState::completed, result, {}});
      waiting_.pop_front();
    }
    if (!ends.ends.empty()) link_.send(std::move(ends));
  }

 private:
  std::uint32_t room() const {
    const auto held = static_cast<std::uint32_t>(waiting_.size());
    return capacity_ - std::min(capacity_, held);
  }
  void take(Message& message) {
    if (auto* leases = std::get_if<Leases>(&message)) {
      for (const auto& lease : leases->leases) {
        waiting_.push_back(lease.lease);
        held_.insert(lease.lease);
      }
    } else if (auto* done = std::get_if<Committed>(&message)) {
      if (!done->stale.empty()) die("the broker took a lease back");
      committed_ += done->committed.size();
      for (const auto lease : done->committed) held_.erase(lease);
    } else if (auto* answer = std::get_if<HeartbeatAnswer>(&message)) {
      if (!answer->lost.empty()) die("the broker took a lease back");
    }
  }

  std::uint32_t capacity_;
  Link link_;
  std::deque<LeaseId> waiting_;  // their ends are not sent
  std::set<LeaseId> held_;       // their ends are not committed
  std::uint64_t committed_ = 0, steps_ = 0;
  double beat_ = 0;
};

}  // namespace

std::string run(const Place& place, const WorkLoad& load) {
  net::Context context;
  Engine engine(context, place, load.capacity);
  const Body result = result_of(load.result_bytes);
  const double begin = seconds_now();
  engine.want_more();
  for (std::uint64_t ended = 0; engine.committed() < load.jobs;) {
    engine.link().wait(load.per_second == 0 ? 1'000 : 1);
    engine.take_all();
    const double due = (seconds_now() - begin) * load.per_second + 1;
    const auto most =
        load.per_second == 0
            ? engine.waiting()
            : std::min<std::uint64_t>(engine.waiting(), static_cast<std::uint64_t>(due) - ended);
    if (most == 0) continue;
    engine.end(most, result);
    engine.want_more();
    ended += most;
  }
  const double seconds = seconds_now() - begin;
  return nlohmann::json{{"load", "work"},
                        {"jobs", engine.committed()},
                        {"seconds", seconds},
                        {"per_second", static_cast<double>(engine.committed()) / seconds}}
      .dump();
}

std::string run(const Place& place, const HandOutLoad& load) {
  net::Context context;
  Engine engine(context, place, 1);
  const Body result = result_of(16);
  std::vector<double> latencies_ms;
  for (std::uint32_t i = 0; i < load.jobs; ++i) {
    const double begin = seconds_now();
    engine.want_more();
    while (engine.waiting() == 0) {
      engine.link().wait(1'000);
      engine.take_all();
    }
    latencies_ms.push_back(1e3 * (seconds_now() - begin));
    engine.end(1, result);
    while (engine.committed() <= i) {
      engine.link().wait(1'000);
      engine.take_all();
    }
  }
  return nlohmann::json{{"load", "hand-out"},
                        {"jobs", load.jobs},
                        {"p50_ms", percentile(latencies_ms, 0.5)},
                        {"p99_ms", percentile(latencies_ms, 0.99)}}
      .dump();
}

}  // namespace millrace::bench
