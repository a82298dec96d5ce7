// GFLOP/s and GB/s of each kernel on the shapes of SmolLM2-135M, beside the device's measured peak.
//
//   kernel_bench [--device D] [--variant generic|cpu] [--peak|--products|--attention]
//
// Prints one JSON object; --peak measures the device's limits alone, --products and --attention
// those kernels beside them. A product's GB/s counts its
// packed weights once; attention's the keys and values that it reads. Each figure is the best of
// several windows of a chain of launches.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/kernel/peak.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/kv/cache_group.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/pack.hpp"

namespace millrace::engine {
namespace {

using nlohmann::json;

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "kernel_bench: %s\n", result.error().text().c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "kernel_bench: %s\n", status.error().text().c_str());
  std::exit(1);
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Seconds of one launch, in a chain of `chain`, best of 8 windows.
double best_of(Device& device, int chain, const std::function<void()>& launch) {
  launch();
  must(device.finish());
  double best = 1e9;
  for (int window = 0; window < 8; ++window) {
    const double start = seconds();
    for (int i = 0; i < chain; ++i) launch();
    must(device.finish());
    best = std::min(best, (seconds() - start) / chain);
  }
  return best;
}

json row(const std::string& what, double s, double flops, double bytes, const Peak& peak) {
  const double gflops = flops / s / 1e9, gbytes = bytes / s / 1e9;
  return {{"kernel", what},
          {"us", std::round(s * 1e7) / 10},
          {"gflops", std::round(gflops * 10) / 10},
          {"gflops_percent_of_peak", std::round(100 * gflops / peak.gflops)},
          {"gflops_percent_of_dot_peak",
           peak.dot_gops > 0 ? std::round(100 * gflops / peak.dot_gops) : 0},
          {"gbytes_per_s", std::round(gbytes * 10) / 10},
          {"gbytes_percent_of_peak", std::round(100 * gbytes / peak.gbytes)}};
}

std::vector<std::byte> random_panels(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < bytes; i += 2) {  // halves below 1 wherever a scale is read
    state = state * 1664525 + 1013904223;
    const std::uint32_t half = (state >> 16) & 0x2bff;
    out[i] = static_cast<std::byte>(half & 0xff);
    if (i + 1 < bytes) out[i + 1] = static_cast<std::byte>(half >> 8);
  }
  return out;
}

void bench_product(Device& device, const Peak& peak, MathMode math, TensorType type,
                   std::uint32_t rows, std::uint32_t columns, json& out) {
  const PanelLayout layout{format_of(type), columns};
  const std::uint32_t panels = rows / panel_rows;
  const std::uint64_t bytes = layout.panel_bytes() * panels;
  const std::uint32_t most = 512;
  Projection projection;
  projection.columns = columns;
  projection.rows = rows;
  projection.first = {0};
  WeightRun run{.format = layout.format, .first_row = 0, .panels = panels, .buffer = {}};
  run.buffer = must(device.allocate(bytes, "weights"));
  must(device.write(run.buffer, 0, random_panels(bytes)));
  projection.runs.push_back(std::move(run));
  const auto input = [&](std::uint32_t stride) {
    return must(device.allocate_zeroed(std::uint64_t{stride} * (most + input_slack_rows) * 4, "x"));
  };
  const Activation x{.rows = input(input_stride(columns)), .codes = input(code_stride(columns))};
  const Buffer y = must(device.allocate_zeroed(std::uint64_t{rows} * most * 4, "y"));
  ModelSpec one_head;
  one_head.heads = 1;
  one_head.kv_heads = 1;
  Operations operations(device, one_head, math);
  must(operations.prepare_product(projection));
  for (const std::uint32_t n : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 512u}) {
    const double flops = 2.0 * rows * columns * n;
    const double s = best_of(device, n < 64 ? 20 : 4, [&] {
      must(operations.project(projection, x, n, y, rows, Accumulate::replace));
    });
    out.push_back(row(std::string(math_name(math)) + " product " +
                          std::string(traits_of(type).name) + " " + std::to_string(rows) + " x " +
                          std::to_string(columns) + ", " + std::to_string(n) + " columns",
                      s, flops, static_cast<double>(bytes), peak));
  }
}

