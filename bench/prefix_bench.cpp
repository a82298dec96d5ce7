// Measures how many prompts find their beginning in their engine's prefix tree when several engines
// share a queue, and what the look-ahead for it costs in engines' time. The broker's core and a
// SQLite ledger are the real ones; engines and time are modelled, so the figures are the same on
// every machine.
//
//   prefix_bench [JOBS] [PREFIXES]      (4000 jobs in random order, of 40 beginnings)
//
// A beginning has 1,500 tokens, and each prompt 50 of its own. An engine runs 16 jobs at once and
// may hold 8 more. Its tree keeps so many beginnings, those used last. A step takes 10 ms, and
// 0.1 ms more for each prompt token that is computed in it, at most 512; an answer has 16 to 112
// tokens. Prints one JSON object a line: hits, which are jobs whose beginning was known or under
// way; the same as a share of what one engine has whose tree keeps all; prompt tokens computed; the
// time until the last job ended; and the share of it in which the rows of engines stood empty.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/core/results.hpp"
#include "broker/ledger/sqlite_ledger.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint32_t rows = 16, capacity = 24, step_tokens = 512;
constexpr std::uint32_t prefix_tokens = 1500, own_tokens = 50;
constexpr std::int64_t step_us = 10'000, token_us = 100, heartbeat_us = 1'000'000;

struct Setup {
  std::uint32_t engines = 1;
  std::size_t tree = 40;      // beginnings that an engine's tree keeps
  bool look_ahead = true;     // false: the jobs' beginnings have no numbers
  std::uint32_t slow_by = 1;  // the last engine's steps take so many times as long
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "prefix_bench: %s\n", why.c_str());
  std::exit(1);
}

// An engine as far as the broker and the clock can tell.
class ModelEngine {
 public:
  ModelEngine(std::string name, std::size_t tree, std::uint32_t slow_by)
      : name_(std::move(name)), tree_size_(tree), slow_by_(slow_by) {}

