// Times a layer's mixture of experts in math fast on a GPU, kernel by kernel, by the device's own
// clock: the router, the products of the chosen experts, and their sum.
//
//   experts_bench [--device D] [--variant V] [--shapes gpt-oss-20b,qwen3-30b-a3b] [--types ...]
//                 [--tokens 1,64,256,2048] [--forms 0,1,...]
//
// Prints for each number of tokens microseconds of every kernel and of the layer, and what limits
// it: GB/s of weights if all are read once, and Tflop/s of the products. Weights and activations
// are random, and so experts are chosen about evenly. A form is a way in which the backend cuts
// products (KernelVariant::expert_shape); 0 lets it choose.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel/random_halves.hpp"
#include "bench/must.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/model/experts.hpp"

namespace millrace::engine {
namespace {

using bench::must;

struct Shape {
  std::string name;
  std::uint32_t width = 0;
  ExpertsSpec spec;
  Gate gate = Gate::silu;
  bool biases = false;
  std::string type;
};

const std::vector<Shape> shapes{
    {.name = "gpt-oss-20b",
     .width = 2880,
     .spec = {.count = 32, .used = 4, .width = 2880, .router = Router::softmax_of_chosen},
     .gate = Gate::clamped_silu,
     .biases = true,
     .type = "MXFP4"},
    {.name = "qwen3-30b-a3b",
     .width = 2048,
     .spec = {.count = 128, .used = 8, .width = 768, .normalized = true},
     .type = "Q4_K"},
};

struct Flags {
  std::string device, variant;
  std::vector<std::string> shapes{"gpt-oss-20b", "qwen3-30b-a3b"}, types;
  std::vector<std::uint32_t> tokens{1, 64, 256, 2048}, forms{0};
};

std::vector<float> random_floats(std::uint64_t count, float size) {
  std::vector<float> out(count);
  std::uint32_t state = 7;
  for (float& value : out) {
    state = state * 1664525 + 1013904223;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * size;
  }
  return out;
}

TensorType type_of(const std::string& name) {
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.name == name) return type.type;
  }
  bench::die("no tensor type has the name " + name);
}

class Layer {
 public:
  Layer(Device& device, const Shape& shape, const std::string& type, std::uint32_t most_tokens,
        std::uint32_t form)
      : device_(device),
        shape_(shape),
        backend_(
            make_backend(Target(device, model_of(shape), MathMode::fast, {.expert_shape = form}))),
        experts_(*backend_, shape.spec, shape.gate) {
    const TensorType kind = type_of(type);
    weights_.gate_up = matrix(kind, 2 * shape.spec.width, shape.width);
    weights_.gate_up.paired = backend_->pairs_gate(weights_.gate_up.runs[0].format, shape.width);
    weights_.down = matrix(kind, shape.width, shape.spec.width);
    weights_.router = router();
    must(experts_.prepare(weights_));
    const std::uint64_t rows = most_tokens + input_slack_rows;
    x_.rows = floats(rows * input_stride(shape.width), 1.0f);
    x_.codes = halves(backend_->target().code_words(shape.width, rows) * 4);
    out_ = floats(rows * input_stride(shape.width), 1.0f);
  }

