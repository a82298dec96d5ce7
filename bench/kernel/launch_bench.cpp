// Times what a layer launches besides attention and plain products on a GPU, by the device's own
// clock, in the shape of Llama 3.1 8B: the norm, the product of gate and up with and without the
// activation at its end, the bytes of that activation, and the rotation and store of keys and
// values.
//
//   launch_bench [--device D] [--variant V] [--type Q8_0] [--rows 1,64,256,1024] [--width 4096]
//   [--ffn 14336] [--math fast|int8]
//
// Prints microseconds of a launch, the best of several windows of a chain, and those of a launch
// that does nothing. The norm of all families and that of this one read and write the same rows; so
// do the two ways to the activation.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel/random_halves.hpp"
#include "bench/must.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

using bench::must;

struct Flags {
  std::string device, variant, type = "Q8_0";
  std::vector<std::uint32_t> rows{1, 64, 256, 1024};
  std::uint32_t width = 4096, ffn = 14336;
  std::string math{math_name(MathMode::fast)};
};

constexpr std::uint32_t heads = 32, kv_heads = 8, head_dim = 128;

ModelSpec layer_of(const Flags& flags) {
  ModelSpec spec;
  spec.layers.push_back({.attention = {.heads = heads,
                                       .kv_heads = kv_heads,
                                       .head_dim = head_dim,
                                       .scale = 0.088f,
                                       .rope = {.dim = head_dim}},
                         .recurrence = {},
                         .feed_forward = {.width = flags.ffn},
                         .norms = {}});
  spec.width = flags.width;
  spec.vocabulary = 1;
  spec.norm_epsilon = 1e-5f;
  return spec;
}

// A layer's memory for so many rows.
class Launches {
 public:
  Launches(Device& device, const Flags& flags, std::uint32_t rows)
      : device_(device),
        flags_(flags),
        rows_(rows),
        operations_(device, layer_of(flags), find_math(flags.math).value()) {
    must(operations_.prepare_layer());
    must(operations_.prepare_attention());
    hidden_ = numbers(std::uint64_t{input_stride(flags.width)} * rows);
    weight_ = numbers(flags.width);
    normed_ = codes(flags.width);
    activated_ = codes(flags.ffn);
    gate_up_ = numbers(std::uint64_t{2} * flags.ffn * rows);
    matrix_ = matrix(2 * flags.ffn, flags.width);
    matrix_.first = {0, flags.ffn};
    down_ = matrix(panel_rows, flags.ffn);
    load_step();
  }

  void print() {
    const Forms inputs = operations_.backend().inputs_of(matrix_);
    std::printf("%6u %7.1f %12.1f", rows_, empty(), generic_norm());
    std::printf(" %9.1f", time({"rms_norm"}, [&] {
                  return operations_.norm(hidden_, weight_, normed_, inputs, step_, words_, false);
                }));
    for (const bool paired : {false, true}) {
      matrix_.paired = paired;
      std::printf(" %10.1f", time({"matmul", "gated_mul_quantize"}, [&] {
                    return operations_.gated(normed_, matrix_, gate_up_, activated_,
                                             {.codes = true}, rows_);
                  }));
    }
    std::printf(" %7.1f", time({"quantize_bytes"}, [&] {
                  return operations_.complete(activated_, {.codes = true},
                                              operations_.backend().inputs_of(down_), flags_.ffn,
                                              rows_);
                }));
    std::printf(" %10.1f\n", time({"rope_kv"}, [&] {
                  return operations_.rope_and_store(gate_up_, rope_, {kv_}, step_, words_);
                }));
  }

