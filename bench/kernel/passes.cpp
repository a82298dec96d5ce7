#include "bench/kernel/passes.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "bench/kernel/load.hpp"
#include "bench/must.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/panel_layout.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "kernels/quantize/code_block.h"

namespace millrace::engine {
namespace {

using bench::must;

constexpr std::uint32_t tokens = 512, width = 576, ffn = 1536, vocabulary = 49152, drawing = 64;
constexpr std::uint32_t activate_columns = Q_TOGETHER;

// A copy that reads and writes a given number of vectors in each group.
constexpr const char* move_source = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void move(__global const float16* in, __global float16* out, uint reads, uint writes) {
  in += (size_t)get_group_id(0) * reads;
  out += (size_t)get_group_id(0) * writes;
  float16 a = (float16)(0.0f), b = a, c = a, d = a;
  for (uint i = 0; i < reads; i += 4) {
    a += in[i];
    b += in[i + 1];
    c += in[i + 2];
    d += in[i + 3];
  }
  a = (a + b) + (c + d);
  for (uint i = 0; i < writes; ++i) out[i] = a;
}
)";
// The gate (SiLU here) as at the end of gate_up, with its input in the first-level cache.
constexpr const char* activate_source = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void activate(__global const float16* in, __global int* out, uint blocks, uint out_stride) {
  __local float16 strip[STRIP_FLOATS / 16];
  for (uint i = 0; i < STRIP_FLOATS / 16; ++i) strip[i] = in[i];
  const size_t column = (size_t)(get_group_id(0) / blocks) * Q_TOGETHER;
  mr_activate((__global float*)(size_t)strip, Q_TOGETHER,
              out + column * out_stride + get_group_id(0) % blocks * Q_WORDS, out_stride);
}
)";

// Vector operations of 16 lanes in the kernels' sources, without loads and stores. Quantization
// finds a block's top (its largest value), codes and sums in each vector, and folds 16 lanes twice
// in each block.
constexpr double quantize_vector = 7.5, quantize_block = 16;
constexpr double silu_vector = 27, silu_alone = 30;  // four vectors together; with exp and its ends
constexpr double norm_vector = 3, norm_quantize_vector = 5;  // normed once, or for top and codes
constexpr double scan_vector = 6, draw_vector = 56, logprobs_vector = 27;
constexpr double rotate_token = 3 * (22 + 8 + 64);  // 64 of them store a half, for each head