  Peer peer() const { return {Endpoint::engine, name_}; }
  std::int64_t next_us() const { return next_us_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t computed_tokens() const { return computed_tokens_; }
  double empty_row_us() const { return empty_row_us_; }

  void take(const Leases& leases) {
    for (const Lease& lease : leases.leases) {
      const std::size_t dash = lease.job.find('-');
      waiting_.push_back({lease.lease, lease.prefix, lease.job.substr(0, dash), 0, 0});
    }
  }
  // Ends the step that began before, and begins the next.
  Ends step(std::int64_t now_us) {
    Ends ends;
    std::erase_if(running_, [&](Running& job) {
      if (job.prompt_left > 0 || --job.steps_left > 0) return false;
      ends.ends.push_back({job.lease, JobState::completed, encode_generation({}), {}});
      return true;
    });
    while (running_.size() < rows && !waiting_.empty()) admit();
    std::uint32_t budget = step_tokens;
    for (Running& job : running_) {
      const std::uint32_t piece = std::min(budget, job.prompt_left);
      job.prompt_left -= piece;
      budget -= piece;
    }
    computed_tokens_ += step_tokens - budget;
    ++steps_;
    const std::int64_t took_us = slow_by_ * (step_us + token_us * (step_tokens - budget));
    empty_row_us_ += static_cast<double>(took_us) * static_cast<double>(rows - running_.size());
    next_us_ = now_us + took_us;
    return ends;
  }
  bool beat_due(std::int64_t now_us) {
    if (now_us < beat_us_) return false;
    beat_us_ = now_us + heartbeat_us;
    return true;
  }
  std::uint32_t credit() const {
    return capacity - static_cast<std::uint32_t>(running_.size() + waiting_.size());
  }
  Heartbeat heartbeat() const {
    Heartbeat beat;
    for (const auto* jobs : {&running_, &waiting_}) {
      for (const Running& job : *jobs) beat.leases.push_back(job.lease);
    }
    for (const Running& job : waiting_) beat.waiting.push_back(job.lease);
    beat.steps = beat.tokens = steps_;
    beat.credit = credit();
    for (const Known& known : tree_) {
      if (known.prefix != 0) beat.prefixes.push_back(known.prefix);
    }
    return beat;
  }

 private:
  struct Running {
    LeaseId lease = 0;
    std::uint64_t prefix = 0;
    std::string beginning;
    std::uint32_t prompt_left = 0, steps_left = 0;
  };
  struct Known {
    std::string beginning;
    std::uint64_t prefix = 0;
  };
  void admit() {
    Running job = std::move(waiting_.front());
    waiting_.pop_front();
    const auto known = std::ranges::find(tree_, job.beginning, &Known::beginning);
    job.prompt_left = own_tokens;
    if (known != tree_.end()) {
      ++hits_;
      tree_.splice(tree_.begin(), tree_, known);
    } else {
      job.prompt_left += prefix_tokens;
      tree_.push_front({job.beginning, job.prefix});
      if (tree_.size() > tree_size_) tree_.pop_back();
    }
    job.steps_left = 16 + static_cast<std::uint32_t>(job.lease * 2654435761u % 97);
    running_.push_back(std::move(job));
  }

  std::string name_;
  std::size_t tree_size_;
  std::uint32_t slow_by_;
  std::int64_t next_us_ = 0, beat_us_ = 0;
  std::deque<Running> running_, waiting_;
  std::list<Known> tree_;  // used last first
  std::uint64_t hits_ = 0, computed_tokens_ = 0, steps_ = 0;
  double empty_row_us_ = 0;
};

// The broker between the jobs and the engines.
class Run {
 public:
  explicit Run(const Setup& setup) : setup_(setup) {
    SqliteLedgerOptions options;
    options.publish = published_end;
    options.ballast_bytes = 0;
    auto ledger = open_sqlite_ledger((folder_ / "ledger").string(), std::move(options));
    if (!ledger) die(ledger.error().text());
    ledger_ = *std::move(ledger);
    feed(Start{});
    for (std::uint32_t i = 0; i < setup.engines; ++i) {
      engines_.emplace_back("e" + std::to_string(i), setup.tree,
                            i + 1 == setup.engines ? setup.slow_by : 1);
      Hello hello;
      hello.role = Role::engine;
      hello.name = hello.instance = engines_.back().peer().route;
      hello.engine.facts.model = "m";
      say(engines_.back().peer(), std::move(hello));
    }
  }
  ~Run() { std::filesystem::remove_all(folder_); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void submit(std::uint32_t jobs, std::uint32_t prefixes) {
    Hello hello;
    hello.name = "producer";
    const Peer producer{Endpoint::client, "producer"};
    say(producer, std::move(hello));
    std::vector<std::uint32_t> beginnings;
    for (std::uint32_t i = 0; i < jobs; ++i) beginnings.push_back(i % prefixes);
    std::mt19937 random(17);  // NOLINT(bugprone-random-generator-seed): runs draw the same
    std::ranges::shuffle(beginnings, random);
    Submit message;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      Job job;
      const std::string beginning = std::to_string(beginnings[i]);
      job.id = beginning + "-" + std::to_string(i);
      job.model = "m";
      std::string prompt = beginning + " ";
      if (setup_.look_ahead) prompt.resize(4 * std::size_t{prefix_tokens}, 'x');
      job.request.prompt = prompt + job.id;
      job.request.max_tokens = 64;
      message.jobs.push_back(encode_job(job));
      if (message.jobs.size() == 100 || i + 1 == jobs) say(producer, std::exchange(message, {}));
    }
  }
  void work(std::uint32_t jobs) {
    for (ModelEngine& engine : engines_) say(engine.peer(), Ready{capacity});
    while (ended_ < jobs) {
      ModelEngine& engine = *std::ranges::min_element(engines_, {}, &ModelEngine::next_us);
      now_us_ = engine.next_us();
      if (now_us_ > 36'000'000'000) die("the jobs do not end");
      for (; tick_us_ <= now_us_; tick_us_ += 250'000) feed(Tick{});
      Ends ends = engine.step(now_us_);
      ended_ += static_cast<std::uint32_t>(ends.ends.size());
      const bool some = !ends.ends.empty();
      if (some) say(engine.peer(), std::move(ends));
      if (engine.beat_due(now_us_)) {
        say(engine.peer(), engine.heartbeat());
      } else if (some) {
        say(engine.peer(), Ready{engine.credit()});
      }
    }
  }
  std::uint64_t print(std::uint64_t all_hits) const {
    std::uint64_t hits = 0, tokens = 0;
    double empty_us = 0;
    for (const ModelEngine& engine : engines_) {
      hits += engine.hits();
      tokens += engine.computed_tokens();
      empty_us += engine.empty_row_us();
    }
    const double row_us = static_cast<double>(now_us_) * rows * setup_.engines;
    const double of_all =
        static_cast<double>(hits) / static_cast<double>(all_hits ? all_hits : hits);
    std::printf(
        "{\"engines\": %u, \"tree\": %zu, \"slow_by\": %u, \"look_ahead\": %s, \"hits\": %llu, "
        "\"of_one_engine_with_all\": %.3f, \"computed_tokens\": %llu, \"seconds\": %.1f, "
        "\"empty_rows\": %.4f}\n",
        setup_.engines, setup_.tree, setup_.slow_by, setup_.look_ahead ? "true" : "false",
        static_cast<unsigned long long>(hits), of_all, static_cast<unsigned long long>(tokens),
        1e-6 * static_cast<double>(now_us_), empty_us / row_us);
    return hits;
  }

 private:
  void say(const Peer& peer, Message message) {
    feed(Received{peer, Envelope{++ids_, std::move(message)}, 0, ""});
  }
  void feed(Event event) {
    absorb(broker_.handle(std::move(event), now()));
    while (!requests_.empty()) {
      const LedgerRequest request = std::move(requests_.front());
      requests_.pop_front();
      auto replies = ledger_->apply(request.operations, now().unix_us);
      if (!replies) die(replies.error().text());
      absorb(broker_.handle(Completed{request.ticket, *std::move(replies)}, now()));
    }
  }
  void absorb(Actions actions) {
    for (auto& request : actions.ledger) requests_.push_back(std::move(request));
    for (const auto& out : actions.messages) {
      if (const auto* refused = std::get_if<Refused>(&out.envelope.message)) {
        die(refused->error.text());
      }
      const auto* leases = std::get_if<Leases>(&out.envelope.message);
      if (leases == nullptr) continue;
      std::ranges::find(engines_, out.peer, &ModelEngine::peer)->take(*leases);
    }
  }
  Now now() const { return {1'000'000 + now_us_, 1'700'000'000'000'000 + now_us_}; }

  Setup setup_;
  std::filesystem::path folder_ = [] {
    auto folder = std::filesystem::temp_directory_path() / ("prefix_bench-" + random_id());
    std::filesystem::create_directories(folder);
    return folder;
  }();
  std::unique_ptr<Ledger> ledger_;
  Broker broker_{CoreConfig{}};
  std::deque<LedgerRequest> requests_;
  std::deque<ModelEngine> engines_;
  std::uint64_t ids_ = 0;
  std::uint32_t ended_ = 0;
  std::int64_t now_us_ = 0, tick_us_ = 0;
};

}  // namespace
}  // namespace millrace::broker

int main(int argc, char** argv) {
  using namespace millrace::broker;
  const auto number = [&](int i, unsigned fallback) {
    if (argc <= i) return fallback;
    const std::string given = argv[i];
    const char* const end = given.data() + given.size();
    unsigned value = 0;
    const auto [after, error] = std::from_chars(given.data(), end, value);
    if (error != std::errc() || after != end || value == 0 || value > 1'000'000) {
      die(given + ": give numbers of jobs and of beginnings, from 1 to 1000000");
    }
    return value;
  };
  const unsigned jobs = number(1, 4000), prefixes = number(2, 40);
  std::uint64_t all_hits = 0;
  for (const Setup& setup : std::vector<Setup>{{1, prefixes},
                                               {4, prefixes, true},
                                               {4, prefixes, false},
                                               {4, 3 * prefixes / 8, true},
                                               {4, 3 * prefixes / 8, false},
                                               {4, prefixes / 4, true},
                                               {4, prefixes / 4, false},
                                               {4, 3 * prefixes / 8, true, 4},
                                               {4, 3 * prefixes / 8, false, 4},
                                               {1, 3 * prefixes / 8, true},
                                               {1, 3 * prefixes / 8, false}}) {
    Run run(setup);
    run.submit(jobs, prefixes);
    run.work(jobs);
    const std::uint64_t hits = run.print(all_hits);
    if (all_hits == 0) all_hits = hits;
  }
}
