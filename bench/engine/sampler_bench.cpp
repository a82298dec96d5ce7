// Measures what penalties and logprobs add to a decode step.
//
//   sampler_bench --model M.gguf [--rows 32] [--prompt 128] [--steps 8] [--rounds 12] [--profile]
//
// It decodes the same rows in several variants: plain (greedy, without extras), and with penalties
// or logprobs. Each variant has an engine, all on the same device. The variants take turns of a few
// steps, in an order that rotates with the round, so that disturbances meet all of them alike.
// After `rounds` rounds each variant moves on to the next engine, until each has run on each,
// because the memory of one engine lies better than that of another. The cost in one arrangement is
// the median over its rounds of how much longer a variant's steps took than the plain ones of that
// round. The program prints the mean over the arrangements, with bounds that contain it in 95 of
// 100 such runs, computed from the order of all rounds' distances from their medians. Prints one
// JSON object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/must.hpp"
#include "engine/core/engine.hpp"
#include "engine/worker/options.hpp"

namespace {

using millrace::GenerationRequest;
using millrace::PenaltyScope;
using millrace::bench::die;
using millrace::bench::must;
using millrace::engine::Counters;
using millrace::engine::Engine;
using millrace::engine::EngineOptions;
using millrace::engine::Event;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Load {
  std::uint32_t rows = 32, prompt = 128, steps = 8, rounds = 12;
  std::uint32_t timed() const { return steps * rounds; }
};

struct Variant {
  const char* name;
  void (*ask)(GenerationRequest&);
};

void penalize(GenerationRequest& request) {
  request.edits.repetition = {1.1f, PenaltyScope::all, 0};
  request.edits.presence = {0.1f, PenaltyScope::output, 0};
  request.edits.frequency = {0.1f, PenaltyScope::output, 0};
}

constexpr Variant variants[] = {
    {"plain", [](GenerationRequest&) {}},
    {"penalties", penalize},
    {"all_penalties",
     [](GenerationRequest& request) {
       penalize(request);
       request.edits.dry.multiplier = 0.8f;
       request.edits.no_repeat_ngram = 4;
     }},
    {"logprobs", [](GenerationRequest& request) { request.logprobs.sampled = true; }},
    {"top5_logprobs",
     [](GenerationRequest& request) {
       request.logprobs.sampled = true;
       request.logprobs.top = 5;
     }},
};
constexpr std::size_t variant_count = std::size(variants);

GenerationRequest job(std::uint32_t index, const Load& load, std::uint32_t vocabulary) {
  GenerationRequest request;
  millrace::Tokens prompt;
  for (std::uint32_t i = 0; i < load.prompt; ++i) {
    prompt.push_back(1000 + (index * 7919 + i * 104729) % (vocabulary - 1000));
  }
  request.prompt = prompt;
  // Enough for the timed steps, and for the steps in which the prompts of other rows are computed,
  // at least 64 prompt tokens a step.
  request.max_tokens = load.timed() + 16 + load.rows * (load.prompt / 64 + 1);
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  return request;
}

struct Turn {
  double step_ms = 0, launches = 0, sampler_ms = 0;  // means of a decode step
};

// An engine, which runs the rows of one variant at a time.
class Side {
 public:
  Side(const EngineOptions& options, const Load& load)
      : engine_(must(Engine::create(options))), load_(load) {}

  // Ends the earlier rows, computes the prompts of the new ones, and runs a few steps to settle.
  void begin(const Variant& variant) {
    for (std::uint32_t i = 0; i < load_.rows; ++i) engine_->cancel(i);
    while (engine_->busy()) must(engine_->step(events_));
    events_.clear();
    const std::uint64_t before = engine_->counters().prompt_tokens;
    for (std::uint32_t i = 0; i < load_.rows; ++i) {
      GenerationRequest request = job(i, load_, engine_->info().vocabulary);
      variant.ask(request);
      must(engine_->add(i, request));
    }
    const auto all_decode = [&] {
      const Counters now = engine_->counters();
      return now.prompt_tokens - before == std::uint64_t{load_.rows} * load_.prompt &&
             now.last_tokens == load_.rows;
    };
    while (!all_decode()) step();
    for (int i = 0; i < 3; ++i) step();
  }

  Turn turn() {
    must(engine_->profile());
    const std::uint64_t launches = engine_->counters().launches;
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < load_.steps; ++i) step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::uint64_t launched = engine_->counters().launches - launches;
    Turn out{seconds * 1e3 / load_.steps, static_cast<double>(launched) / load_.steps};
    for (const auto& time : must(engine_->profile())) {
      if (time.kernel == "sample") out.sampler_ms = static_cast<double>(time.total_ns) / 1e6;
    }
    out.sampler_ms /= load_.steps;
    return out;
  }
  const Engine& engine() const { return *engine_; }

