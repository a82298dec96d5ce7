// Runs a whole engine over given tokens: after hits of the prefix tree and of its folder, and with
// pauses for lack of KV memory. test_families.py judges what it prints.
//
//   families_engine_probe --model M.gguf --tokens T.json --prefixes FOLDER [--kv POLICY]
//
// T.json holds {"tokens": [...], "listed": [...]}. Prints one JSON object:
//
//   hits    a list of {"tokens": n, "cached": n, "logprobs": [...]}: the logprobs of the listed
//           tokens after the first n tokens, and how many of those the prefix tree held
//   pauses  how often a small pool paused one of several long jobs
//   same    whether these jobs gave the same tokens and logprobs as in a large pool
//   mix     of draws of several samples in company, after hits: whether they are those of the same
//           jobs alone, without a cache, and how many tokens of prompts the tree held
//   disk    the same after a restart, with pauses; how many tokens of the first job's prompt were
//           known, and how many came from the folder by then
#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/must.hpp"
#include "engine/core/engine.hpp"

namespace {

using namespace millrace;
using namespace millrace::engine;
using millrace::bench::die;
using millrace::bench::must;

struct Input {
  Tokens tokens, listed;
};

Input read_input(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) die(path + " holds no {\"tokens\": [...], \"listed\": [...]}");
  return {json["tokens"].get<Tokens>(), json["listed"].get<Tokens>()};
}

GenerationRequest greedy(const Tokens& tokens, std::size_t count, std::uint32_t max_tokens) {
  GenerationRequest request;
  request.prompt = Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.seed = 1;
  request.stops.ignore_eos = true;
  request.logprobs.sampled = true;
  return request;
}

// Returns the results in the order of the requests, which start together.
std::vector<GenerationResult> run(Engine& engine, const std::vector<GenerationRequest>& requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) must(engine.add(i, requests[i]));
  std::vector<Event> events;
  while (engine.busy()) must(engine.step(events));
  std::vector<GenerationResult> results(requests.size());
  for (Event& event : events) {
    if (event.error) die(*event.error);
    results[event.id] = std::move(event.result);
  }
  return results;
}

nlohmann::json hits(const EngineOptions& options, const Input& input) {
  const auto engine = must(Engine::create(options));
  run(*engine, {greedy(input.tokens, input.tokens.size(), 1)});
  auto out = nlohmann::json::array();
  // The last page of a prompt is computed anew, so these end before, at and after a page's end.
  for (const std::size_t count : {31, 32, 33, 48}) {
    GenerationRequest request = greedy(input.tokens, count, 1);
    request.logprobs.listed = input.listed;
    // A state is kept where a second prompt is seen to part from the first.
    run(*engine, {request});
    const GenerationResult result = std::move(run(*engine, {request}).front());
    out.push_back({{"tokens", count},
                   {"cached", result.usage.cached_tokens},
                   {"logprobs", result.choices.at(0).logprobs->listed->logprobs}});
  }
  return out;
}

bool same(const GenerationResult& a, const GenerationResult& b) {
  const Choice &x = a.choices.at(0), &y = b.choices.at(0);
  const auto bits = [](const Choice& choice) {
    std::vector<std::uint32_t> out;
    for (const float each : choice.logprobs->token) {
      out.push_back(std::bit_cast<std::uint32_t>(each));
    }
    return out;
  };
  return x.tokens == y.tokens && bits(x) == bits(y);
}

// Runs the requests one at a time: each is more urgent than those before it and interrupts them.
std::vector<GenerationResult> interrupt(Engine& engine,
                                        const std::vector<GenerationRequest>& requests) {
  std::vector<GenerationResult> results(requests.size());
  std::vector<Event> events;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    must(engine.add(i, must(engine.prepare(requests[i])),
                    static_cast<std::uint32_t>(requests.size() - 1 - i)));
    for (int step = 0; step < 20; ++step) must(engine.step(events));
  }
  while (engine.busy()) must(engine.step(events));
  for (Event& event : events) {
    if (event.error) die(*event.error);
    results[event.id] = std::move(event.result);
  }
  return results;
}

