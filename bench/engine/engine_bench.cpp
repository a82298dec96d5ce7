// Measures the speed of the engine without queue and files.
//
//   engine_bench --model M.gguf [--jobs 64] [--prompt 128] [--output 128] [--shared 0]
//                [--headroom 0] [engine options]
//
// After a short warm-up it runs `jobs` distinct prompts of `prompt` tokens twice: in the first run
// each draws one token, in the second run `output` tokens. Prompt speed is that of the first run.
// Generation speed is that of the second run's steps in which every job draws a token and no prompt
// is left, which is how bench/compare measures its peers. --profile adds the time of each kernel
// from the device's events, in the first run and in the steps of the second that hold no prompt;
// --separate launches the parts of a layer one by one, so that each has a time. --first-token only
// loads the model and draws one token. --generation-only omits the first run, and prompt speed is
// then that of the second run's steps. The prompts of many jobs take many steps, in which the first
// jobs draw already. With --headroom N a job may draw N tokens more, and the run ends once every
// job has drawn in `output` steps without a prompt. With --shared N the first N tokens of all
// prompts are the same, and the load runs once, on an empty prefix tree; without it the prefix
// cache is off. Prints one JSON object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/must.hpp"
#include "engine/core/engine.hpp"
#include "engine/worker/options.hpp"

