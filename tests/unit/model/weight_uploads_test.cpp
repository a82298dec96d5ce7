// Fills matrices of many types on several threads, in place and through pinned memory, and compares
// every byte with panels packed one after the other; and the errors with those of the first damage.
#include "engine/core/model/weight_uploads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/metadata_writer.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/weights.hpp"
#include "tests/support/device.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::engine {
namespace {

using testing::must;
using testing::open_device;
using testing::Random;

constexpr std::uint32_t columns = 256;

struct Shape {
  const char* name;
  TensorType type;
  std::uint64_t rows, matrices = 1;
};
// More rows than a piece has, rows that do not fill the last panel, several matrices in one tensor;
// made in this order in the file, which the order of loading is not.
constexpr auto shapes = std::to_array<Shape>({{"late", TensorType::q8_0, 5000},
                                              {"half", TensorType::f16, 40},
                                              {"blk.0.heads", TensorType::q6_k, 24, 5},
                                              {"early", TensorType::q4_k, 3001},
                                              {"float", TensorType::f32, 33},
                                              {"levels", TensorType::iq4_xs, 700}});

std::vector<std::byte> rows_of(const Shape& shape, Random& random) {
  std::vector<std::byte> out;
  const auto& traits = traits_of(shape.type);
  const std::uint64_t blocks = columns * shape.rows * shape.matrices / traits.block_elements;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const float value = random.uniform(-1, 1);
    if (shape.type == TensorType::f32) {
      testing::append_value(out, value);
    } else if (shape.type == TensorType::f16) {
      testing::append_value(out, float_to_half(value));
    } else {
      testing::append_random_block(out, shape.type, random, [&](std::uint32_t) {
        return static_cast<std::uint16_t>(0x2000 + random.below(0x400));
      });
    }
  }
  return out;
}

// Overwrites the first half of a row's scale, or its first number, with one that is not finite.
struct Damage {
  std::string_view tensor;
  std::uint64_t row;
};

GgufFile file_with(const std::vector<Damage>& damages = {}) {
  Random random(3);
  testing::GgufBuilder builder;
  builder.string("general.architecture", "llama");
  for (const Shape& shape : shapes) {
    std::vector<std::byte> data = rows_of(shape, random);
    const auto& traits = traits_of(shape.type);
    for (const Damage& damage : damages) {
      if (damage.tensor != shape.name) continue;
      const std::uint64_t row_bytes = columns / traits.block_elements * traits.block_bytes;
      const auto* const quantized = find_quant_traits(shape.type);
      const std::uint64_t at = quantized == nullptr ? 0 : quantized->halves_at;
      const std::uint16_t bad = 0x7e00;
      std::memcpy(&data[damage.row * row_bytes + at], &bad, sizeof bad);
    }
    std::vector<std::uint64_t> sizes{columns, shape.rows};
    if (shape.matrices > 1) sizes.push_back(shape.matrices);
    builder.tensor(std::string(shape.name) + ".weight", sizes,
                   static_cast<std::uint32_t>(shape.type), std::move(data));
  }
  return must(GgufFile::parse(bytes_of(builder.build()), "uploads.gguf"));
}

struct Loaded {
  Projection early, others;
  ExpertMatrix heads;
};

Loaded load(const Backend& backend, const GgufFile& file, WeightUploads& uploads) {
  Loaded out;
  const auto early = std::to_array<MatrixPart>({{"early", 3001}});
  // The middle of a tensor, and whole ones.
  const auto others = std::to_array<MatrixPart>(
      {{.name = "late", .rows = 1024, .first_row = 16, .tensor_rows = 5000},
       {.name = "levels", .rows = 700},
       {.name = "half", .rows = 40},
       {.name = "late", .rows = 5000}});
  out.early = must(load_projection(backend, file, early, columns, uploads));
  out.others = must(load_projection(backend, file, others, columns, uploads));
  out.heads = must(load_head_matrix(backend, file, "heads", columns, 24, 5, 0, uploads));
  return out;
}

// The panels of some rows, packed one after the other.
std::vector<std::uint8_t> packed(const Backend& backend, const Tensor& rows) {
  const PanelFormat format = format_of(rows.type);
  const std::uint64_t bytes = backend.panel_bytes(format, columns);
  const auto panels = static_cast<std::uint32_t>((rows.rows() + 15) / 16);
  std::vector<std::uint8_t> out(panels * bytes);
  for (std::uint32_t i = 0; i < panels; ++i) {
    backend.pack(format, rows, i, std::as_writable_bytes(std::span(out)).subspan(i * bytes, bytes),
                 1.0f);
  }
  return out;
}

