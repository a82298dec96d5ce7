// Writes the logits of every position of given tokens, computed in several schedules of steps.
// test_families.py compares them with golden logits. Users never see logits, so no other program
// prints them.
//
//   families_probe --model M.gguf --tokens T.json --output FILE [--math M] [--kv POLICY] [--variant
//   FAMILY]
//
// T.json holds a list of token ids. FILE is float32 [schedule][position][vocabulary],
// little-endian. Prints {"schedules": [...], "vocabulary": n, "kv": "..."}. An error of the engine
// goes to standard error, and the program ends with 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/hub/open_model.hpp"
#include "tests/support/model_runner.hpp"

namespace {

using millrace::Tokens;
using millrace::testing::ModelRunner;
using millrace::testing::must;

struct Paths {
  std::string model, tokens, output;
};

// Each schedule computes the same tokens as sequence 0.
struct Schedule {
  const char* name;
  void (*run)(ModelRunner& runner, const Tokens& tokens);
};

void in_chunks(ModelRunner& runner, const Tokens& tokens, std::uint32_t chunk) {
  runner.set_sequences({tokens}, 4);
  runner.run(0, chunk);
}

// Chunks of uneven sizes, then single tokens, beside two other sequences that are ahead or behind.
void among_others(ModelRunner& runner, const Tokens& tokens) {
  const Tokens backwards(tokens.rbegin(), tokens.rend());
  Tokens turned = tokens;
  std::ranges::rotate(turned, turned.begin() + 7);
  runner.set_sequences({tokens, backwards, turned}, 4);
  const auto size = static_cast<std::uint32_t>(tokens.size());
  std::uint32_t at[3] = {0, 0, 0};
  for (std::uint32_t step = 0; at[0] < size; ++step) {
    std::vector<ModelRunner::Part> parts;
    for (std::uint32_t sequence = 0; sequence < 3; ++sequence) {
      const std::uint32_t wanted = step < 3 ? 3 + 5 * ((step + sequence) % 3) : 1;
      const std::uint32_t count = std::min(wanted, size - at[sequence]);
      if (count == 0) continue;
      parts.push_back({sequence, at[sequence], count});
      at[sequence] += count;
    }
    runner.step(parts);
  }
}

constexpr Schedule schedules[] = {
    {"whole", [](ModelRunner& runner, const Tokens& t) { in_chunks(runner, t, 512); }},
    {"chunks of 5", [](ModelRunner& runner, const Tokens& t) { in_chunks(runner, t, 5); }},
    {"token by token", [](ModelRunner& runner, const Tokens& t) { in_chunks(runner, t, 1); }},
    {"among others", among_others},
};

Tokens read_tokens(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file).get<Tokens>();
}

nlohmann::json write_logits(const Paths& paths, const millrace::engine::ModelOptions& options,
                            const std::string& variant) {
  const Tokens tokens = read_tokens(paths.tokens);
  const auto file = must(millrace::engine::open_model(paths.model));
  ModelRunner runner(file, options, {.variant = variant});
  std::ofstream out(paths.output, std::ios::binary);
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules) {
    schedule.run(runner, tokens);
    names.emplace_back(schedule.name);
    for (const std::vector<float>& row : runner.logits(0)) {
      out.write(reinterpret_cast<const char*>(row.data()),
                static_cast<std::streamsize>(row.size() * sizeof(float)));
    }
  }
  out.close();
  if (!out) throw std::runtime_error("cannot write " + paths.output);
  const auto& info = runner.model().info();
  return {{"schedules", names}, {"vocabulary", info.vocabulary}, {"kv", info.kv}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes the engine's logits of every position in several schedules of steps");
  Paths paths;
  std::string math = "exact", variant;
  millrace::engine::ModelOptions options{.kv_bytes = 64 << 20, .step_tokens = 512};
  app.add_option("--model", paths.model)->required();
  app.add_option("--tokens", paths.tokens)->required();
  app.add_option("--output", paths.output)->required();
  app.add_option("--math", math)->check(CLI::IsMember({"exact", "fast", "int8"}));
  app.add_option("--kv", options.kv);
  app.add_option("--variant", variant);
  CLI11_PARSE(app, argc, argv);
  options.math = millrace::engine::find_math(math).value();
  try {
    std::printf("%s\n", write_logits(paths, options, variant).dump().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