  // Prints the times of a step's experts.
  void time(std::uint32_t tokens) {
    constexpr int launches = 10;
    for (int i = 0; i < 3; ++i) run(tokens);
    must(device_.finish());
    must(device_.profile());
    for (int i = 0; i < launches; ++i) run(tokens);
    must(device_.finish());
    double total_us = 0;
    std::string kernels;
    for (const KernelTime& time : must(device_.profile())) {
      const double us = static_cast<double>(time.total_ns) / 1e3 / launches;
      total_us += us;
      char text[96];
      std::snprintf(text, sizeof text, "  %s %.1f", time.kernel.c_str(), us);
      kernels += text;
    }
    const double flops = 6.0 * shape_.spec.width * shape_.width * shape_.spec.used * tokens;
    std::printf("%6u: %8.1f us %6.0f GB/s %5.0f Tflop/s %s\n", tokens, total_us,
                static_cast<double>(bytes_) / total_us / 1e3, flops / total_us / 1e6,
                kernels.c_str());
    std::fflush(stdout);
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  static ModelSpec model_of(const Shape& shape) {
    ModelSpec spec;
    spec.layers.push_back(
        {.attention =
             {.heads = 1, .kv_heads = 1, .head_dim = 64, .scale = 0.125f, .rope = {.dim = 64}},
         .recurrence = {},
         .feed_forward = {.width = 0, .gate = shape.gate, .experts = shape.spec},
         .norms = {}});
    spec.width = shape.width;
    return spec;
  }
  Buffer floats(std::uint64_t count, float size) {
    Buffer out = must(device_.allocate(count * sizeof(float), "numbers"));
    const std::vector<float> values = random_floats(count, size);
    must(device_.write(out, 0, std::as_bytes(std::span(values))));
    return out;
  }
  // Random bytes that repeat after a while.
  Buffer halves(std::uint64_t bytes) {
    constexpr std::uint64_t piece = 61ull << 20;
    Buffer out = must(device_.allocate(bytes, "weights"));
    const std::vector<std::byte> values = random_halves(std::min(bytes, piece));
    for (std::uint64_t at = 0; at < bytes; at += piece) {
      must(device_.write(out, at, std::span(values).first(std::min(piece, bytes - at))));
    }
    return out;
  }
  ExpertMatrix matrix(TensorType type, std::uint32_t rows, std::uint32_t columns) {
    const PanelFormat format = backend_->stored_format(type, columns, true);
    const std::uint32_t panels = rows / panel_rows, count = shape_.spec.count;
    const std::uint64_t bytes = backend_->panel_bytes(format, columns) * panels * count;
    bytes_ += bytes;
    ExpertMatrix out{.columns = columns, .rows = rows, .tensors = {}, .runs = {}, .bias = {}};
    out.runs.push_back({format, 0, panels, 0, count, halves(bytes)});
    if (shape_.biases) out.bias = floats(std::uint64_t{rows} * count, 0.1f);
    return out;
  }
  Projection router() {
    Projection out;
    out.columns = shape_.width;
    out.rows = shape_.spec.count;
    out.first = {0};
    const PanelFormat format = format_of(TensorType::f32);
    const std::uint32_t panels = out.rows / panel_rows;
    out.runs.push_back({.format = format, .first_row = 0, .panels = panels, .buffer = {}});
    out.runs[0].buffer =
        floats(backend_->panel_bytes(format, shape_.width) * panels / sizeof(float), 0.05f);
    return out;
  }
  void run(std::uint32_t tokens) {
    must(experts_.run(weights_, {.x = x_, .tokens = tokens}, {.rows = out_}));
  }

  Device& device_;
  const Shape& shape_;
  std::unique_ptr<Backend> backend_;
  Experts experts_;
  ExpertWeights weights_;
  std::uint64_t bytes_ = 0;
  Activation x_;
  Buffer out_;
};

void run(const Flags& flags) {
  DeviceOptions options;
  options.device = flags.device;
  options.variant = flags.variant;
  options.profile = true;
  const auto device = must(Device::open(options));
  std::printf("%s, driver %s\n", device->info().name.c_str(), device->info().driver.c_str());
  const std::uint32_t most = *std::ranges::max_element(flags.tokens);
  for (const std::string& name : flags.shapes) {
    const auto shape = std::ranges::find(shapes, name, &Shape::name);
    if (shape == shapes.end()) bench::die("there is no shape " + name);
    const auto types = flags.types.empty() ? std::vector{shape->type} : flags.types;
    for (const std::string& type : types) {
      for (const std::uint32_t form : flags.forms) {
        Layer layer(*device, *shape, type, most, form);
        std::printf("%s %s form %u, %.0f MB\n", name.c_str(), type.c_str(), form,
                    static_cast<double>(layer.bytes()) / 1e6);
        for (const std::uint32_t tokens : flags.tokens) layer.time(tokens);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::Flags flags;
  CLI::App app("Times a mixture of experts on a GPU.", "experts_bench");
  app.add_option("--device", flags.device, "OpenCL device, like the engine's option");
  app.add_option("--variant", flags.variant, "family of kernels, in place of the device's");
  app.add_option("--shapes", flags.shapes, "gpt-oss-20b, qwen3-30b-a3b")->delimiter(',');
  app.add_option("--types", flags.types, "tensor types of the experts")->delimiter(',');
  app.add_option("--tokens", flags.tokens, "tokens of a step")->delimiter(',');
  app.add_option("--forms", flags.forms, "forms of wide products; 0 chooses")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(flags);
  return 0;
}
