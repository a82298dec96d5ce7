#include "engine/core/hub/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

namespace millrace::engine {
namespace {

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> out(sizeof length + length + data_bytes);
  std::memcpy(out.data(), &length, sizeof length);
  std::ranges::copy(std::as_bytes(std::span(header)), out.begin() + sizeof length);
  for (std::size_t i = 0; i < data_bytes; ++i) {
    out[out.size() - data_bytes + i] = static_cast<std::byte>(i);
  }
  return out;
}

const std::string good = R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";

void expect_damaged(const std::vector<std::byte>& bytes, const std::string& what) {
  const auto read = parse_safetensors(bytes, "x.safetensors");
  ASSERT_FALSE(read) << what;
  EXPECT_EQ(read.error().code, Code::folder_malformed);
  EXPECT_NE(read.error().message.find(what), std::string::npos) << read.error().message;
  EXPECT_NE(read.error().message.find("x.safetensors"), std::string::npos);
}

void expect_damaged(const std::string& header, std::size_t data_bytes, const std::string& what) {
  expect_damaged(file_of(header, data_bytes), what);
}

TEST(Safetensors, ReadsTensors) {
  const auto bytes = file_of(good, 16);
  const auto read = parse_safetensors(bytes, "x.safetensors");
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->size(), 2u);
  const HubTensor& matrix = read->at("b");
  EXPECT_EQ(matrix.type, HubType::bf16);
  EXPECT_EQ(matrix.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(matrix.elements(), 6u);
  EXPECT_EQ(matrix.data.front(), std::byte{4});
  EXPECT_EQ(read->at("a").elements(), 1u);
}

TEST(Safetensors, RefusesDamagedHeaders) {
  expect_damaged(std::vector<std::byte>(7), "shorter than a header's length");
  auto cut = file_of(good, 16);
  cut.resize(20);
  expect_damaged(cut, "the header claims");
  auto huge = file_of(good, 16);
  std::ranges::fill_n(huge.begin(), 8, std::byte{0xff});
  expect_damaged(huge, "the header claims");
  expect_damaged("[1]", 0, "not a JSON object");
  expect_damaged("{\"a\":", 0, "not a JSON object");
  const std::string one = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_damaged("{" + one + "," + one + "}", 4, "appears twice");
}

TEST(Safetensors, RefusesDamagedTensors) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  expect_damaged(entry("\"F32\"", "[1]", "[0]"), 4, "lacks its dtype, shape or data_offsets");
  expect_damaged(entry("\"F32\"", "[-1]", "[0,4]"), 4, "lacks its dtype, shape or data_offsets");
  expect_damaged(entry("7", "[1]", "[0,4]"), 4, "lacks its dtype, shape or data_offsets");
  expect_damaged(R"({"a":3})", 4, "lacks its dtype, shape or data_offsets");
  expect_damaged(entry("\"F3\"", "[1]", "[0,4]"), 4, "unknown dtype F3");
  expect_damaged(entry("\"F32\"", "[2]", "[0,8]"), 4, "cut short");
  expect_damaged(entry("\"F32\"", "[1]", "[4,0]"), 4, "cut short");
  expect_damaged(entry("\"F32\"", "[2]", "[0,4]"), 4, "which its shape and dtype do not need");
  expect_damaged(entry("\"F32\"", "[4611686018427387904,4]", "[0,4]"), 4,
                 "which its shape and dtype do not need");
  expect_damaged(entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4,
                 "which its shape and dtype do not need");
}

TEST(Safetensors, RefusesGapsAndOverlaps) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  expect_damaged(two("[0,4]", "[2,6]"), 8, "overlap or leave a gap at byte 4");
  expect_damaged(two("[0,4]", "[6,10]"), 10, "overlap or leave a gap at byte 4");
  expect_damaged(two("[0,4]", "[4,8]"), 9, "1 bytes after the last tensor");
}

// Whatever bytes change, the reader answers, and tensors lie within the file.
TEST(Safetensors, SurvivesChangedBytes) {
  const auto original = file_of(good, 16);
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    for (int change = 0; change <= round % 3; ++change) {
      bytes[random() % (original.size() - 16)] = static_cast<std::byte>(random());
    }
    const auto read = parse_safetensors(bytes, "x");
    if (!read) continue;
    for (const auto& [name, tensor] : *read) {
      ASSERT_GE(tensor.data.data(), bytes.data());
      ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
    }
  }
}

}  // namespace
}  // namespace millrace::engine
