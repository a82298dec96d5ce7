// Finds the widths and counts at which a device's kernels run fastest, and prints its row of the
// tuned table (kernels/tuned.cpp).
//
//   tune --model M.gguf [--device D] [--cores N] [--rounds 5]
//
// Begins with the row that the device has now, and tunes one knob after the other. Each candidate
// runs the loads that the knob concerns: whole steps of the model as the engine runs them, or
// single products where the engine launches them one by one (--math exact). In every round all
// candidates take their turn, and the best time of each counts. A candidate replaces the current
// value if its times are at least 3 % less in the geometric mean. No knob changes a bit of any
// result. Prints one JSON object: `row`, to be pasted into the table, and all times. The machine
// must be idle.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/flags.hpp"
#include "bench/kernel/load.hpp"
#include "bench/tuner/step_load.hpp"
#include "engine/core/gguf/file.hpp"
#include "kernels/tuned.hpp"

namespace millrace::engine {
namespace {

using kernels::Tuning;
using nlohmann::json;

constexpr double worth = 0.97;  // a candidate must take at most this share of the current time

// A load made for a tuning, ready to be launched `chain` times in a row.
struct Runnable {
  std::shared_ptr<void> owner;
  std::function<Status()> launch;
  std::uint32_t chain = 1;
};

// Provides the device and the models for the loads. It loads one model for each tuning, once.
class Bench {
 public:
  Bench(Device& device, const GgufFile& file) : device_(device), file_(file) {}
  Device& device() { return device_; }

  Result<std::shared_ptr<Model>> model(const Tuning& tuning) {
    for (const auto& [known, model] : models_) {
      if (known == tuning) return model;
    }
    ModelOptions options;
    options.kv_bytes = 128ull << 20;
    options.tuning = tuning;
    MILLRACE_ASSIGN(auto made, Model::load(device_, file_, options));
    return models_.emplace_back(tuning, std::move(made)).second;
  }
  void forget() { models_.clear(); }

 private:
  Device& device_;
  const GgufFile& file_;
  std::vector<std::pair<Tuning, std::shared_ptr<Model>>> models_;
};

struct Load {
  std::string name;
  std::function<Result<Runnable>(Bench&, const Tuning&)> make;
};

struct Knob {
  const char* name;
  std::uint32_t Tuning::*field;
  std::vector<std::uint32_t> values;
  std::vector<Load> loads;
};

Load product(MathMode math, std::uint32_t rows, std::uint32_t columns, std::uint32_t n) {
  return {std::string(math_name(math)) + " " + std::to_string(rows) + " x " +
              std::to_string(columns) + " x " + std::to_string(n),
          [=](Bench& bench, const Tuning& tuning) -> Result<Runnable> {
            MILLRACE_ASSIGN(auto made, ProductLoad::create(bench.device(), math, TensorType::q4_1,
                                                           rows, columns, tuning));
            const std::shared_ptr<ProductLoad> load = std::move(made);
            return Runnable{load, [load, n] { return load->launch(n); }, n < 64 ? 200u : 8u};
          }};
}

Load step(std::uint32_t rows, std::uint32_t length, std::uint32_t chunk) {
  return {"step of " + std::to_string(rows) + " x " + std::to_string(chunk) + " at " +
              std::to_string(length),
          [=](Bench& bench, const Tuning& tuning) -> Result<Runnable> {
            MILLRACE_ASSIGN(const auto model, bench.model(tuning));
            const auto load = std::make_shared<StepLoad>(model, StepShape{rows, length, chunk});
            return Runnable{load, [load] { return load->launch(); }, rows * chunk < 256 ? 4u : 1u};
          }};
}

// The values are those that the kernels of the cpu family are written for.
std::vector<Knob> knobs(std::uint32_t cores) {
  constexpr MathMode exact = MathMode::exact;
  std::vector<Knob> all = {{"float_tile",
                            &Tuning::float_tile,
                            {6, 8, 12, 16},
                            {product(exact, 3072, 576, 8), product(exact, 576, 1536, 256)}},
                           {"integer_tile",
                            &Tuning::integer_tile,
                            {4, 6},
                            {step(8, 256, 1), step(64, 256, 1), step(4, 128, 128)}},
                           {"product_groups",
                            &Tuning::product_groups,
                            {1, 2, 4, 8, 16, 32},
                            {product(exact, 3072, 576, 1), product(exact, 576, 1536, 8),
                             product(exact, 3072, 576, 256)}},
                           {"attention_sums",
                            &Tuning::attention_sums,
                            {6, 12, 24},
                            {step(8, 2048, 1), step(4, 512, 128), step(1, 2048, 512)}}};
  if (cores <= kernels::layer_tuning_cores) {
    const std::vector<Load> loads = {step(64, 256, 1), step(4, 128, 128)};
    all.push_back({"layer_pairs", &Tuning::layer_pairs, {1, 2, 3, 6}, loads});
    all.push_back({"layer_tiles", &Tuning::layer_tiles, {4, 8, 16, 32}, loads});
  }
  return all;
}

Tuning with(Tuning tuning, const Knob& knob, std::uint32_t value) {
  tuning.*(knob.field) = value;
  return tuning;
}

// Returns the seconds of one load for each of the knob's values.
Result<std::vector<double>> times(Bench& bench, const Tuning& tuning, const Knob& knob,
                                  const Load& load, int rounds) {
  std::vector<Runnable> runnables;
  for (const std::uint32_t value : knob.values) {
    MILLRACE_ASSIGN(Runnable made, load.make(bench, with(tuning, knob, value)));
    runnables.push_back(std::move(made));
  }
  std::vector<double> best(runnables.size(), 1e9);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < runnables.size(); ++i) {
      MILLRACE_ASSIGN(const double s,
                      best_seconds(bench.device(), runnables[i].chain, 2, runnables[i].launch));
      best[i] = std::min(best[i], s);
    }
  }
  return best;
}

