// Writes the logits of the engine's model along given tokens, for the whole vocabulary. fidelity.py
// compares them with the float64 reference. Users never see logits, so no other program prints
// them.
//
//   engine_logits --model M.gguf --contexts C.json --output FILE [--math M] [--variant V] [...]
//
// C.json holds {"tokens": [...], "context": n}: windows of n tokens, each read from an empty cache.
// Of each window the program writes the rows n/2 .. n-2, which predict the tokens n/2+1 .. n-1.
// FILE is "MLOGITS1", int32 rows, int32 vocabulary, then float32 [rows][vocabulary], little-endian.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/must.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/model.hpp"

namespace {

using namespace millrace;
using namespace millrace::engine;
using millrace::bench::die;
using millrace::bench::must;

struct Contexts {
  Tokens tokens;
  std::uint32_t size = 0;
};

Contexts read_contexts(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("tokens") || !json.contains("context")) {
    die(path + " holds no {\"tokens\": [...], \"context\": n}");
  }
  Contexts out{json["tokens"].get<Tokens>(), json["context"].get<std::uint32_t>()};
  if (out.size < 4 || out.tokens.size() < out.size) die(path + " holds no whole context");
  return out;
}

// Computes one window as one sequence, in steps of `chunk` tokens, in pages of its own.
class Reader {
 public:
  Reader(Device& device, Model& model, const Contexts& contexts, std::uint32_t chunk)
      : device_(device), model_(model), contexts_(contexts), chunk_(chunk) {}

  std::uint32_t windows() const {
    return static_cast<std::uint32_t>(contexts_.tokens.size()) / contexts_.size;
  }
  std::uint32_t rows() const { return windows() * (contexts_.size - 1 - contexts_.size / 2); }

  void write(std::ofstream& out) {
    for (std::uint32_t w = 0; w < windows(); ++w) {
      for (std::uint32_t at = 0; at < contexts_.size; at += chunk_) step(w, at, out);
    }
  }

 private:
  void step(std::uint32_t window, std::uint32_t at, std::ofstream& out) {
    const std::uint32_t count = std::min(chunk_, contexts_.size - at);
    const auto from = contexts_.tokens.begin() + std::ptrdiff_t{window} * contexts_.size + at;
    StepPlan plan;
    PlanRow row{.sequence = window, .first_position = at, .count = count};
    row.keep_states_at(0);  // windows take turns
    plan.tokens.assign(from, from + count);
    const std::uint32_t page_tokens = model_.info().page_tokens;
    row.page_count = (contexts_.size + page_tokens - 1) / page_tokens;
    for (std::uint32_t i = 0; i < row.page_count; ++i) {
      plan.pages.push_back(window * row.page_count + i);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool scored = at + i >= contexts_.size / 2 && at + i < contexts_.size - 1;
      if (scored) plan.outputs.push_back({i, OutputKind::logits});
    }
    row.output_count = static_cast<std::uint32_t>(plan.outputs.size());
    plan.rows.push_back(row);
    must(model_.forward(plan, {}));
    if (row.output_count == 0) return must(device_.finish());
    std::vector<float> rows(std::size_t{row.output_count} * model_.logits_stride());
    must(device_.read(model_.logits(), 0, std::as_writable_bytes(std::span(rows))));
    for (std::uint32_t i = 0; i < row.output_count; ++i) {
      out.write(reinterpret_cast<const char*>(&rows[std::size_t{i} * model_.logits_stride()]),
                std::streamsize{model_.info().vocabulary} * 4);
    }
  }

  Device& device_;
  Model& model_;
  const Contexts& contexts_;
  std::uint32_t chunk_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes the engine's logits along given tokens");
  std::string model_path, contexts_path, output_path, math = "exact";
  std::uint32_t chunk = 256;
  DeviceOptions device_options;
  ModelOptions options;
  app.add_option("--model", model_path)->required();
  app.add_option("--contexts", contexts_path)->required();
  app.add_option("--output", output_path)->required();
  app.add_option("--math", math)->check(CLI::IsMember({"exact", "fast", "int8"}));
  app.add_option("--kv", options.kv);
  app.add_option("--chunk", chunk, "tokens a step")->check(CLI::Range(1, 512));
  app.add_option("--device", device_options.device);
  app.add_option("--variant", device_options.variant, "kernels: generic or cpu");
  CLI11_PARSE(app, argc, argv);
  options.math = find_math(math).value();

  const Contexts contexts = read_contexts(contexts_path);
  const auto device = must(Device::open(device_options));
  const GgufFile file = must(GgufFile::open(model_path));
  const auto model = must(Model::load(*device, file, options));
  Reader reader(*device, *model, contexts, chunk);
  std::ofstream out(output_path, std::ios::binary);
  const std::uint32_t shape[2] = {reader.rows(), model->info().vocabulary};
  out.write("MLOGITS1", 8).write(reinterpret_cast<const char*>(shape), sizeof shape);
  reader.write(out);
  out.close();
  if (!out) die("cannot write " + output_path);
  const nlohmann::json said{{"rows", shape[0]},
                            {"math", math},
                            {"kv", model->info().kv},
                            {"device", device->info().name},
                            {"fingerprint", model->info().fingerprint}};
  std::printf("%s\n", said.dump().c_str());
  return 0;
}