nlohmann::json pauses(EngineOptions options, const Input& input) {
  options.prefix_cache = false;
  std::vector<GenerationRequest> requests;
  for (const std::size_t count : {48, 20, 36, 28}) {
    requests.push_back(greedy(input.tokens, count, 110));
  }
  const auto roomy = must(Engine::create(options));
  const auto expected = run(*roomy, requests);
  if (roomy->info().state_bytes > 0) {
    options.max_batch = 1;
    const auto narrow = must(Engine::create(options));
    const auto got = interrupt(*narrow, requests);
    bool all = true;
    for (std::size_t i = 0; i < requests.size(); ++i) all = all && same(got[i], expected[i]);
    return {{"pauses", narrow->counters().pauses}, {"same", all}};
  }
  // In so little memory all cache groups have the same number of pages; these are rounded up.
  const double exact_bytes = roomy->info().profile.facts.kv_bytes_per_token;
  options.kv_memory_bytes = (static_cast<std::uint64_t>(exact_bytes) + 8) * 320;
  const auto small = must(Engine::create(options));
  const auto got = run(*small, requests);
  bool all = true;
  for (std::size_t i = 0; i < requests.size(); ++i) all = all && same(got[i], expected[i]);
  return {{"pauses", small->counters().pauses}, {"same", all}};
}

// Draws of several samples each, with beginnings in common.
std::vector<GenerationRequest> drawing_requests(const Input& input) {
  std::vector<GenerationRequest> requests;
  for (const std::size_t count : {48, 37, 20, 48, 33}) {
    GenerationRequest request = greedy(input.tokens, count, 24);
    request.sampling.temperature = 1;
    request.sampling.seed = requests.size();
    request.n = 3;
    requests.push_back(request);
  }
  return requests;
}

bool same_choices(const GenerationResult& a, const GenerationResult& b) {
  bool all = a.choices.size() == b.choices.size();
  for (std::size_t i = 0; all && i < a.choices.size(); ++i) {
    GenerationResult x, y;
    x.choices = {a.choices[i]};
    y.choices = {b.choices[i]};
    all = same(x, y);
  }
  return all;
}

bool all_same(const std::vector<GenerationResult>& a, const std::vector<GenerationResult>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; i < a.size(); ++i) all = all && same_choices(a[i], b[i]);
  return all;
}

// Runs the requests one after the other, without a cache.
std::vector<GenerationResult> run_alone(EngineOptions options,
                                        const std::vector<GenerationRequest>& requests) {
  options.prefix_cache = false;
  options.max_batch = 3;
  const auto plain = must(Engine::create(options));
  std::vector<GenerationResult> alone;
  for (const auto& request : requests) alone.push_back(run(*plain, {request}).front());
  return alone;
}

// Runs the requests in company: in small pieces and as they come, first and then again after hits.
nlohmann::json mix(EngineOptions options, const std::vector<GenerationRequest>& requests,
                   const std::vector<GenerationResult>& alone) {
  options.max_batch = 7;
  options.prefill_chunk = 11;
  const auto shared = must(Engine::create(options));
  bool all = true;
  std::uint64_t cached = 0;
  for (int round = 0; round < 3; ++round) {
    const auto together = run(*shared, requests);
    all = all && all_same(alone, together);
    for (const auto& result : together) cached += result.usage.cached_tokens;
  }
  return {{"same", all}, {"cached", cached}};
}

// The same over a folder, whose engine is closed after the first round: then one request runs
// alone, and all of them interrupt each other.
nlohmann::json disk(EngineOptions options, const std::vector<GenerationRequest>& requests,
                    const std::vector<GenerationResult>& alone) {
  options.prefill_chunk = 11;
  options.max_batch = 7;
  bool all = all_same(alone, run(*must(Engine::create(options)), requests));
  options.max_batch = 3;
  const auto restarted = must(Engine::create(options));
  const GenerationResult first = run(*restarted, {requests.front()}).front();
  const std::uint64_t from_disk = restarted->counters().disk_tokens;
  all = all && same_choices(alone.front(), first);
  all = all && all_same(alone, interrupt(*restarted, requests));
  return {{"same", all},
          {"cached", first.usage.cached_tokens},
          {"from_disk", from_disk},
          {"pauses", restarted->counters().pauses}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs an engine over given tokens with prefix hits and with pauses");
  std::string tokens, prefixes;
  EngineOptions options;
  options.kv_memory_bytes = 32 * limits::MiB;
  options.math = MathMode::exact;
  app.add_option("--model", options.model_path)->required();
  app.add_option("--tokens", tokens)->required();
  app.add_option("--prefixes", prefixes)->required();
  app.add_option("--kv", options.kv);
  CLI11_PARSE(app, argc, argv);
  const Input input = read_input(tokens);
  nlohmann::json out = pauses(options, input);
  out["hits"] = hits(options, input);
  const auto requests = drawing_requests(input);
  const auto alone = run_alone(options, requests);
  out["mix"] = mix(options, requests, alone);
  options.prefix_folder = prefixes;
  out["disk"] = disk(options, requests, alone);
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
