// Measures GFLOP/s and GB/s of each kernel on the shapes of SmolLM2-135M, and their share of the
// device's measured peak.
//
//   kernel_bench [--device D] [--cores N] [--variant generic|cpu] [--peak|--products|--attention|
//                --passes|--kv POLICIES]
//
// Prints one JSON object. --peak measures only the device's limits. --products, --attention and
// --passes (norms, SiLU, storing, embedding, sampling) also measure those kernels, and --kv
// measures attention, and the storing of a prompt, for each KV policy. A product's GB/s counts its
// packed weights once, that of attention the keys and values that it reads. Each figure is the best
// of several windows of a chain of launches; one beyond its arithmetic's peak is marked "busy".
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/flags.hpp"
#include "bench/kernel/load.hpp"
#include "bench/kernel/passes.hpp"
#include "bench/kernel/peak.hpp"
#include "bench/must.hpp"
#include "engine/core/device/device.hpp"

namespace millrace::engine {
namespace {

using bench::must;
using nlohmann::json;

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

// Marks a row whose share of `limit`, the peak of its arithmetic, is above 100 %. No kernel can be
// faster than its limit, so other processes used the cores while the limit was measured.
void mark_impossible(json& row, const char* limit) {
  if (row[limit].get<double>() > 100) row["busy"] = "the peak was measured on a busy machine";
}

void bench_product(Device& device, const Peak& peak, MathMode math, TensorType type,
                   std::uint32_t rows, std::uint32_t columns, json& out) {
  const auto load = must(ProductLoad::create(device, math, type, rows, columns));
  for (const std::uint32_t n : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 512u}) {
    const double flops = 2.0 * rows * columns * n;
    // Long enough that the wait at its end does not count: a step has one for hundreds of launches.
    const auto chain = static_cast<std::uint32_t>(std::clamp(2e10 / flops, 4.0, 20.0));
    const double s = must(best_seconds(device, chain, 8, [&load, n] { return load->launch(n); }));
    out.push_back(row(std::string(math_name(math)) + " product " +
                          std::string(traits_of(type).name) + " " + std::to_string(rows) + " x " +
                          std::to_string(columns) + ", " + std::to_string(n) + " columns",
                      s, flops, static_cast<double>(load->weight_bytes()), peak));
    out.back()["math"] = math_name(math);
    const bool integers = math == MathMode::fast && peak.dot_gops > 0;
    mark_impossible(out.back(), integers ? "gflops_percent_of_dot_peak" : "gflops_percent_of_peak");
    out.back()["columns"] = n;
  }
}

void bench_attention(Device& device, const Peak& peak, std::uint32_t rows, std::uint32_t length,
                     std::uint32_t chunk, json& out, std::uint32_t shared = 0) {
  const auto load = must(AttentionLoad::create(device, rows, length, chunk, {}, shared));
  const double s =
      must(best_seconds(device, load->layers(), 8, [&load] { return load->launch(); }));
  const double mean_keys = length - (chunk - 1) / 2.0;
  const std::string what = std::to_string(rows) + " rows of " + std::to_string(chunk) +
                           " tokens ending at " + std::to_string(length) +
                           (shared > 0 ? ", " + std::to_string(shared) + " shared" : "");
  out.push_back(row("attention, " + what, s, 4.0 * 576 * mean_keys * rows * chunk,
                    static_cast<double>(load->layer_bytes()), peak));
  mark_impossible(out.back(), "gflops_percent_of_peak");
  if (!load->rotates()) return;
  const double turn_s =
      must(best_seconds(device, 4, 8, [&load] { return load->rotate_and_store(); }));
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
  for (const std::uint32_t shared : {0u, 1500u}) {
    bench_attention(device, peak, 32, 1560, 1, out, shared);
  }
  for (const std::uint32_t length : {128u, 256u, 512u, 2048u, 7000u}) {
    for (const std::uint32_t rows : {1u, 4u}) {
      bench_attention(device, peak, rows, length, std::min(length, 512 / rows), out);
    }
  }
}

// Times one shape with each policy in turn, and compares each with the first.
void bench_policies(Device& device, const Peak& peak, const std::vector<std::string>& policies,
                    std::uint32_t rows, std::uint32_t length, std::uint32_t chunk, json& out) {
  constexpr int rounds = 4;
  std::vector<double> best(policies.size(), 1e9);
  std::vector<std::unique_ptr<AttentionLoad>> loads;
  for (const std::string& policy : policies) {
    const KvCodecs codecs = must(parse_kv_policy(policy)).codecs;
    loads.push_back(must(AttentionLoad::create(device, rows, length, chunk, {}, 0, codecs)));
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      AttentionLoad& load = *loads[i];
      const double s = must(best_seconds(device, load.layers(), 2, [&] { return load.launch(); }));
      best[i] = std::min(best[i], s);
    }
  }
  const double mean_keys = length - (chunk - 1) / 2.0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    out.push_back(row("attention, KV " + policies[i] + ", " + std::to_string(rows) + " rows of " +
                          std::to_string(chunk) + " tokens ending at " + std::to_string(length),
                      best[i], 4.0 * 576 * mean_keys * rows * chunk,
                      static_cast<double>(loads[i]->layer_bytes()), peak));
    out.back()["times_the_first"] = std::round(best[0] / best[i] * 100) / 100;
  }
  if (chunk == 1) return;  // the attention kernel itself stores a single token
  for (std::size_t i = 0; i < loads.size(); ++i) {
    AttentionLoad& load = *loads[i];
    const double s = must(best_seconds(device, 20, 8, [&] { return load.rotate_and_store(); }));
    out.push_back(row("rotate and store, KV " + policies[i] + ", " + std::to_string(chunk) +
                          " tokens ending at " + std::to_string(length),
                      s, 0, 0, peak));
  }
}

