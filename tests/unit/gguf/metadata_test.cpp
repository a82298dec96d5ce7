#include "engine/core/gguf/metadata.hpp"

#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::GgufFile;

class MetadataTest : public ::testing::Test {
 protected:
  MetadataTest() : file_(parse(tiny_file().build()).value()) {}
  const engine::Metadata& metadata() const { return file_.metadata(); }

 private:
  GgufFile file_;
};

TEST_F(MetadataTest, ReadsEachType) {
  const auto& m = metadata();
  EXPECT_EQ(m.get<std::uint32_t>("llama.block_count").value(), 2u);
  EXPECT_EQ(m.get<std::uint64_t>("llama.block_count").value(), 2u);
  EXPECT_EQ(m.get<std::int64_t>("test.i8").value(), -3);
  EXPECT_EQ(m.get<std::uint64_t>("test.u64").value(), 1ull << 40);
  EXPECT_EQ(m.get<float>("llama.rope.freq_base").value(), 10000.0f);
  EXPECT_EQ(m.get<double>("test.f64").value(), 0.1);
  EXPECT_TRUE(m.get<bool>("tokenizer.ggml.add_bos_token").value());
  EXPECT_EQ(m.get<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(m.get<std::vector<std::string_view>>("tokenizer.ggml.tokens").value(),
            (std::vector<std::string_view>{"a", "", "\xc4\xa0the"}));
  EXPECT_EQ(m.get<std::vector<std::int32_t>>("tokenizer.ggml.token_type").value(),
            (std::vector<std::int32_t>{1, 3, -1}));
  EXPECT_EQ(m.get<std::vector<float>>("tokenizer.ggml.scores").value(),
            (std::vector<float>{0.5f, -1.0f}));
}

TEST_F(MetadataTest, TellsAbsentFromWrong) {
  const auto& m = metadata();
  EXPECT_FALSE(m.find<std::uint32_t>("no.such.key").value().has_value());
  EXPECT_EQ(m.find<std::uint32_t>("llama.block_count").value(), 2u);
  EXPECT_EQ(m.get_or<float>("no.such.key", 2.5f).value(), 2.5f);
  EXPECT_FALSE(m.get<std::uint32_t>("no.such.key"));
  EXPECT_FALSE(m.find<float>("llama.block_count"));  // present with another type: an error
  EXPECT_FALSE(m.get_or<float>("llama.block_count", 1.0f));
  EXPECT_TRUE(m.contains("test.i8"));
  EXPECT_EQ(m.keys().front(), "general.architecture");
}

template <class T>
void expect_wrong(const engine::Metadata& metadata, std::string_view key, std::string_view found) {
  const auto value = metadata.get<T>(key);
  ASSERT_FALSE(value) << key;
  EXPECT_EQ(value.error().code, Code::gguf_malformed);
  EXPECT_NE(value.error().message.find(key), std::string::npos) << value.error().message;
  EXPECT_NE(value.error().message.find(found), std::string::npos) << value.error().message;
}

TEST_F(MetadataTest, RefusesAnotherType) {
  const auto& m = metadata();
  expect_wrong<std::uint32_t>(m, "general.architecture", "string");
  expect_wrong<std::uint32_t>(m, "test.u64", "u64");  // does not fit
  expect_wrong<std::uint32_t>(m, "test.i8", "i8");    // negative
  expect_wrong<std::uint32_t>(m, "tokenizer.ggml.add_bos_token", "bool");
  expect_wrong<bool>(m, "llama.block_count", "u32");
  expect_wrong<float>(m, "llama.block_count", "u32");
  expect_wrong<std::string_view>(m, "tokenizer.ggml.tokens", "array of 3 string");
  expect_wrong<std::vector<std::string_view>>(m, "general.architecture", "string");
  expect_wrong<std::vector<std::string_view>>(m, "tokenizer.ggml.scores", "array of 2 f32");
  expect_wrong<std::vector<std::uint32_t>>(m, "tokenizer.ggml.token_type", "array of 3 i32");
  expect_wrong<std::vector<float>>(m, "tokenizer.ggml.tokens", "array of 3 string");
  expect_wrong<std::vector<float>>(m, "llama.block_count", "u32");
}

}  // namespace
}  // namespace millrace::testing
