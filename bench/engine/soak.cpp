// Runs mixed jobs with cancels at full batch for a while, and looks for errors and growth.
//
//   soak --model M.gguf [--seconds 60] [--slice 10] [--jobs 1] [--short] [--seed 1]
//        [engine options]
//
// Twice as many jobs as a step holds are in flight. Their prompts, lengths, sampling, penalties and
// logprobs differ, some prompts begin alike, and one job in eight is cancelled after some steps.
// One job in sixteen is a probe, one of eight requests that come again and again: its tokens and
// logprobs must have the bits that they had the first time, whatever shares its steps. A slice
// takes `slice` seconds, and longer until `jobs` jobs have ended; there are at least three. With
// --short all lengths are an eighth.
//
// At the end of each slice all jobs end. Then no sequence may hold a page, and every job must have
// had one event. Buffers of rare jobs are made when the first of them comes, and the prefix cache
// fills, so memory may grow in the first third of the time. After that the device may have given at
// most a MiB more, for a step that is larger than any before, and the process may hold at most 5 %
// and 16 MiB more. Prints a line a slice; exits with 1 and says why if one of these does not hold.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/must.hpp"
#include "engine/core/engine.hpp"
#include "engine/worker/options.hpp"

namespace {

using millrace::Choice;
using millrace::GenerationRequest;
using millrace::PenaltyScope;
using millrace::TokenId;
using millrace::Tokens;
using millrace::bench::die;
using millrace::bench::must;
using millrace::engine::Counters;
using millrace::engine::Engine;
using millrace::engine::Event;
using millrace::engine::RequestId;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t probes = 8;
constexpr std::uint32_t least_slices = 3;  // memory may grow in the first

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The memory of this process, in MiB.
double resident_mib() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) die("/proc/self/statm cannot be read");
  return static_cast<double>(resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) /
         1048576;
}

class Jobs {
 public:
  Jobs(std::uint64_t seed, std::uint32_t vocabulary, std::uint32_t part)
      : random_(seed), vocabulary_(vocabulary), part_(part) {}

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

  // The steps after which a job is cancelled, if it has not ended.
  std::uint32_t patience() { return below(120 / part_); }

  GenerationRequest any() {
    GenerationRequest out;
    // One of four beginnings, of up to 256 tokens, and then the job's own.
    Tokens prompt = tokens(1 + below(4), below(2) * below(256 / part_));
    const Tokens own = tokens(random_(), 1 + below((below(8) == 0 ? 600 : 160) / part_));
    prompt.insert(prompt.end(), own.begin(), own.end());
    out.prompt = prompt;
    out.max_tokens = 1 + below((below(4) == 0 ? 256 : 96) / part_);
    out.stops.ignore_eos = below(2) == 0;
    out.sampling.temperature = below(2) == 0 ? 0.0f : 0.8f;
    out.sampling.seed = random_();
    if (below(3) == 0) out.sampling.top_p = 0.9f;
    if (below(3) == 0) out.sampling.top_k = 40;
    if (below(4) == 0) out.edits.repetition = {1.1f, PenaltyScope::all, 0};
    if (below(4) == 0) out.edits.presence = {0.5f, PenaltyScope::output, 0};
    if (below(8) == 0) out.edits.dry.multiplier = 0.8f;
    out.logprobs.sampled = below(4) == 0;
    if (out.logprobs.sampled) out.logprobs.top = below(6);
    out.logprobs.prompt = below(32) == 0;
    return out;
  }

  GenerationRequest probe(std::uint32_t which) const {
    Jobs same(1000 + which, vocabulary_, part_);
    GenerationRequest out = same.any();
    out.logprobs.sampled = true;
    out.logprobs.top = 5;
    return out;
  }

 private:
  Tokens tokens(std::uint64_t seed, std::uint32_t count) const {
    std::mt19937_64 random(seed);
    Tokens out(count);
    for (TokenId& id : out) id = static_cast<TokenId>(random() % vocabulary_);
    return out;
  }

  std::mt19937_64 random_;
  std::uint32_t vocabulary_;
  std::uint32_t part_;  // lengths are divided by it
};

class Soak {
 public:
  Soak(Engine& engine, const Jobs& jobs, std::uint32_t in_flight)
      : engine_(engine), jobs_(jobs), in_flight_(in_flight) {}

