// What penalties and logprobs cost a decode step.
//
//   sampler_bench --model M.gguf [--rows 32] [--prompt 128] [--steps 8] [--rounds 60] [--profile]
//
// One engine for each way of asking, all on the same device, decodes the same rows: plain (greedy,
// nothing asked) and with something asked for. They take turns of a few steps, in an order that
// turns with the round, so that what a machine does meanwhile meets all alike. The cost is the
// median over the rounds of how much longer the same number of steps took than the plain ones of
// that round; beside it the bounds that hold that median in 95 of 100 such runs, from the order of
// the rounds' costs alone. Prints one JSON object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
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
  std::uint32_t rows = 32, prompt = 128, steps = 8, rounds = 60;
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
  // What is timed, and what rows draw while the prompts of others are computed, at least 64 tokens
  // of them a step.
  request.max_tokens = load.timed() + 16 + load.rows * (load.prompt / 64 + 1);
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  return request;
}

struct Turn {
  double step_ms = 0, launches = 0, sampler_ms = 0;  // of a decode step
};

// The rows of one variant on an engine of their own.
class Side {
 public:
  // Their prompts, and a few steps to settle.
  Side(const EngineOptions& options, const Load& load, const Variant& variant)
      : engine_(must(Engine::create(options))), load_(load) {
    for (std::uint32_t i = 0; i < load.rows; ++i) {
      GenerationRequest request = job(i, load, engine_->info().vocabulary);
      variant.ask(request);
      must(engine_->add(i, request));
    }
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
  bool all_decode() const {
    const Counters now = engine_->counters();
    return now.prompt_tokens == std::uint64_t{load_.rows} * load_.prompt &&
           now.last_tokens == load_.rows;
  }
  void step() {
    must(engine_->step(events_));
    if (events_.empty()) return;
    if (events_[0].error) die(*events_[0].error);
    die("a row ended before all was timed: give more --kv-memory, or fewer --rows or --rounds");
  }

  std::unique_ptr<Engine> engine_;
  Load load_;
  std::vector<Event> events_;
};

// `rank` of the sorted values, of which there is at least one; 0 is the least.
double at_rank(std::vector<double> values, double rank) {
  std::ranges::sort(values);
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::clamp(rank, 0.0, last))];
}
double median(const std::vector<double>& values) {
  const double half = static_cast<double>(values.size() - 1) / 2;
  return (at_rank(values, std::floor(half)) + at_rank(values, std::ceil(half))) / 2;
}

json figures(const std::vector<Turn>& turns, const std::vector<Turn>& plain) {
  std::vector<double> ms, cost, sampler_ms;
  for (std::size_t round = 0; round < turns.size(); ++round) {
    ms.push_back(turns[round].step_ms);
    sampler_ms.push_back(turns[round].sampler_ms);
    cost.push_back((turns[round].step_ms / plain[round].step_ms - 1) * 100);
  }
  // How many of n costs lie below the true median is binomial: n/2 +- 1.96 sqrt(n)/2 of them.
  const auto n = static_cast<double>(cost.size());
  return {{"step_ms", median(ms)},
          {"cost_percent", median(cost)},
          {"cost_percent_low", at_rank(cost, std::floor(n / 2 - 0.98 * std::sqrt(n)))},
          {"cost_percent_high", at_rank(cost, std::ceil(n / 2 + 0.98 * std::sqrt(n)))},
          {"launches_per_step", turns.back().launches},
          {"sampler_ms", median(sampler_ms)},
          {"step_ms_rounds", ms}};
}

json measure(const EngineOptions& options, const Load& load) {
  std::vector<std::unique_ptr<Side>> sides;
  for (const Variant& variant : variants) {
    sides.push_back(std::make_unique<Side>(options, load, variant));
  }
  std::vector<std::vector<Turn>> turns(variant_count);
  for (std::uint32_t round = 0; round < load.rounds; ++round) {
    for (std::size_t i = 0; i < variant_count; ++i) {
      const std::size_t which = (i + round) % variant_count;
      turns[which].push_back(sides[which]->turn());
    }
  }
  json out = json::object();
  for (std::size_t which = 0; which < variant_count; ++which) {
    out[variants[which].name] = figures(turns[which], turns[0]);
  }
  out["device"] = sides[0]->engine().info().device_name;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What penalties and logprobs cost a decode step");
  Load load;
  millrace::worker::EngineFlags flags;
  app.add_option("--model", flags.model)->required();
  app.add_option("--rows", load.rows)->check(CLI::Range(1, 512));
  app.add_option("--prompt", load.prompt)->check(CLI::Range(1, 100000));
  app.add_option("--steps", load.steps)->check(CLI::Range(1, 100000));
  app.add_option("--rounds", load.rounds)->check(CLI::Range(1, 1000));
  bool profile = false;
  app.add_flag("--profile", profile, "time the sampler's kernel by itself; slows steps down");
  millrace::worker::add_engine_options(app, flags);
  CLI11_PARSE(app, argc, argv);
  flags.prefix_cache = "off";  // the same prompts run on every engine
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
