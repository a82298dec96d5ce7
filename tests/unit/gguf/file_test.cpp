#include "engine/core/gguf/file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::GgufFile;
using engine::Tensor;
using engine::TensorType;

std::string write_temporary(const std::string& name, const std::vector<std::byte>& bytes) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("millrace-gguf-" + std::to_string(::getpid()) + "-" + name);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

void expect_tiny(const GgufFile& file) {
  ASSERT_EQ(file.tensors().size(), 7u);
  const Tensor* weight = file.find_tensor("token_embd.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type, TensorType::q4_1);
  EXPECT_EQ(weight->rank, 2u);
  EXPECT_EQ(weight->shape, (std::array<std::uint64_t, 4>{64, 3, 1, 1}));
  EXPECT_EQ(weight->rows(), 3u);
  EXPECT_EQ(weight->row_bytes(), 40u);
  EXPECT_EQ(weight->offset % 32, 0u);
  const auto wanted = filled(120);
  EXPECT_TRUE(std::ranges::equal(weight->data, wanted));
  EXPECT_EQ(weight->data.data(), file.parts()[0]->view().data() + weight->offset);
  const Tensor* cube = file.find_tensor("blk.0.attn_q.weight");
  ASSERT_NE(cube, nullptr);
  EXPECT_EQ(cube->elements(), 128u);
  EXPECT_EQ(cube->data.size(), 136u);
}

TEST(GgufFile, ReadsBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    auto builder = tiny_file();
    builder.version = version;
    auto file = parse(builder.build());
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->alignment(), 32u);
    expect_tiny(*file);
  }
}

TEST(GgufFile, StaysValidWhenMoved) {
  auto file = parse(tiny_file().build());
  ASSERT_TRUE(file);
  const GgufFile moved = *std::move(file);
  expect_tiny(moved);
  EXPECT_EQ(moved.metadata().get<std::string_view>("general.architecture").value(), "llama");
}

TEST(GgufFile, HonoursTheAlignment) {
  GgufBuilder builder;
  builder.alignment = 256;
  builder.u32("general.alignment", 256)
      .tensor("a", {1}, 0, filled(4))
      .tensor("b", {2}, 0, filled(8));
  auto file = parse(builder.build());
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->tensors()[0].offset % 256, 0u);
  EXPECT_EQ(file->tensors()[1].offset, file->tensors()[0].offset + 256);
}

TEST(GgufFile, AcceptsAFileWithoutTensors) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  auto bytes = builder.build();
  bytes.resize(8 + 16 + 8 + 20 + 4 + 8 + 5);  // nothing after the last value, not even padding
  EXPECT_TRUE(parse(bytes));
}

TEST(GgufFile, NamesAnAbsentTensor) {
  auto file = parse(tiny_file().build());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find_tensor("nope"), nullptr);
  const auto tensor = file->tensor("nope");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, Code::gguf_malformed);
  EXPECT_NE(tensor.error().message.find("'nope'"), std::string::npos);
}

TEST(GgufFile, MapsAFileFromDisk) {
  const auto path = write_temporary("good", tiny_file().build());
  auto file = GgufFile::open(path);
  std::filesystem::remove(path);  // the mapping outlives the name
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->source(), path);
  expect_tiny(*file);
}

void expect_unreadable(const std::string& path, const std::string& part) {
  const auto file = GgufFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::gguf_unreadable);
  EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
  EXPECT_FALSE(file.error().hint.empty());
}

TEST(GgufFile, RefusesWhatCannotBeRead) {
  expect_unreadable("/no/such/model.gguf", "No such file");
  expect_unreadable(std::filesystem::temp_directory_path().string(), "not a regular file");
  const auto empty = write_temporary("empty", {});
  expect_unreadable(empty, "empty");
  std::filesystem::remove(empty);
  const auto pipe = empty + "-pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_unreadable(pipe, "not a regular file");  // and does not wait for a writer
  std::filesystem::remove(pipe);
}

TEST(GgufFile, RefusesOnePartOfASplitModel) {
  GgufBuilder builder;
  builder.scalar<std::uint16_t>("split.count", engine::ValueType::u16, 3)
      .scalar<std::uint16_t>("split.no", engine::ValueType::u16, 0)
      .scalar<std::int32_t>("split.tensors.count", engine::ValueType::i32, 7);
  expect_refused(builder.build(), Code::gguf_unreadable, {"part 1 of 3 of a split model"});
}

TEST(TensorType, TableNamesEveryType) {
  for (const auto type :
       {TensorType::f32,     TensorType::f16,    TensorType::bf16,   TensorType::q8_0,
        TensorType::q6_k,    TensorType::q5_0,   TensorType::q5_1,   TensorType::q5_k,
        TensorType::q4_0,    TensorType::q4_1,   TensorType::q4_k,   TensorType::q3_k,
        TensorType::q2_k,    TensorType::iq4_nl, TensorType::iq4_xs, TensorType::iq3_s,
        TensorType::iq3_xxs, TensorType::iq2_s,  TensorType::iq2_xs, TensorType::iq2_xxs,
        TensorType::mxfp4,   TensorType::nvfp4}) {
    EXPECT_EQ(engine::traits_of(type).type, type);
    EXPECT_NE(engine::supported_tensor_types().find(engine::traits_of(type).name),
              std::string::npos);
  }
  EXPECT_EQ(engine::tensor_type_name(12), "Q4_K");
  EXPECT_EQ(engine::tensor_type_name(19), "IQ1_S");
  EXPECT_EQ(engine::find_tensor_type(19), nullptr);
  EXPECT_EQ(engine::tensor_type_name(999), "type 999");
}

}  // namespace
}  // namespace millrace::testing
