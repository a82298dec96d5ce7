// Tests the codec against the golden vectors, whose bytes another implementation made
// (schemas/tools/generate.py).
#include "tests/unit/schemas/vectors.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "schemas/base/base64.hpp"
#include "schemas/describe.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;

const std::string folder = MILLRACE_SOURCE_DIR "/schemas/";

std::string file_bytes(const std::string& path) {
  std::ifstream in(folder + path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// Compares the bytes, in which NaN equals NaN, and the members.
TEST(Vectors, JobsBothWays) {
  for (const auto& [name, job] : vectors::jobs()) {
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode_job(job), bytes) << name;
    const auto decoded = decode_job(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(decoded->job, job) << name;
    EXPECT_TRUE(decoded->warnings.empty());
  }
}

TEST(Vectors, ResultsBothWays) {
  for (const auto& [name, result] : vectors::results()) {
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode_result(result), bytes) << name;
    const auto decoded = decode_result(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(encode_result(*decoded), bytes) << name;
    EXPECT_EQ(decoded->state, result.state);
    EXPECT_EQ(decoded->error, result.error);
    EXPECT_EQ(decoded->metadata, result.metadata);
  }
}

TEST(Vectors, NanAndInfinityKeepTheirBits) {
  const auto decoded = decode_result(file_bytes("vectors/result-completed.msgpack")).value();
  const TokenLogprobs& prompt = *decoded.result->prompt_logprobs;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(prompt.token[0]), 0x7FC00000u);
  EXPECT_EQ(decoded.result->choices[0].logprobs->top_logprobs[3],
            -std::numeric_limits<float>::infinity());
}

TEST(Vectors, EveryMessageBothWays) {
  const std::vector<Envelope> expected = vectors::envelopes();
  ASSERT_EQ(expected.size(), message_kinds.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string name(message_kinds[i].name);
    EXPECT_EQ(kind_name(expected[i].message), name);
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode(expected[i]), bytes) << name;
    const auto decoded = decode_envelope(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(decoded->id, expected[i].id);
    EXPECT_EQ(decoded->message, expected[i].message) << name;
    EXPECT_EQ(peek_id(bytes), expected[i].id);
  }
}

TEST(Vectors, WhatMustBeRefusedIs) {
  const Json refused = Json::parse(file_bytes("vectors/must-refuse.json"));
  ASSERT_GT(refused.size(), 30u);
  for (const Json& entry : refused) {
    const std::string bytes = base64_decode(entry["bytes"].get<std::string>()).value();
    const auto decoded = decode_envelope(bytes);
    ASSERT_FALSE(decoded) << entry["what"];
    EXPECT_EQ(code_name(decoded.error().code), entry["code"].get<std::string>()) << entry["what"];
    EXPECT_FALSE(decoded.error().message.empty());
  }
}

}  // namespace
}  // namespace millrace