void bench_kv(Device& device, const Peak& peak, const std::vector<std::string>& policies,
              json& out) {
  bench_policies(device, peak, policies, 16, 7000, 1, out);
  bench_policies(device, peak, policies, 16, 256, 1, out);
  bench_policies(device, peak, policies, 1, 7000, 256, out);
}

json pass_row(const PassTime& pass) {
  const auto tenths = [](double value) { return std::round(value * 10) / 10; };
  const double limit = std::max(pass.move_us, pass.operations_us);
  return {{"kernel", pass.kernel},
          {"us", tenths(pass.us)},
          {"gbytes_per_s", tenths(pass.bytes / pass.us / 1e3)},
          {"move_us", tenths(pass.move_us)},
          {"operations_us", tenths(pass.operations_us)},
          {"limit", pass.move_us > pass.operations_us ? "memory" : "operations"},
          {"percent_of_limit", std::round(100 * limit / pass.us)}};
}

struct Parts {
  bool products = false, attention = false, passes = false;
  std::vector<std::string> policies;
};

void print_reads(const DeviceOptions& options) {
  const auto device = must(Device::open(options));
  const double gbytes = must(must(ReadProbe::create(*device)).measure());
  std::printf("{\"read_gbytes_per_s\": %.2f}\n", gbytes);
}

void run(DeviceOptions options, const Parts& parts) {
  const auto device = must(Device::open(options));
  const Peak peak = must(measure_peak(*device));
  json rows = json::array();
  constexpr MathMode fast = MathMode::fast, exact = MathMode::exact;
  if (parts.products) {
    using enum TensorType;
    for (const TensorType type : {q4_1, q4_0, q5_0}) {
      bench_product(*device, peak, fast, type, 3072, 576, rows);
    }
    for (const TensorType type : {q4_1, q4_k, q5_k, q6_k}) {
      bench_product(*device, peak, fast, type, 576, 1536, rows);
    }
    bench_product(*device, peak, fast, q8_0, 49152, 576, rows);
    bench_product(*device, peak, exact, q4_1, 3072, 576, rows);
  }
  if (parts.attention) bench_attentions(*device, peak, rows);
  if (parts.passes) {
    options.profile = true;
    for (const PassTime& pass : measure_passes(*must(Device::open(options)), peak)) {
      rows.push_back(pass_row(pass));
    }
  }
  if (!parts.policies.empty()) bench_kv(*device, peak, parts.policies, rows);
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
  millrace::engine::Parts parts;
  bool peak = false, reads = false;
  CLI::App app("Times kernels one by one and compares them with the machine's limits.",
               "kernel_bench");
  millrace::bench::add_device_options(app, options);
  app.add_option("--variant", options.variant, "kernels: generic or cpu");
  auto* const only = app.add_option_group("part", "all if absent");
  only->add_flag("--peak", peak, "only the machine's limits");
  only->add_flag("--reads", reads, "only the speed of memory at this moment; under a second");
  only->add_flag("--products", parts.products, "only matrix products");
  only->add_flag("--attention", parts.attention, "only attention");
  only->add_flag("--passes", parts.passes, "only kernels that run along rows");
  only->add_option("--kv", parts.policies, "attention with these KV policies, like f16,q8,k5v3")
      ->delimiter(',');
  only->require_option(0, 1);
  CLI11_PARSE(app, argc, argv);
  if (reads) {
    millrace::engine::print_reads(options);
    return 0;
  }
  if (only->count_all() == 0) parts.products = parts.attention = parts.passes = true;
  millrace::engine::run(options, parts);
  return 0;
}
