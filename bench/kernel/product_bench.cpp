// Times products of matrices in math fast or int8 on a GPU, by the device's own clock.
//
//   product_bench [--device D] [--types Q8_0,BF16] [--shapes 6144x4096,...] [--columns 1,8,...]
//                 [--forms 0,1,...] [--math fast|int8] [--add]
//
// Prints microseconds, Tflop/s, and GB/s of weights for each. Weights are random and in several
// copies, which launches read in turn, so that no cache holds them; activations are random. A form
// is a way in which the backend cuts products (KernelVariant::wide_shape); 0 lets it choose.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel/random_halves.hpp"
#include "bench/must.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/model/operations.hpp"

namespace millrace::engine {
namespace {

using bench::must;

struct Sizes {
  std::uint32_t rows = 0, columns = 0;
};

struct Flags {
  std::string device;
  std::vector<std::string> types{"Q8_0", "Q4_0", "BF16"};
  std::vector<std::string> shapes{"6144x4096", "4096x4096", "28672x4096", "4096x14336"};
  std::vector<std::uint32_t> columns{1, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::vector<std::uint32_t> forms{0};
  std::string math{math_name(MathMode::fast)};
  bool add = false;
};

ModelSpec any_model() {
  ModelSpec spec;
  spec.layers.push_back(
      {.attention =
           {.heads = 1, .kv_heads = 1, .head_dim = 64, .scale = 0.125f, .rope = {.dim = 64}},
       .recurrence = {},
       .feed_forward = {},
       .norms = {}});
  return spec;
}

// Products by matrices of one type and size, with activations in the form of codes.
class Load {
 public:
  Load(Device& device, TensorType type, Sizes sizes, std::uint32_t most_columns, std::uint32_t form,
       MathMode math, bool add)
      : device_(device),
        operations_(device, any_model(), math, {.wide_shape = form}),
        sizes_(sizes),
        accumulate_(add ? Accumulate::add : Accumulate::replace) {
    constexpr std::uint64_t beyond_caches = 256ull << 20;
    const PanelFormat format = math == MathMode::int8
                                   ? operations_.backend().stored_format(type, sizes.columns, false)
                                   : format_of(type);
    const std::uint32_t panels = sizes.rows / panel_rows;
    bytes_ = operations_.backend().panel_bytes(format, sizes.columns) * panels;
    const auto copies = static_cast<std::uint32_t>(beyond_caches / bytes_ + 2);
    const std::vector<std::byte> weights = random_halves(bytes_, 1);
    for (std::uint32_t i = 0; i < copies; ++i) {
      WeightRun run{.format = format, .first_row = 0, .panels = panels, .buffer = {}};
      run.buffer = must(device.allocate(bytes_, "weights"));
      must(device.write(run.buffer, 0, weights));
      Projection matrix;
      matrix.columns = sizes.columns;
      matrix.rows = sizes.rows;
      matrix.first = {0};
      matrix.runs.push_back(std::move(run));
      must(operations_.prepare_product(matrix));
      matrices_.push_back(std::move(matrix));
    }
    const Target& target = operations_.target();
    const std::uint64_t x_words = math == MathMode::int8
                                      ? target.byte_words(sizes.columns, most_columns)
                                      : target.code_words(sizes.columns, most_columns);
    const std::uint64_t x_bytes = x_words * sizeof(std::uint32_t);
    Buffer& x = math == MathMode::int8 ? x_.bytes : x_.codes;
    x = must(device.allocate(x_bytes, "x"));
    must(device.write(x, 0, random_halves(x_bytes, 2)));
    out_ = must(device.allocate(std::uint64_t{sizes.rows} * 1024 * sizeof(float), "y"));
  }

  std::uint64_t weight_bytes() const { return bytes_; }

