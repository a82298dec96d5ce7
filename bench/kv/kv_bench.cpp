// What a KV policy does to speed: prompt and decode steps of several policies side by side.
//
//   kv_bench --model M.gguf [--kv f16,q8,...] [--rows 16] [--few 4] [--context 7000] [--short 256]
//            [--steps 8] [--short-steps 24] [--rounds 8] [--prompt-rounds 1] [--math fast]
//
// All policies are loaded at once. The context is computed once in each round of prompts, a chunk
// with every policy in turn, and copied, unshared, to the rows. Each round of decoding then times
// the steps of every load (rows x context: all x long, few x long, all x short) with every policy
// in turn, so that both have the same moments of a machine that changes its speed. Which policy
// goes first turns with the chunk and the round. Prints one JSON object: seconds of the prompt and
// of a step, by policy, a figure a round.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/flags.hpp"
#include "bench/kv/rows.hpp"
#include "bench/must.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {
namespace {

using bench::die;
using bench::must;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, math = "fast";
  std::vector<std::string> policies{"f16", "q8", "k8v4", "k6v4", "k5v3", "k4v3"};
  RowsShape shape;
  std::uint32_t few = 4, short_context = 256, short_steps = 24, rounds = 8, prompt_rounds = 1;
};

class Bench {
 public:
  Bench(Device& device, const GgufFile& file, const Options& options) : options_(options) {
    RowsShape shape = options.shape;
    shape.steps = std::max(shape.steps, options.short_steps);
    for (const std::string& policy : options.policies) {
      sides_.push_back(
          must(Rows::load(device, file, policy, find_math(options.math).value(), shape)));
    }
  }

  json prompts() {
    json seconds = json::object();
    for (std::uint32_t round = 0; round < options_.prompt_rounds; ++round) {
      const std::vector<double> sums = prompt_round();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        seconds[options_.policies[i]].push_back(sums[i]);
      }
    }
    for (const auto& side : sides_) must(side->copy());
    return {{"tokens", options_.shape.context}, {"seconds", seconds}};
  }

  json decodes() {
    const RowsShape& shape = options_.shape;
    const std::vector<DecodeLoad> loads{{shape.rows, shape.context, shape.steps},
                                        {options_.few, shape.context, shape.steps},
                                        {shape.rows, options_.short_context, options_.short_steps}};
    json out = json::array();
    for (const DecodeLoad& load : loads) {
      out.push_back({{"rows", load.rows}, {"context", load.context}, {"steps", load.steps}});
      for (const auto& side : sides_) must(side->decode(load));  // warms up
    }
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < loads.size(); ++i) decode_round(loads[i], round, out[i]);
    }
    return out;
  }

  // Of each policy: what it comes to in every layer, and the bytes that a token takes in the pages.
  json policies() const {
    json out = json::object();
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const ModelInfo& info = sides_[i]->info();
      out[options_.policies[i]] = {{"layers", info.kv},
                                   {"fingerprint", info.fingerprint},
                                   {"bytes_per_token", static_cast<double>(info.page_bytes) /
                                                           static_cast<double>(info.page_tokens)}};
    }
    return out;
  }

 private:
  // Seconds of the whole context with each policy, chunk by chunk in turn.
  std::vector<double> prompt_round() {
    std::vector<double> sums(sides_.size());
    const RowsShape& shape = options_.shape;
    // The first chunk of all comes once more, untimed: a kernel's first launch specializes it.
    for (const auto& side : sides_) must(side->prompt(0, std::min(shape.chunk, shape.context)));
    for (std::uint32_t at = 0, turn = 0; at < shape.context; at += shape.chunk, ++turn) {
      const std::uint32_t count = std::min(shape.chunk, shape.context - at);
      for (std::size_t i = 0; i < sides_.size(); ++i) {
        const std::size_t which = (i + turn) % sides_.size();
        const auto start = Clock::now();
        must(sides_[which]->prompt(at, count));
        sums[which] += std::chrono::duration<double>(Clock::now() - start).count();
      }
    }
    return sums;
  }

  void decode_round(const DecodeLoad& load, std::uint32_t round, json& out) {
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const std::size_t which = (i + round) % sides_.size();
      const std::string& policy = options_.policies[which];
      const double seconds = must(sides_[which]->decode(load));
      out["step_s"][policy].push_back(seconds / load.steps);
      const json drawn = sides_[which]->drawn();
      if (round > 0 && out["drawn"][policy] != drawn) {
        die(policy + " drew other tokens than in the round before: report this");
      }
      out["drawn"][policy] = drawn;
    }
  }

  Options options_;
  std::vector<std::unique_ptr<Rows>> sides_;
};

void check(const Options& options) {
  if (options.short_context % kv_page_tokens != 0 ||
      options.short_context >= options.shape.context) {
    die("--short takes a multiple of " + std::to_string(kv_page_tokens) + " below --context");
  }
  if (options.few > options.shape.rows) die("--few takes at most --rows");
}

void run(const DeviceOptions& device_options, const Options& options) {
  check(options);
  const auto device = must(Device::open(device_options));
  Bench bench(*device, must(GgufFile::open(options.model)), options);
  json out{{"prompt", bench.prompts()}, {"decode", bench.decodes()}};
  out["policies"] = bench.policies();
  out["device"] = device->info().name;
  out["math"] = options.math;
  std::printf("%s\n", out.dump().c_str());
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::Options options;
  millrace::engine::DeviceOptions device;
  CLI::App app("Prompt and decode steps by KV policy, side by side");
  const auto add = [&app](const char* name, std::uint32_t& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(1, 100000));
  };
  app.add_option("--model", options.model, "model file (GGUF)")->required();
  app.add_option("--kv", options.policies, "policies, by comma")->delimiter(',');
  app.add_option("--math", options.math)->check(CLI::IsMember({"exact", "fast"}));
  add("--rows", options.shape.rows, "sequences at once");
  add("--few", options.few, "fewer of them, of the long context as well");
  add("--context", options.shape.context, "tokens of the long context");
  add("--short", options.short_context, "tokens of the short one, whole pages");
  add("--chunk", options.shape.chunk, "prompt tokens a step");
  add("--steps", options.shape.steps, "timed steps of the long context in a round");
  add("--short-steps", options.short_steps, "of the short one");
  add("--rounds", options.rounds, "of decoding");
  add("--prompt-rounds", options.prompt_rounds, "times that the context is computed");
  millrace::bench::add_device_options(app, device);
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(device, options);
  return 0;
}
