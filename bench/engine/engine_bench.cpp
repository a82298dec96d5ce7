// How fast the engine is, without queue and files: `jobs` jobs of `prompt` prompt tokens and
// `output` output tokens, and the time from start to first token.
//
//   engine_bench --model M.gguf [--jobs 64] [--prompt 128] [--output 128] [engine options]
//
// Prints one JSON object. Prompt and generation speed are told apart by what the steps held: a
// step's time is shared between its prompt and its decoding tokens by their number.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/engine.hpp"

namespace {

using millrace::GenerationRequest;
using millrace::engine::Counters;
using millrace::engine::Engine;
using millrace::engine::EngineOptions;
using millrace::engine::Event;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Load {
  std::uint32_t jobs = 64, prompt = 128, output = 128;
};

GenerationRequest job(std::uint32_t index, const Load& load, std::uint32_t vocabulary) {
  GenerationRequest request;
  millrace::Tokens prompt;
  for (std::uint32_t i = 0; i < load.prompt; ++i) {
    prompt.push_back(1000 + (index * 7919 + i * 104729) % (vocabulary - 1000));
  }
  request.prompt = prompt;
  request.max_tokens = load.output;
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  return request;
}

[[noreturn]] void die(const millrace::Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  std::exit(1);
}

void drain(Engine& engine) {
  std::vector<Event> events;
  while (engine.busy()) {
    if (const auto status = engine.step(events); !status) die(status.error());
  }
  for (const Event& event : events) {
    if (event.error) die(*event.error);
  }
}

nlohmann::json measure(Engine& engine, const Load& load) {
  for (std::uint32_t i = 0; i < load.jobs; ++i) {
    if (const auto status = engine.add(i + 10, job(i, load, engine.info().vocabulary)); !status) {
      die(status.error());
    }
  }
  const Counters before = engine.counters();
  std::vector<double> step_ms;
  double prompt_s = 0, generate_s = 0;
  const auto start = Clock::now();
  std::vector<Event> events;
  Counters last = before;
  while (engine.busy()) {
    const auto at = Clock::now();
    if (const auto status = engine.step(events); !status) die(status.error());
    const double s = seconds_since(at);
    const Counters now = engine.counters();
    const auto prompt = static_cast<double>(now.prompt_tokens - last.prompt_tokens);
    const auto drawn = static_cast<double>(now.generated_tokens - last.generated_tokens);
    const double share = prompt + drawn > 0 ? prompt / (prompt + drawn) : 0;
    prompt_s += s * share;
    generate_s += s * (1 - share);
    step_ms.push_back(s * 1e3);
    last = now;
  }
  const double total_s = seconds_since(start);
  for (const Event& event : events) {
    if (event.error) die(*event.error);
  }
  std::sort(step_ms.begin(), step_ms.end());
  const auto prompt = static_cast<double>(last.prompt_tokens - before.prompt_tokens);
  const auto drawn = static_cast<double>(last.generated_tokens - before.generated_tokens);
  return {{"total_tok_s", (prompt + drawn) / total_s},
          {"prompt_tok_s", prompt_s > 0 ? prompt / prompt_s : 0},
          {"generate_tok_s", generate_s > 0 ? drawn / generate_s : 0},
          {"total_s", total_s},
          {"steps", step_ms.size()},
          {"launches_per_step", static_cast<double>(last.launches - before.launches) /
                                    static_cast<double>(last.steps - before.steps)},
          {"step_ms_median", step_ms[step_ms.size() / 2]},
          {"step_ms_max", step_ms.back()},
          {"prompt_tokens", prompt},
          {"generated_tokens", drawn}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Engine benchmark");
  Load load;
  EngineOptions options;
  app.add_option("--model", options.model_path)->required();
  app.add_option("--jobs", load.jobs)->check(CLI::Range(1, 100000));
  app.add_option("--prompt", load.prompt)->check(CLI::Range(1, 1000000));
  app.add_option("--output", load.output)->check(CLI::Range(1, 1000000));
  app.add_option("--device", options.device);
  app.add_option("--variant", options.kernel_variant, "kernels: generic or cpu");
  app.add_option("--max-batch", options.max_batch);
  app.add_option("--step-tokens", options.step_tokens);
  app.add_option("--prefill-chunk", options.prefill_chunk);
  app.add_option("--kv-memory", options.kv_memory_bytes, "bytes");
  CLI11_PARSE(app, argc, argv);

  const auto start = Clock::now();
  auto engine = Engine::create(options);
  if (!engine) die(engine.error());
  const double load_s = seconds_since(start);
  const Load single{1, 16, 1};
  if (const auto status = (*engine)->add(1, job(0, single, (*engine)->info().vocabulary));
      !status) {
    die(status.error());
  }
  drain(**engine);
  const double first_token_s = seconds_since(start);

  nlohmann::json out = measure(**engine, load);
  const auto& info = (*engine)->info();
  out["device"] = info.device_name;
  out["fingerprint"] = info.fingerprint;
  out["jobs"] = load.jobs;
  out["prompt"] = load.prompt;
  out["output"] = load.output;
  out["load_s"] = load_s;
  out["start_to_first_token_s"] = first_token_s;
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}
