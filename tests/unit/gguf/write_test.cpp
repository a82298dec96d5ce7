// The head of a file that GgufHead lays out, read back by the parser and beside the test's builder.
#include "engine/core/gguf/write.hpp"

#include "engine/core/gguf/cursor.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::GgufFile;
using engine::GgufHead;
using engine::GgufLayout;
using engine::TensorType;

// Writes the file anew: its pairs and tensors with the bytes that they have.
std::vector<std::byte> written_again(const GgufFile& file) {
  GgufHead head;
  for (const auto key : file.metadata().keys()) head.add(key, *file.metadata().raw(key));
  for (const auto& tensor : file.tensors())
    head.add_tensor(tensor.name, tensor.type, {tensor.shape.data(), tensor.rank});
  const GgufLayout layout = head.finish(file.alignment());
  std::vector<std::byte> bytes(layout.file_bytes);
  std::memcpy(bytes.data(), layout.head.data(), layout.head.size());
  for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
    const auto data = file.tensors()[i].data;
    std::memcpy(&bytes[layout.offsets[i]], data.data(), data.size());
  }
  return bytes;
}

// All value types: the builder's file has most, these are the others.
GgufBuilder every_value() {
  using engine::ValueType;
  GgufBuilder builder = tiny_file();
  builder.scalar<std::uint8_t>("test.u8", ValueType::u8, 200)
      .scalar<std::uint16_t>("test.u16", ValueType::u16, 60000)
      .scalar<std::int16_t>("test.i16", ValueType::i16, -30000)
      .scalar<std::int32_t>("test.i32", ValueType::i32, -3)
      .scalar<std::int64_t>("test.i64", ValueType::i64, -(1ll << 40))
      .string("test.empty", "")
      .array<std::uint8_t>("test.bools", ValueType::boolean, {1, 0, 1})
      .array<double>("test.f64s", ValueType::f64, {})
      .strings("test.none", {});
  return builder;
}

void expect_the_builders_bytes(const GgufBuilder& builder) {
  const auto before = builder.build();
  const auto file = parse(before);
  ASSERT_TRUE(file) << file.error().text();
  auto after = written_again(*file);
  ASSERT_GE(after.size(), before.size());
  EXPECT_EQ(after.size() % file->alignment(), 0u);  // the last tensor is padded, too
  after.resize(before.size());
  EXPECT_TRUE(after == before);
}

TEST(GgufHead, WritesEveryTypeOfValueAndOfTensorAsItWas) {
  expect_the_builders_bytes(every_value());
}

TEST(GgufHead, AlignsTensorsAsTheFileSays) {
  for (const std::uint32_t alignment : {8u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.u32("general.alignment", alignment)
        .tensor("a", {3}, 0, filled(12))
        .tensor("b", {32, 3}, 8, filled(102))
        .tensor("c", {1, 2, 3, 4}, 1, filled(48));
    expect_the_builders_bytes(builder);
  }
}

TEST(GgufHead, WritesNumbersOfItsOwn) {
  GgufHead head;
  head.add("general.file_type", 15u);
  const std::string bytes = head.finish(32).head;
  const auto* const from = reinterpret_cast<const std::byte*>(bytes.data());
  const auto file = parse({from, from + bytes.size()});
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->metadata().get<std::uint32_t>("general.file_type"), 15u);
  EXPECT_TRUE(file->tensors().empty());
}

TEST(TensorBytes, CountsWholeBlocksOfEachRow) {
  const std::uint64_t rows[] = {512, 3, 2};
  EXPECT_EQ(engine::tensor_bytes(TensorType::q4_k, rows), 2u * 144 * 6);
  EXPECT_EQ(engine::tensor_bytes(TensorType::f16, {rows, 1}), 1024u);
}

}  // namespace
}  // namespace millrace::testing
