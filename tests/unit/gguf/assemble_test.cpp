#include <gtest/gtest.h>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/gguf/metadata_writer.hpp"

namespace millrace::engine {
namespace {

// Row r of two columns holds r and -r.
class Counting final : public RowSource {
 public:
  void read(std::uint64_t first, std::span<std::byte> out) const override {
    for (std::size_t i = 0; i * 8 < out.size(); ++i) {
      const auto row = static_cast<float>(first + i);
      const float values[] = {row, -row};
      std::ranges::copy(std::as_bytes(std::span(values)), out.begin() + i * 8);
    }
  }
};

ModelPieces pieces() {
  MetadataWriter metadata;
  metadata.put("a.number", std::uint32_t{7});
  metadata.put("a.negative", std::int32_t{-7});
  metadata.put("a.fraction", 0.5f);
  metadata.put("a.flag", true);
  metadata.put("a.text", "words");
  metadata.put("a.flags", std::vector<bool>{true, false});
  const std::vector<std::string> texts{"one", "", "three"};
  metadata.put("a.texts", std::span<const std::string>(texts));
  const std::vector<float> numbers{1.5f, -2.0f};
  metadata.put("a.numbers", std::span<const float>(numbers));
  ModelPieces out;
  out.source = "a model";
  out.metadata = metadata.finish();
  const auto bytes = std::as_bytes(std::span(numbers));
  out.parts.push_back(bytes_of({bytes.begin(), bytes.end()}));
  out.tensors.push_back({.name = "in place",
                         .type = TensorType::f32,
                         .shape = {2},
                         .data = out.parts[0]->view(),
                         .rows = nullptr});
  out.tensors.push_back({.name = "made",
                         .type = TensorType::f32,
                         .shape = {2, 3, 2},
                         .data = {},
                         .rows = std::make_unique<Counting>()});
  return out;
}

TEST(Assemble, KeepsMetadataAndTensors) {
  auto made = GgufFile::assemble(pieces());
  ASSERT_TRUE(made) << made.error().text();
  const GgufFile file = *std::move(made);  // names and sources move along
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.get<std::uint32_t>("a.number"), 7u);
  EXPECT_EQ(metadata.get<std::int64_t>("a.negative"), -7);
  EXPECT_EQ(metadata.get<float>("a.fraction"), 0.5f);
  EXPECT_EQ(metadata.get<bool>("a.flag"), true);
  EXPECT_EQ(metadata.get<std::string_view>("a.text"), "words");
  EXPECT_EQ(metadata.raw("a.flags")->count, 2u);
  EXPECT_EQ(metadata.get<std::vector<std::string_view>>("a.texts"),
            (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(metadata.get<std::vector<float>>("a.numbers"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(file.parts().size(), 2u);  // the metadata, then the part given
  EXPECT_EQ(file.source(), "a model");
  std::vector<float> values(2);
  ASSERT_TRUE(dequantize_rows(**file.tensor("in place"), 0, 1, values));
  EXPECT_EQ(values, (std::vector<float>{1.5f, -2.0f}));
}

TEST(Assemble, MakesRowsWhereTheyAreRead) {
  const GgufFile file = *GgufFile::assemble(pieces());
  const Tensor& made = **file.tensor("made");
  EXPECT_EQ(made.rows(), 6u);
  EXPECT_EQ(made.row_bytes(), 8u);
  EXPECT_EQ(made.size_bytes(), 48u);
  EXPECT_TRUE(made.data.empty());
  std::vector<float> values(4);
  ASSERT_TRUE(dequantize_rows(made, 3, 2, values));
  EXPECT_EQ(values, (std::vector<float>{3, -3, 4, -4}));
  EXPECT_FALSE(dequantize_rows(made, 5, 2, values));  // it has no seventh row
  EXPECT_EQ(find_row_not_finite(made, 0, 6), std::nullopt);
  const Tensor second = made.slice(3, 2);
  EXPECT_EQ(second.rank, 2u);
  EXPECT_EQ(second.rows(), 2u);
  ASSERT_TRUE(dequantize_rows(second.slice(1, 1), 0, 1, std::span(values).first(2)));
  EXPECT_EQ(values[0], 4.0f);
}

TEST(Assemble, RefusesATensorThatIsThereTwice) {
  ModelPieces twice = pieces();
  twice.tensors[1].name = "in place";
  const auto made = GgufFile::assemble(std::move(twice));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::gguf_malformed);
  EXPECT_NE(made.error().message.find("'in place' twice"), std::string::npos);
}

TEST(Assemble, RefusesAKeyThatIsThereTwice) {
  MetadataWriter metadata;
  metadata.put("a.key", true);
  metadata.put("a.key", false);
  ModelPieces with;
  with.metadata = metadata.finish();
  EXPECT_FALSE(GgufFile::assemble(std::move(with)));
}

}  // namespace
}  // namespace millrace::engine