 private:
  void step() {
    must(engine_->step(events_));
    if (events_.empty()) return;
    if (events_[0].error) die(*events_[0].error);
    die("a row ended before its last turn: give more --kv-memory, or fewer --rows or --rounds");
  }

  std::unique_ptr<Engine> engine_;
  Load load_;
  std::vector<Event> events_;
};

// Returns the value of that rank, rounded down; 0 is the least. There must be at least one value.
double at_rank(std::vector<double> values, double rank) {
  std::ranges::sort(values);
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::clamp(rank, 0.0, last))];
}
double median(const std::vector<double>& values) {
  const double half = static_cast<double>(values.size() - 1) / 2;
  return (at_rank(values, std::floor(half)) + at_rank(values, std::ceil(half))) / 2;
}

using Turns = std::vector<std::vector<Turn>>;  // [arrangement][round]

json figures(const Turns& turns, const Turns& plain) {
  std::vector<double> ms, sampler_ms, medians, distances;
  for (std::size_t at = 0; at < turns.size(); ++at) {
    std::vector<double> cost;
    for (std::size_t round = 0; round < turns[at].size(); ++round) {
      ms.push_back(turns[at][round].step_ms);
      sampler_ms.push_back(turns[at][round].sampler_ms);
      cost.push_back((turns[at][round].step_ms / plain[at][round].step_ms - 1) * 100);
    }
    medians.push_back(median(cost));
    for (const double one : cost) distances.push_back(one - medians.back());
  }
  const double mean =
      std::accumulate(medians.begin(), medians.end(), 0.0) / static_cast<double>(medians.size());
  // The number of n distances below their true median is binomial: n/2 +- 1.96 sqrt(n)/2.
  const auto n = static_cast<double>(distances.size());
  return {{"step_ms", median(ms)},
          {"cost_percent", mean},
          {"cost_percent_low", mean + at_rank(distances, std::floor(n / 2 - 0.98 * std::sqrt(n)))},
          {"cost_percent_high", mean + at_rank(distances, std::ceil(n / 2 + 0.98 * std::sqrt(n)))},
          {"cost_percent_medians", medians},
          {"launches_per_step", turns.back().back().launches},
          {"sampler_ms", median(sampler_ms)},
          {"step_ms_rounds", ms}};
}

json measure(const EngineOptions& options, const Load& load) {
  std::vector<std::unique_ptr<Side>> sides;
  for (std::size_t i = 0; i < variant_count; ++i) {
    sides.push_back(std::make_unique<Side>(options, load));
  }
  std::vector<Turns> turns(variant_count, Turns(variant_count));
  for (std::size_t shift = 0; shift < variant_count; ++shift) {
    const auto side_of = [&](std::size_t which) -> Side& {
      return *sides[(which + shift) % variant_count];
    };
    for (std::size_t which = 0; which < variant_count; ++which) {
      side_of(which).begin(variants[which]);
    }
    for (std::uint32_t round = 0; round < load.rounds; ++round) {
      for (std::size_t i = 0; i < variant_count; ++i) {
        const std::size_t which = (i + round) % variant_count;
        turns[which][shift].push_back(side_of(which).turn());
      }
    }
  }
  json out = json::object();
  for (std::size_t which = 0; which < variant_count; ++which) {
    out[variants[which].name] = figures(turns[which], turns[0]);
  }
  out["device"] = sides[0]->engine().info().device_name;
  out["arrangements"] = variant_count;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures what penalties and logprobs add to a decode step");
  Load load;
  millrace::worker::EngineFlags flags;
  app.add_option("--model", flags.model)->required();
  app.add_option("--rows", load.rows)->check(CLI::Range(1, 512));
  app.add_option("--prompt", load.prompt)->check(CLI::Range(1, 100000));
  app.add_option("--steps", load.steps)->check(CLI::Range(1, 100000));
  app.add_option("--rounds", load.rounds)->check(CLI::Range(1, 1000));
  bool profile = false;
  app.add_flag("--profile", profile, "also time the sampler's kernel; slows steps down");
  millrace::worker::add_engine_options(app, flags);
  CLI11_PARSE(app, argc, argv);
  flags.prefix_cache = "off";  // because the same prompts run repeatedly
  EngineOptions options = must(millrace::worker::engine_options(flags));
  options.profile = profile;
  json out = measure(options, load);
  out["rows"] = load.rows;
  out["prompt"] = load.prompt;
  out["steps"] = load.steps;
  out["rounds"] = load.rounds;
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}
