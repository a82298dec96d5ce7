#pragma once
// Helpers of the GGUF tests: one good tiny file, and expectations on refusals.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "tests/support/gguf_builder.hpp"

namespace millrace::testing {

inline std::vector<std::byte> filled(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

inline GgufBuilder tiny_file() {
  using engine::ValueType;
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .f32("llama.rope.freq_base", 10000.0f)
      .boolean("tokenizer.ggml.add_bos_token", true)
      .scalar<std::int8_t>("test.i8", ValueType::i8, -3)
      .scalar<std::uint64_t>("test.u64", ValueType::u64, 1ull << 40)
      .scalar<double>("test.f64", ValueType::f64, 0.1)
      .strings("tokenizer.ggml.tokens", {"a", "", "\xc4\xa0the"})
      .array<std::int32_t>("tokenizer.ggml.token_type", ValueType::i32, {1, 3, -1})
      .array<float>("tokenizer.ggml.scores", ValueType::f32, {0.5f, -1.0f})
      .tensor("token_embd.weight", {64, 3}, 3, filled(2 * 3 * 20))
      .tensor("output_norm.weight", {5}, 0, filled(20))
      .tensor("blk.0.attn_q.weight", {32, 2, 2}, 8, filled(4 * 34))
      .tensor("blk.0.attn_k.weight", {32, 2}, 6, filled(2 * 22))
      .tensor("blk.0.attn_v.weight", {32, 1}, 20, filled(18))
      .tensor("blk.0.ffn_down.weight", {256, 1}, 12, filled(144))
      .tensor("blk.0.ffn_up.weight", {256, 1}, 14, filled(210));
  return builder;
}

inline Result<engine::GgufFile> parse(std::vector<std::byte> bytes) {
  return engine::GgufFile::parse(engine::bytes_of(std::move(bytes)), "test.gguf");
}

// Expects that the file is refused with this code, and that the message holds all of these parts.
inline void expect_refused(std::vector<std::byte> bytes, Code code,
                           const std::vector<std::string>& parts) {
  const auto file = parse(std::move(bytes));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, code) << file.error().text();
  for (const auto& part : parts)
    EXPECT_NE(file.error().message.find(part), std::string::npos)
        << "wanted '" << part << "' in: " << file.error().message;
  EXPECT_TRUE(file.error().message.starts_with("test.gguf: ")) << file.error().message;
  EXPECT_FALSE(file.error().hint.empty());
}

}  // namespace millrace::testing