std::vector<float> random_floats(std::size_t count, float scale) {
  std::vector<float> out(count);
  std::uint32_t state = 1;
  for (float& value : out) {
    state = state * 1664525 + 1013904223;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return out;
}

ModelSpec small_model() {
  ModelSpec spec;
  spec.layers.push_back(
      {.attention =
           {.heads = 9, .kv_heads = 3, .head_dim = 64, .scale = 0.125f, .rope = {.dim = 64}},
       .recurrence = {},
       .feed_forward = {.width = ffn},
       .norms = {}});
  spec.width = width;
  spec.vocabulary = vocabulary;
  spec.norm_epsilon = 1e-5f;
  return spec;
}

struct Work {
  std::string kernel, what;
  double read_bytes = 0, written_bytes = 0, operations = 0;
  std::uint32_t groups = tokens;
};

class Passes {
 public:
  Passes(Device& device, const Peak& peak)
      : device_(device), peak_(peak), operations_(device, small_model(), MathMode::fast) {
    must(operations_.prepare_layer());
    const Program program = must(device.build({.name = "move", .text = move_source}));
    move_ = must(device.kernel(program, "move"));
    space_ = must(device.allocate_zeroed(64 << 20, "what is moved"));
    step_.tokens = tokens;
    step_.slots_at = tokens;
    hidden_ = floats(input_stride(width) * tokens, 4.0f);
    weight_ = floats(width, 1.0f);
    normed_.rows = floats(input_stride(width) * tokens, 1.0f);
    normed_.codes = floats(code_stride(width) * tokens, 1.0f);
    gate_up_ = floats(2 * ffn * tokens, 4.0f);
    activated_.rows = floats(input_stride(ffn) * tokens, 1.0f);
    activated_.codes = floats(code_stride(ffn) * tokens, 1.0f);
  }

  std::vector<PassTime> all() {
    norms();
    activations();
    store();
    embed();
    sample();
    return std::move(out_);
  }

 private:
  Buffer floats(std::size_t count, float scale) {
    Buffer buffer = must(device_.allocate(count * 4, "a row"));
    const std::vector<float> values = random_floats(count, scale);
    must(device_.write(buffer, 0, std::as_bytes(std::span(values))));
    return buffer;
  }

  // Returns the us of a launch of `kernel`, by the device's events.
  double time(const std::string& kernel, const std::function<Status()>& launch) {
    double best = 1e9;
    for (int window = -1; window < 8; ++window) {  // the first is untimed: it specializes
      must(device_.profile());
      for (int i = 0; i < 10; ++i) must(launch());
      must(device_.finish());
      for (const KernelTime& time : must(device_.profile())) {
        if (time.kernel != kernel || window < 0) continue;
        best = std::min(
            best, static_cast<double>(time.total_ns) / 1e3 / static_cast<double>(time.launches));
      }
    }
    return best;
  }

  void add(const Work& work, const std::function<Status()>& launch) {
    PassTime out{.kernel = work.kernel + ", " + work.what};
    out.us = time(work.kernel, launch);
    out.bytes = work.read_bytes + work.written_bytes;
    const auto vectors = [&](double bytes) {
      return round_up(static_cast<std::uint32_t>(bytes / 64 / work.groups), 4);
    };
    const std::uint32_t reads = vectors(work.read_bytes), writes = vectors(work.written_bytes);
    out.move_us = time("move", [&] {
      return device_.launch(move_, {.groups = {work.groups}}, {space_, space_, reads, writes});
    });
    out.operations_us = work.operations / (peak_.gflops * 1e9 / 32) * 1e6;
    out_.push_back(out);
  }

  void norms() {
    const double blocks = width / 32.0 * tokens, row = width * 4.0 * tokens;
    const auto norm = [&](Forms forms) {
      return operations_.norm(hidden_, weight_, normed_, forms, step_, hidden_, false);
    };
    add({"rms_norm", "512 tokens", row, row, 2 * blocks * norm_vector},
        [&] { return norm({.rows = true}); });
    add({"rms_norm_quantize", "512 tokens", row, 48 * blocks,
         blocks * (2 * (norm_quantize_vector + quantize_vector) + quantize_block)},
        [&] { return norm({.codes = true}); });
    const std::uint32_t items = device_.row_items();
    const Program program = must(device_.build({.name = "quantize",
                                                .sources = {"quantize/quantize.cl"},
                                                .defines = {define("ROW_ITEMS", items)}}));
    Kernel kernel = must(device_.kernel(program, "quantize_rows"));
    add({"quantize_rows", "512 tokens", row, 48 * blocks,
         blocks * (2 * quantize_vector + quantize_block)},
        [&, items] {
          return device_.launch(
              kernel, {.groups = {tokens}, .local = {items}},
              {hidden_, normed_.codes, width / 32, input_stride(width), code_stride(width)});
        });
  }

  void activations() {
    const double blocks = ffn / 32.0 * tokens, row = ffn * 4.0 * tokens;
    add({"gated_mul", "512 tokens", 2 * row, row, 2 * blocks * silu_alone},
        [&] { return operations_.gated_mul(gate_up_, activated_, {.rows = true}, ffn, tokens); });
    const double quantize = 2 * quantize_vector + quantize_block;
    add({"gated_mul_quantize", "512 tokens", 2 * row, 48 * blocks,
         blocks * (2 * silu_alone + quantize)},
        [&] { return operations_.gated_mul(gate_up_, activated_, {.codes = true}, ffn, tokens); });
    if (device_.family() != Family::cpu) return;  // products of other families do not end in SiLU
    const PanelLayout layout{format_of(TensorType::q4_1), width};
    ProgramSpec spec{.name = "activate",
                     .sources = {"matmul/integer_tiles.cl"},
                     .defines = layout.defines(),
                     .text = activate_source};
    spec.defines.push_back(define("X_STRIDE", code_stride(width)));
    spec.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_.dot())));
    spec.defines.push_back(define("TILE", kernels::tuned_for(tuning_key(device_)).integer_tile));
    Kernel kernel = must(device_.kernel(must(device_.build(spec)), "activate"));
    const std::uint32_t groups = tokens / activate_columns * (ffn / 32);
    add({"activate", "512 tokens, as gate_up ends", 0, 48 * blocks,
         blocks * (2 * silu_vector + quantize), groups},
        [&] {
          return device_.launch(kernel, {.groups = {groups}},
                                {gate_up_, activated_.codes, ffn / 32, code_stride(ffn)});
        });
  }

  void store() {
    constexpr double read = (2 * 192 + 64) * 4.0 * tokens;
    for (const char* policy : {"f16", "q8", "k5v3"}) {
      const KvCodecs codecs = must(parse_kv_policy(policy)).codecs;
      const auto load = must(AttentionLoad::create(device_, 4, 128, 128, {}, 0, codecs));
      // The operations of the encoding are not counted.
      add({"rope_kv", "512 tokens, KV " + std::string(policy), read,
           static_cast<double>(layer_page_bytes(codecs, {3, 64})) * tokens / kv_page_tokens,
           rotate_token * tokens},
          [&] { return load->rotate_and_store(); });
    }
  }

  void embed() {
    Projection table;
    table.columns = width;
    table.rows = vocabulary;
    const PanelFormat format = format_of(TensorType::q8_0);
    const std::uint64_t panel_bytes = operations_.backend().panel_bytes(format, width);
    table.runs.push_back(
        {.format = format, .first_row = 0, .panels = vocabulary / 16, .buffer = {}});
    table.runs[0].buffer =
        must(device_.allocate_zeroed(panel_bytes * vocabulary / 16, "embedding"));
    must(operations_.prepare_embedding(table));
    std::vector<std::uint32_t> words(2 * tokens, no_slot);
    for (std::uint32_t i = 0; i < tokens; ++i) words[i] = i * 104729 % vocabulary;
    const Buffer step = must(device_.allocate(words.size() * 4, "step"));
    must(device_.write(step, 0, std::as_bytes(std::span(words))));
    // Reading a row also reads its neighbours in the cache lines of the panel.
    add({"embed", "512 tokens", static_cast<double>(panel_bytes) * tokens, width * 4.0 * tokens},
        [&] { return operations_.embed(table, step_, step, step, hidden_); });
  }

  void sample() {
    const auto sampler = must(Sampler::create(device_, vocabulary, drawing, drawing));
    const Buffer logits = floats(std::size_t{vocabulary} * drawing, 8.0f);
    struct Way {
      const char* what;
      float temperature;
      std::uint32_t top;
      double vector;
    };
    for (const Way& way :
         {Way{"64 rows, greedy", 0, 0, scan_vector},
          Way{"64 rows, greedy and top-5 logprobs", 0, 5, scan_vector + logprobs_vector},
          Way{"64 rows, drawn at temperature 1", 1, 0, scan_vector + draw_vector}}) {
      std::vector<SampleTask> tasks(drawing);
      for (std::uint32_t i = 0; i < drawing; ++i) {
        tasks[i].slot = i;
        tasks[i].sampling.temperature = way.temperature;
        tasks[i].sampling.seed = i;
        tasks[i].logprob = way.top > 0;
        tasks[i].top = way.top;
      }
      constexpr double values = double{vocabulary} * drawing;
      SampleBatch batch;
      add({"sample", way.what, values * 4, 16 * drawing, values / 16 * way.vector, drawing}, [&] {
        if (auto status = sampler->enqueue(logits, vocabulary, tasks, batch); !status)
          return status;
        return sampler->wait(batch);
      });
    }
  }

  Device& device_;
  const Peak& peak_;
  Operations operations_;
  StepTable step_;
  Kernel move_;
  Buffer space_, hidden_, weight_, gate_up_;
  Activation normed_, activated_;
  std::vector<PassTime> out_;
};

}  // namespace

std::vector<PassTime> measure_passes(Device& device, const Peak& peak) {
  return Passes(device, peak).all();
}

}  // namespace millrace::engine