namespace {

using millrace::GenerationRequest;
using millrace::bench::die;
using millrace::bench::must;
using millrace::engine::Counters;
using millrace::engine::Engine;
using millrace::engine::EngineOptions;
using millrace::engine::Event;
using millrace::engine::KernelTime;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Load {
  std::uint32_t jobs = 64, prompt = 128, output = 128, shared = 0;
  std::uint32_t first = 0;     // index of the first job
  std::uint32_t headroom = 0;  // tokens that a job may draw beyond `output`
};

constexpr std::uint32_t everybody = 1u << 20;  // index of the shared tokens; no job has it

// Every job has its own prompt, except for the shared tokens. bench/compare gives its peers the
// same token ids.
GenerationRequest job(std::uint32_t own, const Load& load, std::uint32_t vocabulary) {
  GenerationRequest request;
  millrace::Tokens prompt;
  for (std::uint32_t i = 0; i < load.prompt; ++i) {
    const std::uint32_t index = i < load.shared ? everybody : own;
    prompt.push_back(1000 + (index * 7919 + i * 104729) % (vocabulary - 1000));
  }
  request.prompt = prompt;
  request.max_tokens = load.output + load.headroom;
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  return request;
}

// The times and counts of one run of a load. Decode steps are those without a prompt token.
struct Run {
  double total_s = 0, prompt = 0, drawn = 0;  // `prompt` and `drawn` count tokens
  double first_token_ms = 0;                  // of the job that had it first
  double full_s = 0, full_drawn = 0;          // of the decode steps in which every job drew
  std::uint64_t steps = 0, launches = 0, decode_steps = 0, decode_launches = 0;
  std::vector<double> prompt_step_ms, decode_step_ms;
  double enqueue_ms = 0;            // of the first step, whose call waits for no earlier one
  std::vector<KernelTime> kernels;  // of the decode steps; of all steps if there are none
  std::uint64_t kernel_steps = 0;   // the steps that `kernels` covers
};

Run run(Engine& engine, const Load& load, bool profile) {
  static millrace::engine::RequestId next = 1;
  const millrace::engine::RequestId first = next;
  for (std::uint32_t i = 0; i < load.jobs; ++i) {
    must(engine.add(next++, job(load.first + i, load, engine.info().vocabulary)));
  }
  must(engine.profile());
  Run out;
  std::vector<Event> events;
  const Counters before = engine.counters();
  Counters last = before, reset = before;
  // A call starts a step and waits for the one that the call before it started.
  enum class Step : std::uint8_t { none, prompt, decode } completed = Step::none;
  const auto start = Clock::now();
  while (engine.busy()) {
    const auto at = Clock::now();
    must(engine.step(events));
    const double ms = seconds_since(at) * 1e3;
    const Counters now = engine.counters();
    Step started = Step::none;
    if (now.steps != last.steps) {
      started = now.prompt_tokens != last.prompt_tokens ? Step::prompt : Step::decode;
    }
    if (out.enqueue_ms == 0) out.enqueue_ms = ms;
    if (completed == Step::prompt) out.prompt_step_ms.push_back(ms);
    if (completed == Step::decode) out.decode_step_ms.push_back(ms);
    if (completed == Step::decode && now.generated_tokens - last.generated_tokens == load.jobs) {
      out.full_s += ms / 1e3;
      out.full_drawn += load.jobs;
      if (load.headroom > 0 && out.full_drawn == static_cast<double>(load.jobs) * load.output) {
        for (auto id = first; id < next; ++id) engine.cancel(id);
      }
    }
    if (started == Step::decode) {
      ++out.decode_steps;
      out.decode_launches += now.launches - last.launches;
      if (completed == Step::prompt && profile) {  // drops the launches of prompts and of this step
        must(engine.profile());
        reset = now;
      }
    }
    completed = started;
    last = now;
  }
  out.total_s = seconds_since(start);
  for (const Event& event : events) {
    if (event.error) die(*event.error);
    const double ms = static_cast<double>(event.result.times.first_token_us) / 1e3;
    if (out.first_token_ms == 0 || ms < out.first_token_ms) out.first_token_ms = ms;
  }
  out.prompt = static_cast<double>(last.prompt_tokens - before.prompt_tokens);
  out.drawn = static_cast<double>(last.generated_tokens - before.generated_tokens);
  out.steps = last.steps - before.steps;
  out.launches = last.launches - before.launches;
  out.kernels = must(engine.profile());
  out.kernel_steps = last.steps - reset.steps;
  return out;
}

double ratio(double value, double by) {
  return by > 0 ? value / by : 0;
}

double per(std::uint64_t value, std::uint64_t by) {
  return ratio(static_cast<double>(value), static_cast<double>(by));
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double mean(const std::vector<double>& values) {
  return ratio(sum(values), static_cast<double>(values.size()));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
  return values[values.size() / 2];
}

// Returns the ms a step of each kernel. The rest of a step is launches, transfers and the host.
json kernels(const Run& run) {
  const auto steps = static_cast<double>(run.kernel_steps);
  json out = json::array();
  for (const KernelTime& time : run.kernels) {
    out.push_back({{"kernel", time.kernel},
                   {"launches_per_step", ratio(static_cast<double>(time.launches), steps)},
                   {"ms_per_step", ratio(static_cast<double>(time.total_ns) / 1e6, steps)}});
  }
  return out;
}

// Measures prompts alone, in a run in which each job draws one token.
json measure_prompts(Engine& engine, Load load, bool profile) {
  load.output = 1;
  const Run prompts = run(engine, load, profile);
  json out{{"prompt_tok_s", ratio(prompts.prompt, prompts.total_s)},
           {"prompt_s", prompts.total_s},
           {"prompt_tokens", prompts.prompt},
           {"prompt_steps", prompts.steps},
           {"prompt_launches_per_step", per(prompts.launches, prompts.steps)},
           {"prompt_enqueue_ms", prompts.enqueue_ms},
           {"prompt_step_ms_mean", mean(prompts.prompt_step_ms)}};
  if (profile) out["prompt_kernels"] = kernels(prompts);
  return out;
}

json measure(Engine& engine, const Load& load, bool profile, bool prompt_run) {
  run(engine, {std::min(load.jobs, 16u), std::min(load.prompt, 128u), 4}, profile);
  json out = prompt_run ? measure_prompts(engine, load, profile) : json::object();
  if (load.output == 1) return out;

  const Run whole = run(engine, load, profile);
  if (!prompt_run) {  // the speed of the steps that held prompts, in which some rows drew already
    out["prompt_tok_s"] = ratio(whole.prompt * 1e3, sum(whole.prompt_step_ms));
  }
  out["generate_tok_s"] = ratio(whole.full_drawn, whole.full_s);
  out["generate_steps"] = whole.full_drawn / load.jobs;
  out["total_tok_s"] = ratio(whole.prompt + whole.drawn, whole.total_s);
  out["total_s"] = whole.total_s;
  out["generated_tokens"] = whole.drawn;
  out["steps"] = whole.steps;
  out["launches_per_step"] = per(whole.launches, whole.steps);
  out["decode_launches_per_step"] = per(whole.decode_launches, whole.decode_steps);
  out["decode_step_ms_median"] = median(whole.decode_step_ms);
  out["decode_step_ms_mean"] = mean(whole.decode_step_ms);
  if (profile) out["decode_kernels"] = kernels(whole);
  return out;
}

json measure_shared(Engine& engine, const Load& load, bool profile) {
  run(engine, {1, 64, 4}, profile);
  const Counters before = engine.counters();
  const Run whole = run(engine, load, profile);
  const Counters after = engine.counters();
  const Run hit = run(engine, {1, load.prompt, 1, load.shared, load.jobs}, profile);
  const Counters end = engine.counters();
  json out{{"total_s", whole.total_s},
           {"first_token_ms", whole.first_token_ms},
           {"disk_tokens", after.disk_tokens - before.disk_tokens},
           {"hit_first_token_ms", hit.first_token_ms},
           {"hit_planning_ms", static_cast<double>(end.planning_us - after.planning_us) / 1e3},
           {"jobs_per_s", ratio(load.jobs, whole.total_s)},
           {"shared", load.shared},
           {"prefix_tokens", after.prefix_tokens - before.prefix_tokens},
           {"computed_prompt_tokens", whole.prompt},
           {"decode_step_ms_median", median(whole.decode_step_ms)},
           {"steps", whole.steps}};
  if (profile) out["decode_kernels"] = kernels(whole);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the speed of the engine without queue and files");
  Load load;
  millrace::worker::EngineFlags flags;
  std::string variant;
  bool profile = false, separate = false, first_token = false, generation_only = false;
  const auto add = [&](const char* name, std::uint32_t& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("--model", flags.model, "model file (GGUF)")->required();
  add("--jobs", load.jobs, "number of jobs")->check(CLI::Range(1, 100000));
  add("--prompt", load.prompt, "tokens of each job's prompt")->check(CLI::Range(1, 1000000));
  add("--output", load.output, "tokens that each job draws")->check(CLI::Range(1, 1000000));
  add("--headroom", load.headroom, "tokens that a job may draw beyond --output")
      ->check(CLI::Range(0, 1000000));
  add("--shared", load.shared, "tokens that all prompts begin with; turns the prefix cache on");
  app.add_option("--variant", variant, "kernels: generic, cpu or nvidia");
  app.add_flag("--profile", profile, "time every kernel; slows steps down a little");
  app.add_flag("--separate", separate, "launch the parts of a layer one by one");
  app.add_flag("--first-token", first_token, "only load and draw one token");
  app.add_flag("--generation-only", generation_only, "omit the run of prompts alone");
  millrace::worker::add_engine_options(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (generation_only && load.output == 1) die("--generation-only needs --output 2 or more");

  const auto start = Clock::now();
  if (load.shared == 0) flags.prefix_cache = "off";  // because the same prompts run repeatedly
  EngineOptions options = must(millrace::worker::engine_options(flags));
  options.kernel_variant = variant;
  options.profile = profile;
  options.whole_layers = !separate;
  const auto engine = must(Engine::create(options));
  const double load_s = seconds_since(start);
  run(*engine, {1, 16, 1}, profile);
  const double first_token_s = seconds_since(start);

  json out = json::object();
  if (!first_token) {
    out = load.shared > 0 ? measure_shared(*engine, load, profile)
                          : measure(*engine, load, profile, !generation_only);
  }
  const auto& info = engine->info();
  out["device"] = info.device_name;
  out["fingerprint"] = info.profile.facts.fingerprint;
  out["math"] = flags.math;
  out["prefix_cache"] = flags.prefix_cache;
  out["jobs"] = load.jobs;
  out["prompt"] = load.prompt;
  out["output"] = load.output;
  out["load_s"] = load_s;
  out["start_to_first_token_s"] = first_token_s;
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}