// `rows` sequences of `length` positions, of which the last `chunk` are computed, over enough
// layers that no cache holds their keys and values from one to the next.
void bench_attention(Device& device, const Peak& peak, std::uint32_t rows, std::uint32_t length,
                     std::uint32_t chunk, json& out) {
  ModelSpec spec;
  spec.heads = 9;
  spec.kv_heads = 3;
  spec.head_dim = 64;
  spec.rope_dim = 64;
  Operations operations(device, spec, MathMode::exact);
  Projection heads;
  heads.rows = 960;
  heads.first = {0, 576, 768};
  must(operations.prepare_layer(heads));
  const std::uint32_t pages_each = (length + kv_page_tokens - 1) / kv_page_tokens;
  StepPlan plan;
  for (std::uint32_t r = 0; r < rows; ++r) {
    PlanRow entry;
    entry.first_position = length - chunk;
    entry.count = chunk;
    entry.page_offset = static_cast<std::uint32_t>(plan.pages.size());
    entry.page_count = pages_each;
    for (std::uint32_t p = 0; p < pages_each; ++p) plan.pages.push_back(r * pages_each + p);
    plan.rows.push_back(entry);
  }
  plan.tokens.assign(chunk, 0);
  const StepLimits limits{.tokens = rows * chunk,
                          .outputs = 1,
                          .vocabulary = 1,
                          .context_tokens = length,
                          .page_tokens = kv_page_tokens,
                          .page_count = rows * pages_each,
                          .device_slots = 0,
                          .attention = operations.attention_limits()};
  const StepTable step = must(StepTable::lower(plan, limits));
  const Buffer words = must(device.allocate(step.words.size() * 4, "step"));
  must(device.write(words, 0, std::as_bytes(std::span(step.words))));
  const CacheShape shape{.layers = 1, .kv_heads = 3, .head_dim = 64, .policy = {}};
  const std::uint64_t layer_bytes = shape.layer_page_bytes() * rows * pages_each;
  const auto layers = static_cast<std::uint32_t>(
      chunk > 1 ? 1 : std::clamp<std::uint64_t>((256ull << 20) / layer_bytes, 2, 30));
  std::vector<Buffer> kv;
  for (std::uint32_t i = 0; i < layers; ++i) {
    kv.push_back(must(device.allocate(layer_bytes, "pages")));
    must(device.write(kv.back(), 0, random_panels(layer_bytes)));
  }
  const Buffer rope = must(device.allocate_zeroed(std::uint64_t{length} * 64 * 4, "rope"));
  const Buffer qkv = must(device.allocate_zeroed(std::uint64_t{960} * rows * chunk * 4, "qkv"));
  const Buffer result =
      must(device.allocate(std::uint64_t{input_stride(576)} * rows * chunk * 4, "out"));
  std::uint32_t layer = 0;
  const double s = best_of(device, static_cast<int>(layers), [&] {
    must(operations.attend(qkv, rope, kv[layer++ % layers], result, step, words));
  });
  const double mean_keys = length - (chunk - 1) / 2.0;
  const std::string what = std::to_string(rows) + " rows of " + std::to_string(chunk) +
                           " tokens ending at " + std::to_string(length);
  out.push_back(row("attention, " + what, s, 4.0 * 576 * mean_keys * rows * chunk,
                    static_cast<double>(layer_bytes), peak));
  if (step.tiles.count == 0) return;
  const double turn_s =
      best_of(device, 4, [&] { must(operations.rope_and_store(qkv, rope, kv[0], step, words)); });
  out.push_back(row("rotate and store, " + what, turn_s, 0, 0, peak));
}

void bench_attentions(Device& device, const Peak& peak, json& out) {
  for (const std::uint32_t length : {128u, 256u, 512u, 2048u, 7000u}) {
    for (const std::uint32_t rows : {1u, 4u, 8u, 64u}) {
      if (std::uint64_t{rows} * length <= 64 * 2048) {
        bench_attention(device, peak, rows, length, 1, out);
      }
    }
  }
  for (const std::uint32_t length : {128u, 256u, 512u, 2048u, 7000u}) {
    for (const std::uint32_t rows : {1u, 4u}) {
      bench_attention(device, peak, rows, length, std::min(length, 512 / rows), out);
    }
  }
}

void run(const DeviceOptions& options, bool products, bool attention) {
  const auto device = must(Device::open(options));
  const Peak peak = must(measure_peak(*device));
  json rows = json::array();
  constexpr MathMode fast = MathMode::fast, exact = MathMode::exact;
  if (products) {
    bench_product(*device, peak, fast, TensorType::q4_1, 3072, 576, rows);
    bench_product(*device, peak, fast, TensorType::q4_1, 576, 1536, rows);
    bench_product(*device, peak, fast, TensorType::q4_0, 3072, 576, rows);
    bench_product(*device, peak, fast, TensorType::q8_0, 49152, 576, rows);
    bench_product(*device, peak, exact, TensorType::q4_1, 3072, 576, rows);
  }
  if (attention) bench_attentions(*device, peak, rows);
  const json out{{"device", device->info().name},
                 {"driver", device->info().driver},
                 {"family", family_name(device->family())},
                 {"peak_fp32_gflops", std::round(peak.gflops)},
                 {"peak_read_gbytes_per_s", std::round(peak.gbytes * 10) / 10},
                 {"peak_dot_gops", std::round(peak.dot_gops)},
                 {"peak_dot_instruction", peak.dot_instruction},
                 {"kernels", rows}};
  std::printf("%s\n", out.dump(1).c_str());
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::DeviceOptions options;
  bool products = true, attention = true;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--peak") products = attention = false;
    if (name == "--products") attention = false;
    if (name == "--attention") products = false;
    if (i + 1 == argc) continue;
    if (name == "--device") options.device = argv[++i];
    if (name == "--variant") options.variant = argv[++i];
  }
  millrace::engine::run(options, products, attention);
}