  // Returns the mean time of a product in seconds.
  double seconds(std::uint32_t columns) {
    constexpr std::uint32_t launches = 20;
    launch(columns, 4);
    must(device_.profile());
    launch(columns, launches);
    if (std::getenv("MR_CLOCKS") && columns <= 512) {
      std::vector<float> at(1024);
      must(device_.read(out_, std::uint64_t{sizes_.rows} * 1000 * 4,
                        std::as_writable_bytes(std::span(at))));
      for (int w = 0; w < 8; ++w) {
        std::printf("\n   expander %d:", w);
        for (int i = 0; i < 10; ++i) std::printf(" %5.0f", at[w * 16 + i]);
      }
      for (int w = 0; w < 8; w += 4) {
        std::printf("\n   unit warp %d:", w);
        for (int i = 0; i < 6; ++i) std::printf(" %5.0f", at[512 + w * 16 + i]);
      }
      std::printf("\n");
    }
    double ns = 0;
    for (const KernelTime& time : must(device_.profile())) {
      ns += static_cast<double>(time.total_ns);
    }
    return ns / launches / 1e9;
  }

 private:
  void launch(std::uint32_t columns, std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) {
      must(operations_.project(matrices_[next_++ % matrices_.size()], x_, columns, out_,
                               sizes_.rows, accumulate_));
    }
    must(device_.finish());
  }

  Device& device_;
  Operations operations_;
  Sizes sizes_;
  Accumulate accumulate_;
  std::uint64_t bytes_ = 0;
  std::vector<Projection> matrices_;
  std::size_t next_ = 0;
  Activation x_;
  Buffer out_;
};

TensorType type_of(const std::string& name) {
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.name == name) return type.type;
  }
  bench::die("no tensor type has the name " + name);
}

Sizes sizes_of(const std::string& text) {
  const std::size_t at = text.find('x');
  if (at == text.npos) bench::die("a shape is ROWSxCOLUMNS, not " + text);
  return {static_cast<std::uint32_t>(std::stoul(text)),
          static_cast<std::uint32_t>(std::stoul(text.substr(at + 1)))};
}

void run(const Flags& flags) {
  DeviceOptions options;
  options.device = flags.device;
  options.profile = true;
  const auto device = must(Device::open(options));
  std::printf("%s, driver %s\n", device->info().name.c_str(), device->info().driver.c_str());
  const bool int8 = flags.math == math_name(MathMode::int8);
  const std::uint32_t most = *std::ranges::max_element(flags.columns);
  for (const std::string& type : flags.types) {
    for (const std::string& shape : flags.shapes) {
      const Sizes sizes = sizes_of(shape);
      for (const std::uint32_t form : flags.forms) {
        Load load(*device, type_of(type), sizes, most, form, int8 ? MathMode::int8 : MathMode::fast,
                  flags.add);
        std::printf("%s %s form %u:", type.c_str(), shape.c_str(), form);
        for (const std::uint32_t columns : flags.columns) {
          const double s = load.seconds(columns);
          std::printf("  %u: %.1f us %.0f T %.0f G", columns, s * 1e6,
                      2.0 * sizes.rows * sizes.columns * columns / s / 1e12,
                      static_cast<double>(load.weight_bytes()) / s / 1e9);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::engine

int main(int argc, char** argv) {
  millrace::engine::Flags flags;
  CLI::App app("Times products of matrices on a GPU.", "product_bench");
  app.add_option("--device", flags.device, "OpenCL device, like the engine's option");
  app.add_option("--types", flags.types, "tensor types")->delimiter(',');
  app.add_option("--shapes", flags.shapes, "rows and columns of the weights")->delimiter(',');
  app.add_option("--columns", flags.columns, "columns of activations")->delimiter(',');
  app.add_option("--forms", flags.forms, "forms of wide products; 0 chooses")->delimiter(',');
  app.add_option("--math", flags.math, "math mode")->check(CLI::IsMember({"fast", "int8"}));
  app.add_flag("--add", flags.add, "add the products to what the output holds");
  CLI11_PARSE(app, argc, argv);
  millrace::engine::run(flags);
  return 0;
}