 private:
  Buffer numbers(std::uint64_t count) {
    Buffer out = must(device_.allocate(count * 4, "numbers"));
    std::vector<float> values(count);
    std::uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    must(device_.write(out, 0, std::as_bytes(std::span(values))));
    return out;
  }
  Activation codes(std::uint32_t columns) {
    const Target& target = operations_.target();
    return {.codes = must(device_.allocate_zeroed(target.code_words(columns, rows_) * 4, "codes")),
            .bytes = must(device_.allocate_zeroed(target.byte_words(columns, rows_) * 4, "bytes"))};
  }
  Projection matrix(std::uint32_t rows, std::uint32_t columns) {
    const auto* const type =
        std::ranges::find(tensor_types(), flags_.type, &TensorTypeTraits::name).base();
    const Backend& backend = operations_.backend();
    Projection out;
    out.columns = columns;
    out.rows = rows;
    out.first = {0};
    const bool int8 = operations_.target().math == MathMode::int8;
    WeightRun run{
        .format = int8 ? backend.stored_format(type->type, columns, false) : format_of(type->type),
        .first_row = 0,
        .panels = rows / panel_rows,
        .buffer = {}};
    const std::uint64_t bytes = backend.panel_bytes(run.format, columns) * run.panels;
    run.buffer = must(device_.allocate(bytes, "weights"));
    must(device_.write(run.buffer, 0, random_halves(bytes)));
    out.runs.push_back(std::move(run));
    must(operations_.prepare_product(out));
    return out;
  }
  // Rows of one token each, or, from 512 on, prompts of 128 tokens.
  void load_step() {
    const std::uint32_t each = rows_ < 512 ? 1 : 128, first = 256;
    const std::uint32_t pages_each = (first + each + kv_page_tokens - 1) / kv_page_tokens;
    StepPlan plan;
    for (std::uint32_t r = 0; r < rows_ / each; ++r) {
      PlanRow row;
      row.first_position = first;
      row.count = each;
      row.page_offset = static_cast<std::uint32_t>(plan.pages.size());
      row.page_count = pages_each;
      for (std::uint32_t p = 0; p < pages_each; ++p) plan.pages.push_back(r * pages_each + p);
      plan.rows.push_back(row);
    }
    plan.tokens.assign(each, 0);
    const std::uint32_t pages = rows_ / each * pages_each;
    must(StepLowering().lower(plan,
                              {.tokens = rows_,
                               .outputs = 1,
                               .vocabulary = 1,
                               .context_tokens = first + each,
                               .page_tokens = kv_page_tokens,
                               .groups = {{pages, 0}},
                               .device_slots = 0,
                               .windows = operations_.windows()},
                              step_));
    operations_.backend().cut_attention(step_);
    words_ = must(device_.allocate(step_.words.size() * 4, "step"));
    must(device_.write(words_, 0, std::as_bytes(std::span(step_.words))));
    kv_ = must(device_.allocate_zeroed(layer_page_bytes({}, {kv_heads, head_dim}) * pages, "kv"));
    rope_ = numbers(std::uint64_t{first + each} * head_dim);
  }
  // A launch of as many groups as rows that do nothing.
  double empty() {
    constexpr const char* text = "__kernel void nothing(__global float* x) { if (x == 0) *x = 1; }";
    const Program program = must(device_.build({.name = "nothing", .text = text}));
    Kernel kernel = must(device_.kernel(program, "nothing"));
    return time({"nothing"}, [&] {
      return device_.launch(kernel, {.groups = {rows_}, .local = {256}}, {hidden_});
    });
  }
  // The kernel of the other families, with codes of this one.
  double generic_norm() {
    std::vector<std::string> defines = operations_.target().code_defines();
    defines.push_back(define("ROW_ITEMS", device_.row_items()));
    const Program program = must(device_.build(
        {.name = "quantize", .sources = {"quantize/quantize.cl"}, .defines = defines}));
    Kernel kernel = must(device_.kernel(program, "rms_norm_quantize"));
    return time({"rms_norm_quantize"}, [&] {
      return device_.launch(
          kernel, {.groups = {rows_}, .local = {device_.row_items()}},
          {hidden_, weight_, normed_.codes, words_, 0u, 0u, flags_.width / block_columns,
           input_stride(flags_.width), operations_.target().code_stride(flags_.width),
           operations_.target().inverse_width(), 1e-5f});
    });
  }
  // Microseconds that the named kernels take in a launch.
  double time(const std::vector<std::string>& kernels, const std::function<Status()>& launch) {
    constexpr int windows = 6, chain = 10;
    double best = 1e9;
    for (int window = -1; window < windows; ++window) {  // the first is untimed
      must(device_.profile());
      for (int i = 0; i < chain; ++i) must(launch());
      must(device_.finish());
      double total_us = 0;
      for (const KernelTime& time : must(device_.profile())) {
        if (std::ranges::find(kernels, time.kernel) == kernels.end()) continue;
        total_us += static_cast<double>(time.total_ns) / 1e3;
      }
      if (window >= 0) best = std::min(best, total_us / chain);
    }
    return best;
  }

  Device& device_;
  const Flags& flags_;
  const std::uint32_t rows_;
  Operations operations_;
  StepTable step_;
  Projection matrix_, down_;
  Buffer hidden_, weight_, gate_up_, words_, kv_, rope_;
  Activation normed_, activated_;
};

void run(const Flags& flags) {
  const auto device =
      must(Device::open({.device = flags.device, .variant = flags.variant, .profile = true}));
  std::printf("%s, %s, %s\n", device->info().name.c_str(),
              std::string(family_name(device->family())).c_str(), flags.type.c_str());
  std::printf(
      "  rows nothing  norm of all      norm  gate_up, activation  in one   bytes  rope and "
      "store\n");
  for (const std::uint32_t rows : flags.rows) Launches(*device, flags, rows).print();
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::Flags flags;
  CLI::App app("Times norms, the product of gate and up, and the store of keys and values.",
               "launch_bench");
  app.add_option("--device", flags.device, "the device, as the engine's --device");
  app.add_option("--variant", flags.variant, "kernels of another family than the device's");
  app.add_option("--type", flags.type, "the type of the weights");
  app.add_option("--rows", flags.rows, "rows of a step")->delimiter(',');
  app.add_option("--width", flags.width, "channels of a row");
  app.add_option("--ffn", flags.ffn, "channels of the feed-forward");
  app.add_option("--math", flags.math, "math mode")->check(CLI::IsMember({"fast", "int8"}));
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(flags);
  return 0;
}
