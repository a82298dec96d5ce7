// Measures how KV policies change the speed of prompts and decode steps, all policies in one
// process.
//
//   kv_bench --model M.gguf [--kv f16,q8,...] [--rows 16] [--context 7000] [--chunk 256]
//            [--steps 24] [--math fast]
//
// Loads all policies at once, prints one JSON line about them, and then answers each line of
// standard input with one JSON line, until the input ends:
//
//   prompt POLICY                     {"seconds": s}: the time of the whole context, chunk by
//                                     chunk. The pages are then copied to the other rows.
//   decode POLICY ROWS CONTEXT STEPS  {"step_s": s, "drawn": [id, ...]}: the mean step of so many
//                                     rows after the context, or after whole pages of it.
//   reads                             {"read_gbytes_per_s": x}: the memory's speed at this moment.
//
// The caller, bench/lib/kv_sides.py, decides whose turn it is.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/flags.hpp"
#include "bench/kernel/peak.hpp"
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
  RowsShape shape{.steps = 24};
};

class Bench {
 public:
  Bench(Device& device, const GgufFile& file, const Options& options)
      : shape_(options.shape), reads_(must(ReadProbe::create(device))) {
    const MathMode math = find_math(options.math).value();
    for (const std::string& policy : options.policies) {
      sides_[policy].rows = must(Rows::load(device, file, policy, math, shape_));
    }
  }

  // Returns for each policy its codecs by layer and the bytes that a token takes in the pages.
  json policies() const {
    json out = json::object();
    for (const auto& [policy, side] : sides_) {
      const ModelInfo& info = side.rows->info();
      out[policy] = {{"layers", info.kv},
                     {"fingerprint", info.fingerprint},
                     {"bytes_per_token", static_cast<double>(info.page_bytes) /
                                             static_cast<double>(info.page_tokens)}};
    }
    return out;
  }

  json answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "reads") return {{"read_gbytes_per_s", must(reads_.measure())}};
    if (command == "prompt") return prompt(side(words, line));
    if (command == "decode") return decode(words, line);
    die("'" + line + "' is not a command: give prompt, decode or reads");
  }

 private:
  struct Side {
    std::unique_ptr<Rows> rows;
    bool has_context = false;
  };

  Side& side(std::istringstream& words, const std::string& line) {
    std::string policy;
    words >> policy;
    const auto found = sides_.find(policy);
    if (found == sides_.end()) die("'" + line + "' names a policy that --kv does not have");
    return found->second;
  }

  json prompt(Side& side) {
    // Runs the first chunk once untimed, because the first launch of a kernel specializes it.
    must(side.rows->prompt(0, std::min(shape_.chunk, shape_.context)));
    const auto start = Clock::now();
    for (std::uint32_t at = 0; at < shape_.context; at += shape_.chunk) {
      must(side.rows->prompt(at, std::min(shape_.chunk, shape_.context - at)));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    must(side.rows->copy());
    side.has_context = true;
    return {{"seconds", seconds}};
  }

  json decode(std::istringstream& words, const std::string& line) {
    Side& asked = side(words, line);
    DecodeLoad load;
    words >> load.rows >> load.context >> load.steps;
    const bool whole_pages = load.context == shape_.context || load.context % kv_page_tokens == 0;
    if (!words || load.rows < 1 || load.rows > shape_.rows || load.context < 1 ||
        load.context > shape_.context || !whole_pages || load.steps < 1 ||
        load.steps > shape_.steps) {
      die("'" + line + "': give decode POLICY ROWS CONTEXT STEPS, at most " +
          std::to_string(shape_.rows) + " rows, --context tokens or a multiple of " +
          std::to_string(kv_page_tokens) + " below, and " + std::to_string(shape_.steps) +
          " steps");
    }
    if (!asked.has_context) die("'" + line + "' needs the policy's prompt: give prompt first");
    const double seconds = must(asked.rows->decode(load));
    return {{"step_s", seconds / load.steps}, {"drawn", asked.rows->drawn()}};
  }

  RowsShape shape_;
  ReadProbe reads_;
  std::map<std::string, Side> sides_;
};

void print(const json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);  // the caller waits for this line
}

void run(const DeviceOptions& device_options, const Options& options) {
  const auto device = must(Device::open(device_options));
  Bench bench(*device, must(GgufFile::open(options.model)), options);
  print({{"policies", bench.policies()}, {"device", device->info().name}, {"math", options.math}});
  for (std::string line; std::getline(std::cin, line);) print(bench.answer(line));
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::Options options;
  millrace::engine::DeviceOptions device;
  CLI::App app("Times prompts and decode steps by KV policy, as lines of standard input ask");
  const auto add = [&app](const char* name, std::uint32_t& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(1, 100000));
  };
  app.add_option("--model", options.model, "model file (GGUF)")->required();
  app.add_option("--kv", options.policies, "policies, separated by commas")->delimiter(',');
  app.add_option("--math", options.math)->check(CLI::IsMember({"exact", "fast", "int8"}));
  add("--rows", options.shape.rows, "the most sequences at once");
  add("--context", options.shape.context, "tokens of the prompt");
  add("--chunk", options.shape.chunk, "prompt tokens in a step");
  add("--steps", options.shape.steps, "the most timed steps that one line may ask for");
  millrace::bench::add_device_options(app, device);
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(device, options);
  return 0;
}