  // Keeps jobs in flight for some seconds and until some have ended, then lets all end, and checks
  // what must hold. Memory may grow in slices that are `early`.
  void slice(double seconds, std::uint64_t jobs, bool early) {
    const Counters before = engine_.counters();
    const std::uint64_t ended = ended_, cancelled = cancelled_;
    double rows = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < seconds || ended_ - ended < jobs) {
      while (flying_.size() < in_flight_) add();
      step();
      rows += engine_.counters().last_rows;
    }
    const Counters busy = engine_.counters();
    const double taken = seconds_since(start);
    while (engine_.busy()) step();
    const Counters now = engine_.counters();
    const double mib = resident_mib();
    std::printf(
        "%7.1f s: %8lu jobs, %6lu cancelled, %6lu probes, %8.0f tokens/s, %5.1f rows a step, "
        "%6lu pauses, %7.1f MiB, device %.1f MiB\n",
        seconds_since(start_), static_cast<unsigned long>(ended_ - ended),
        static_cast<unsigned long>(cancelled_ - cancelled), static_cast<unsigned long>(probed_),
        static_cast<double>(busy.generated_tokens - before.generated_tokens) / taken,
        rows / static_cast<double>(busy.steps - before.steps),
        static_cast<unsigned long>(now.pauses), mib,
        static_cast<double>(now.device_bytes) / 1048576);
    std::fflush(stdout);
    check(now, mib, early);
  }

 private:
  struct Job {
    std::optional<std::uint32_t> probe;
    std::optional<std::uint64_t> cancelled_at;  // the count of steps
    bool cancelled = false;
  };

  void add() {
    Job job;
    if (jobs_.below(16) == 0) {
      job.probe = jobs_.below(probes);
    } else if (jobs_.below(8) == 0) {
      job.cancelled_at = steps_ + jobs_.patience();
    }
    const RequestId id = next_++;
    must(engine_.add(id, job.probe ? jobs_.probe(*job.probe) : jobs_.any()));
    flying_.emplace(id, job);
  }

  void step() {
    for (auto& [id, job] : flying_) {
      if (job.cancelled || !job.cancelled_at || *job.cancelled_at > steps_) continue;
      engine_.cancel(id);
      job.cancelled = true;
    }
    ++steps_;
    std::vector<Event> events;
    must(engine_.step(events));
    for (const Event& event : events) end(event);
  }

  void end(const Event& event) {
    const auto found = flying_.find(event.id);
    if (found == flying_.end()) die("job " + std::to_string(event.id) + " ended twice");
    if (event.error) die(*event.error);
    const Job job = found->second;
    flying_.erase(found);
    ++ended_;
    if (event.cancelled) {
      if (!job.cancelled) die("job " + std::to_string(event.id) + " was cancelled by nobody");
      ++cancelled_;
    } else if (job.probe) {
      const auto [first, is_first] = first_.emplace(*job.probe, event.result.choices);
      if (!is_first && first->second != event.result.choices) {
        die("probe " + std::to_string(*job.probe) + " has other bits than the first time");
      }
      ++probed_;
    }
  }

  void check(const Counters& now, double mib, bool early) {
    if (!flying_.empty()) die(std::to_string(flying_.size()) + " jobs have had no event");
    if (now.kv_pages_used != 0) die(std::to_string(now.kv_pages_used) + " pages are still used");
    if (early || !settled_) {
      settled_ = {now.device_bytes, mib};
    } else if (now.device_bytes > settled_->device_bytes + (1u << 20)) {
      die("the device's memory has grown by " +
          std::to_string(now.device_bytes - settled_->device_bytes) + " bytes");
    } else if (mib > settled_->mib * 1.05 + 16) {
      die("the process has grown from " + std::to_string(settled_->mib) + " to " +
          std::to_string(mib) + " MiB");
    }
  }

  struct Settled {
    std::uint64_t device_bytes;
    double mib;
  };

  Engine& engine_;
  Jobs jobs_;
  std::uint32_t in_flight_;
  std::map<RequestId, Job> flying_;
  std::map<std::uint32_t, std::vector<Choice>> first_;
  std::optional<Settled> settled_;  // after the last early slice
  std::uint64_t ended_ = 0, cancelled_ = 0, probed_ = 0, steps_ = 0;
  RequestId next_ = 1;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs mixed jobs with cancels at full batch, and looks for errors and growth");
  millrace::worker::EngineFlags flags;
  double seconds = 60, slice = 10;
  std::uint64_t seed = 1, jobs = 1;
  bool is_short = false;
  app.add_option("--model", flags.model)->required();
  app.add_option("--seconds", seconds)->check(CLI::PositiveNumber);
  app.add_option("--slice", slice, "seconds between two looks")->check(CLI::PositiveNumber);
  app.add_option("--jobs", jobs, "that a slice ends at least");
  app.add_flag("--short", is_short, "an eighth of all lengths");
  app.add_option("--seed", seed, "of the jobs");
  millrace::worker::add_engine_options(app, flags);
  CLI11_PARSE(app, argc, argv);
  const auto options = must(millrace::worker::engine_options(flags));
  const auto engine = must(Engine::create(options));
  Soak soak(*engine, Jobs(seed, engine->info().vocabulary, is_short ? 8 : 1),
            2 * options.max_batch);
  const auto start = Clock::now();
  double now = 0;
  for (std::uint32_t n = 0; n < least_slices || now < seconds; ++n) {
    soak.slice(slice, jobs, n < least_slices / 3 || now + slice <= seconds / 3);
    now = seconds_since(start);
  }
  std::printf("no error and no growth\n");
  return 0;
}
