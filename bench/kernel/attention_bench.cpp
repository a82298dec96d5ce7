// Times attention alone in the shape of Llama 3.1 8B (32 query heads, 8 KV heads, 128 channels), by
// the device's events.
//
//   attention_bench [--device D] [--variant FAMILY] [--rows N] [--length N] [POLICY...]
//
// Prints a line for each shape, or those of so many rows or positions, and KV policy (by default
// f16): microseconds of a layer, the bytes of keys and values that it holds by the second, its
// operations, which count the keys that a query sees, and microseconds of the rotation and store
// before it. A figure is the best of several windows. Layers are so many that no cache holds a
// layer's keys and values until its next launch, except those of prompts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/kernel/load.hpp"
#include "bench/must.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {
namespace {

using bench::must;

constexpr HeadCounts heads{.heads = 32, .kv_heads = 8, .head_dim = 128};

struct Step {
  std::uint32_t rows, length, chunk, shared;
};
constexpr Step steps[] = {{1, 192, 1, 0},     {64, 192, 1, 0},   {256, 192, 1, 0},
                          {256, 192, 1, 112}, {1, 7000, 1, 0},   {64, 7000, 1, 0},
                          {2, 512, 512, 0},   {2, 7000, 512, 0}, {8, 128, 128, 0}};

// The time of a layer by events, and of all launches with their gaps.
struct Times {
  double us = 1e9, wall_us = 0, store_us = 1e9;
};

// The shortest time of a launch by events, of several windows of so many.
double event_us(Device& device, std::uint32_t launches, const std::function<Status()>& launch) {
  constexpr int windows = 5;
  double best = 1e9;
  for (int window = 0; window < windows; ++window) {
    must(device.profile());  // forgets what came before
    for (std::uint32_t i = 0; i < launches; ++i) must(launch());
    must(device.finish());
    std::uint64_t ns = 0;
    for (const KernelTime& kernel : must(device.profile())) ns += kernel.total_ns;
    best = std::min(best, static_cast<double>(ns) / launches / 1e3);
  }
  return best;
}

Times time(Device& device, AttentionLoad& load) {
  constexpr int windows = 5;
  const std::uint32_t layers = std::max(load.layers(), 8u);
  Times out;
  out.us = event_us(device, layers, [&] { return load.launch(); });
  out.wall_us = 1e6 * must(best_seconds(device, layers, windows, [&] { return load.launch(); }));
  out.store_us = event_us(device, layers, [&] { return load.rotate_and_store(); });
  return out;
}

// 0: all.
struct Filter {
  std::uint32_t rows = 0, length = 0;
  bool takes(const Step& step) const {
    return (rows == 0 || rows == step.rows) && (length == 0 || length == step.length);
  }
};

void run(const DeviceOptions& options, const Filter& filter,
         const std::vector<std::string>& policies) {
  const auto device = must(Device::open(options));
  std::printf("%s, %s kernels\n", device->info().name.c_str(),
              std::string(family_name(device->family())).c_str());
  std::printf("%-8s %6s %7s %7s %7s %9s %9s %8s %8s %9s\n", "kv", "rows", "length", "tokens",
              "shared", "us", "wall us", "GB/s", "Tflop/s", "store us");
  for (const Step& step : steps) {
    if (!filter.takes(step)) continue;
    for (const std::string& policy : policies) {
      const KvCodecs codecs = must(parse_kv_policy(policy)).codecs;
      const auto load = must(AttentionLoad::create(*device, step.rows, step.length, step.chunk, {},
                                                   step.shared, codecs, heads));
      const Times times = time(*device, *load);
      const double keys = step.length - (step.chunk - 1) / 2.0;
      const double flops = 4.0 * heads.columns() * keys * step.rows * step.chunk;
      std::printf("%-8s %6u %7u %7u %7u %9.1f %9.1f %8.0f %8.2f %9.1f\n", policy.c_str(), step.rows,
                  step.length, step.chunk, step.shared, times.us, times.wall_us,
                  static_cast<double>(load->layer_bytes()) / times.us / 1e3, flops / times.us / 1e6,
                  times.store_us);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::DeviceOptions options;
  options.profile = true;
  millrace::engine::Filter filter;
  std::vector<std::string> policies{"f16"};
  CLI::App app("Times attention in the shape of an 8B model.", "attention_bench");
  app.add_option("--device", options.device, "a part of the device's name");
  app.add_option("--variant", options.variant, "kernels: generic, cpu or nvidia");
  app.add_option("--rows", filter.rows, "shapes of so many rows alone");
  app.add_option("--length", filter.length, "shapes of so many positions alone");
  app.add_option("policies", policies, "KV policies, like f16 q8 k4v3");
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(options, filter, policies);
  return 0;
}
