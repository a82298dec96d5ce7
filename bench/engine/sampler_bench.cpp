// What penalties and logprobs cost a decode step.
//
//   sampler_bench --model M.gguf [--rows 32] [--prompt 128] [--steps 48] [--rounds 12] [--profile]
//
// Each round decodes the same rows once plain (greedy, nothing asked) and once with each way of
// asking for more, in an order that turns with the round; the cost is the median over the rounds of
// how much longer the same number of steps took than the plain ones of that round. Prints one JSON
// object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
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
  std::uint32_t rows = 32, prompt = 128, steps = 48, rounds = 12;
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
  request.max_tokens = load.steps + 16 + load.rows * (load.prompt / 64 + 1);
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  return request;
}

struct Run {
  double step_ms = 0, launches = 0, sampler_ms = 0;  // of a decode step
};

// The rows' prompts, a few steps to settle, the steps that are timed; then everybody is cancelled.
Run run(Engine& engine, const Load& load, const Variant& variant) {
  std::vector<Event> events;
  const auto none_ended = [&events](const char* what) {
    if (events.empty()) return;
    if (events[0].error) die(*events[0].error);
    die(what);
  };
  const std::uint64_t before = engine.counters().prompt_tokens;
  for (std::uint32_t i = 0; i < load.rows; ++i) {
    GenerationRequest request = job(i, load, engine.info().vocabulary);
    variant.ask(request);
    must(engine.add(i, request));
  }
  const auto all_decode = [&] {
    const Counters now = engine.counters();
    return now.prompt_tokens - before == std::uint64_t{load.rows} * load.prompt &&
           now.last_tokens == load.rows;
  };
  while (!all_decode()) {
    must(engine.step(events));
    none_ended("a row ended before all decoded at once: give more --kv-memory, or fewer --rows");
  }
  for (int i = 0; i < 3; ++i) must(engine.step(events));
  must(engine.profile());
  const std::uint64_t launches = engine.counters().launches;
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < load.steps; ++i) must(engine.step(events));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::uint64_t launched = engine.counters().launches - launches;
  const auto profile = must(engine.profile());
  none_ended("a row ended while it was timed: report this");
  for (std::uint32_t i = 0; i < load.rows; ++i) engine.cancel(i);
  while (engine.busy()) must(engine.step(events));
  Run out{seconds * 1e3 / load.steps, static_cast<double>(launched) / load.steps};
  for (const auto& time : profile) {
    if (time.kernel == "sample") out.sampler_ms = static_cast<double>(time.total_ns) / 1e6;
  }
  out.sampler_ms /= load.steps;
  return out;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

json measure(Engine& engine, const Load& load) {
  std::vector<std::vector<Run>> runs(variant_count);
  for (const Variant& variant : variants) run(engine, load, variant);  // warms up
  for (std::uint32_t round = 0; round < load.rounds; ++round) {
    for (std::size_t i = 0; i < variant_count; ++i) {
      const std::size_t which = (i + round) % variant_count;
      runs[which].push_back(run(engine, load, variants[which]));
    }
  }
  json out = json::object();
  for (std::size_t which = 0; which < variant_count; ++which) {
    std::vector<double> ms, cost, sampler_ms;
    for (std::uint32_t round = 0; round < load.rounds; ++round) {
      ms.push_back(runs[which][round].step_ms);
      sampler_ms.push_back(runs[which][round].sampler_ms);
      cost.push_back((runs[which][round].step_ms / runs[0][round].step_ms - 1) * 100);
    }
    out[variants[which].name] = {{"step_ms", median(ms)},
                                 {"cost_percent", median(cost)},
                                 {"launches_per_step", runs[which].back().launches},
                                 {"sampler_ms", median(sampler_ms)},
                                 {"step_ms_runs", ms}};
  }
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
  flags.prefix_cache = "off";  // the same prompts run in every round
  EngineOptions options = must(millrace::worker::engine_options(flags));
  options.profile = profile;
  const auto engine = must(Engine::create(options));
  json out = measure(*engine, load);
  out["device"] = engine->info().device_name;
  out["rows"] = load.rows;
  out["prompt"] = load.prompt;
  out["steps"] = load.steps;
  out["rounds"] = load.rounds;
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}