// Sets the knob to its best value, and adds what was measured to `report`.
Status turn(Bench& bench, Tuning& tuning, const Knob& knob, int rounds, json& report) {
  const auto current = std::ranges::find(knob.values, tuning.*(knob.field));
  const std::size_t base =
      current == knob.values.end() ? knob.values.size() - 1 : current - knob.values.begin();
  std::vector<double> score(knob.values.size(), 0);  // sum of log(time / current time)
  json loads = json::array();
  for (const Load& load : knob.loads) {
    MILLRACE_ASSIGN(const auto seconds, times(bench, tuning, knob, load, rounds));
    json us = json::object();
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      score[i] += std::log(seconds[i] / seconds[base]);
      us[std::to_string(knob.values[i])] = std::round(seconds[i] * 1e7) / 10;
    }
    loads.push_back({{"load", load.name}, {"us", us}});
  }
  bench.forget();
  const auto least = static_cast<std::size_t>(std::ranges::min_element(score) - score.begin());
  const double gain = std::exp(score[least] / static_cast<double>(knob.loads.size()));
  const std::uint32_t before = tuning.*(knob.field);
  if (gain <= worth) tuning.*(knob.field) = knob.values[least];
  report.push_back({{"knob", knob.name},
                    {"before", before},
                    {"best", knob.values[least]},
                    {"time_of_best", std::round(gain * 1000) / 1000},
                    {"chosen", tuning.*(knob.field)},
                    {"loads", loads}});
  return {};
}

std::string row_of(const kernels::DeviceKey& key, const Tuning& tuning) {
  const auto quoted = [](std::string_view text) { return '"' + std::string(text) + '"'; };
  return "{{" + quoted(key.family) + ", " + quoted(key.device) + ", " + quoted(key.dot) + ", " +
         std::to_string(key.lanes) + "}, {" + std::to_string(tuning.float_tile) + ", " +
         std::to_string(tuning.integer_tile) + ", " + std::to_string(tuning.product_groups) + ", " +
         std::to_string(tuning.attention_sums) + ", " + std::to_string(tuning.layer_pairs) + ", " +
         std::to_string(tuning.layer_tiles) + "}},";
}

Status run(const DeviceOptions& options, const std::string& model, int rounds) {
  MILLRACE_ASSIGN(const auto device, Device::open(options));
  MILLRACE_ASSIGN(const GgufFile file, GgufFile::open(model));
  if (device->family() != Family::cpu) {
    return fail(Code::unsupported_field,
                "the kernels of " + device->info().name + " have nothing to tune",
                "tune a device of the cpu family");
  }
  const kernels::DeviceKey key = tuning_key(*device);
  Tuning tuning = kernels::tuned_for(key);
  const Tuning before = tuning;
  json report = json::array();
  Bench bench(*device, file);
  for (const Knob& knob : knobs(device->info().compute_units)) {
    MILLRACE_TRY(turn(bench, tuning, knob, rounds, report));
  }
  const json out{{"device", device->info().name},
                 {"driver", device->info().driver},
                 {"row", row_of(key, tuning)},
                 {"changes", !(tuning == before)},
                 {"knobs", report}};
  std::printf("%s\n", out.dump(1).c_str());
  return {};
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::DeviceOptions options;
  std::string model;
  int rounds = 5;
  CLI::App app("Finds a device's row of the tuned table and prints it. The machine must be idle.",
               "tune");
  app.add_option("--model", model, "model file (GGUF) whose steps are timed")->required();
  millrace::bench::add_device_options(app, options);
  app.add_option("--rounds", rounds, "runs of every candidate")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const auto status = millrace::engine::run(options, model, rounds); !status) {
    std::fprintf(stderr, "tune: %s\n", status.error().text().c_str());
    return 1;
  }
  return 0;
}