std::vector<std::uint8_t> bytes_of_runs(Device& device, const auto& runs) {
  std::vector<std::uint8_t> out;
  for (const auto& run : runs) {
    const auto bytes = testing::download<std::uint8_t>(device, run.buffer, run.buffer.size_bytes());
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

void append(std::vector<std::uint8_t>& to, const std::vector<std::uint8_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The family, whether the bytes go through pinned memory, and the number of threads.
using Case = std::tuple<std::string, bool, std::uint32_t>;
class WeightUploadsTest : public ::testing::TestWithParam<Case> {
 protected:
  bool staged() const { return std::get<1>(GetParam()); }

  // Buffers of at most 400 KB, so that matrices have several runs.
  std::unique_ptr<Device> device_ = open_device({.variant = std::get<0>(GetParam()),
                                                 .max_allocation_bytes = 400'000,
                                                 .cores = std::get<2>(GetParam())});
  std::unique_ptr<Backend> backend_ =
      make_backend(Target(*device_, one_layer({.head_dim = 32}), MathMode::fast));
};

TEST_P(WeightUploadsTest, EveryPanelIsAsItWouldBePackedAlone) {
  const GgufFile file = file_with();
  WeightUploads uploads(*backend_, file, staged());
  const Loaded loaded = load(*backend_, file, uploads);
  const UploadTimes times = must(uploads.run());
  const auto rows = [&](const char* name, std::uint64_t first, std::uint64_t count) {
    return packed(*backend_, must(file.tensor(name))->slice(first, count));
  };
  EXPECT_EQ(bytes_of_runs(*device_, loaded.early.runs), rows("early.weight", 0, 3001));
  std::vector<std::uint8_t> others = rows("late.weight", 16, 1024);
  append(others, rows("levels.weight", 0, 700));
  append(others, rows("half.weight", 0, 40));
  append(others, rows("late.weight", 0, 5000));
  EXPECT_EQ(bytes_of_runs(*device_, loaded.others.runs), others);
  std::vector<std::uint8_t> heads;
  for (std::uint64_t i = 0; i < 5; ++i) append(heads, rows("blk.0.heads.weight", i * 24, 24));
  EXPECT_EQ(bytes_of_runs(*device_, loaded.heads.runs), heads);
  EXPECT_EQ(times.bytes, rows("early.weight", 0, 3001).size() + others.size() + heads.size());
  EXPECT_EQ(must(uploads.run()).bytes, 0u) << "nothing remains";
}

// 8 rows of a tensor and 8 of another in each panel; the last ones have fewer.
TEST_P(WeightUploadsTest, EveryPanelOfAPairIsAsItWouldBePackedAlone) {
  const GgufFile file = file_with();
  const Tensor* const tensor = must(file.tensor("late.weight"));
  constexpr std::uint32_t rows = 603, panels = 76;
  const PanelFormat format = format_of(tensor->type);
  const std::uint64_t bytes = backend_->panel_bytes(format, columns), before = 2 * bytes;
  std::vector<std::uint8_t> want;
  for (std::uint32_t i = 0; i < panels; ++i) {
    std::vector<std::byte> panel(bytes);
    const std::uint32_t count = i < 75 ? 8 : 3;
    backend_->pack_pair(format, {*tensor, 8 * i, count}, {*tensor, 1900 + 8 * i, count}, panel);
    const auto* const start = reinterpret_cast<const std::uint8_t*>(panel.data());
    want.insert(want.end(), start, start + bytes);
  }
  const Buffer out = must(device_->allocate(before + panels * bytes, "pairs"));
  WeightUploads uploads(*backend_, file, staged());
  // In two parts, as those of two buffers.
  constexpr std::uint32_t first = 400, first_panels = first / 8;
  uploads.add_pair({tensor, first, rows - first}, {tensor, 1900 + first, rows - first},
                   panels - first_panels, format, out, before + first_panels * bytes);
  uploads.add_pair({tensor, 0, first}, {tensor, 1900, first}, first_panels, format, out, before);
  EXPECT_EQ(must(uploads.run()).bytes, panels * bytes);
  auto got = testing::download<std::uint8_t>(*device_, out, out.size_bytes());
  got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_EQ(got, want);
}

TEST_P(WeightUploadsTest, TheFirstDamageInFileOrderIsReported) {
  struct Told {
    std::vector<Damage> damages;
    const char* message;
  };
  for (const Told& told : std::vector<Told>{
           {{{"early", 3000}}, "tensor \"early.weight\", row 3000, holds"},
           {{{"early", 0}, {"late", 4999}}, "tensor \"late.weight\", row 4999, holds"},
           {{{"late", 4000}, {"late", 4999}, {"half", 0}, {"early", 1}},
            "tensor \"late.weight\", row 4000, holds"},
           {{{"levels", 0}, {"blk.0.heads", 100}}, "tensor \"blk.0.heads.weight\", row 100, holds"},
           {{{"levels", 699}, {"early", 2999}}, "tensor \"early.weight\", row 2999, holds"}}) {
    const GgufFile file = file_with(told.damages);
    WeightUploads uploads(*backend_, file, staged());
    const Loaded loaded = load(*backend_, file, uploads);
    const auto done = uploads.run();
    ASSERT_FALSE(done) << told.message;
    EXPECT_EQ(done.error().code, Code::gguf_malformed);
    EXPECT_EQ(done.error().message,
              "uploads.gguf: " + std::string(told.message) + " a number that is not finite");
    EXPECT_EQ(done.error().hint, "the file is damaged: download or convert it again");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WeightUploadsTest,
                         ::testing::Combine(::testing::ValuesIn(testing::families()),
                                            ::testing::Bool(), ::testing::Values(1u, 2u, 7u)),
                         [](const auto& made) {
                           return std::get<0>(made.param) +
                                  (std::get<1>(made.param) ? "Staged" : "InPlace") +
                                  std::to_string(std::get<2>(made.param));
                         });

// Rows that are not finite. Both threads read before one of them fails; the one that waits fails
// long after the other.
class Damaged final : public RowSource {
 public:
  Damaged(const Damaged* const& other, bool waits) : other_(other), waits_(waits) {}
  void read(std::uint64_t, std::span<std::byte> out) const override {
    begun_ = true;
    while (!other_->begun_ || (waits_ && !other_->done_)) std::this_thread::yield();
    if (waits_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ranges::fill(out, std::byte{0xff});
    done_ = true;
  }

 private:
  const Damaged* const& other_;
  const bool waits_;
  mutable std::atomic<bool> begun_ = false, done_ = false;
};

TEST(WeightUploadsErrors, TheFirstDamageIsReportedWhoeverIsDoneFirst) {
  for (const bool first_waits : {true, false}) {
    const Damaged *first = nullptr, *second = nullptr;
    auto first_rows = std::make_unique<Damaged>(second, first_waits);
    auto second_rows = std::make_unique<Damaged>(first, !first_waits);
    first = first_rows.get();
    second = second_rows.get();
    MetadataWriter metadata;
    metadata.put("general.architecture", "llama");
    ModelPieces pieces;
    pieces.source = "damaged";
    pieces.metadata = metadata.finish();
    const std::vector<std::uint64_t> shape{columns, 32};
    pieces.tensors.push_back({"first.weight", TensorType::f32, shape, {}, std::move(first_rows)});
    pieces.tensors.push_back({"second.weight", TensorType::f32, shape, {}, std::move(second_rows)});
    const GgufFile file = must(GgufFile::assemble(std::move(pieces)));
    const auto device = open_device({.variant = "generic", .cores = 2});
    const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), MathMode::fast));
    WeightUploads uploads(*backend, file);
    const auto parts = std::to_array<MatrixPart>({{"second", 32}, {"first", 32}});
    const Projection both = must(load_projection(*backend, file, parts, columns, uploads));
    const auto done = uploads.run();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("\"first.weight\", row 0,"), std::string::npos)
        << done.error().message;
  }
}

// A device that refuses a write, here because it lies outside of the buffer.
TEST(WeightUploadsErrors, AWriteThatFailsEndsTheLoad) {
  const auto device = open_device({.variant = "generic", .cores = 3});
  const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), MathMode::fast));
  const GgufFile file = file_with();
  const Tensor* const tensor = must(file.tensor("late.weight"));
  const Buffer small = must(device->allocate(64, "a small buffer"));
  WeightUploads uploads(*backend, file, true);
  uploads.add({tensor, 0, 5000}, format_of(tensor->type), small, 0);
  const auto done = uploads.run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::device_error);
  EXPECT_NE(done.error().message.find("clEnqueueWriteBuffer"), std::string::npos)
      << done.error().message;
}

}  // namespace
}  // namespace millrace::engine
