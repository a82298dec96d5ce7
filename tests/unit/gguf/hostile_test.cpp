// Every way in which a header can be wrong, one by one. Each is refused with the place and the
// reason.
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::ValueType;

constexpr std::uint64_t kHuge = ~0ull;

template <class T>
std::vector<std::byte> patched(std::vector<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

// The bytes of a pair up to its value.
std::vector<std::byte> pair_head(std::string_view key, std::uint32_t type) {
  std::vector<std::byte> bytes;
  GgufBuilder::append_string(bytes, key);
  GgufBuilder::append(bytes, type);
  return bytes;
}

std::vector<std::byte> with_raw_pair(const std::vector<std::byte>& pair) {
  GgufBuilder builder;
  builder.raw_pair_bytes(pair).pair_count = 1;
  return builder.build();
}

TEST(HostileGguf, Header) {
  const auto good = tiny_file().build();
  expect_refused(patched(good, 0, 0x46554746u), Code::gguf_malformed, {"at byte 0", "'GGUF'"});
  expect_refused({std::byte{'G'}}, Code::gguf_malformed, {"at byte 0", "magic", "1 left"});
  expect_refused(patched(good, 4, 1u), Code::gguf_version, {"at byte 4", "version 1"});
  expect_refused(patched(good, 4, 4u), Code::gguf_version, {"at byte 4", "version 4"});
  expect_refused(patched(good, 4, 0u), Code::gguf_version, {"version 0"});
  expect_refused(patched(good, 4, 0x03000000u), Code::gguf_version, {"big-endian"});
  expect_refused(patched(good, 8, kHuge), Code::gguf_malformed, {"at byte 8", "tensors"});
  expect_refused(patched(good, 16, kHuge), Code::gguf_malformed, {"at byte 16", "metadata pairs"});
  // The header claims one pair too many: the first tensor's entry parses as a pair, and then the
  // next bytes do not parse as a tensor.
  expect_refused(patched<std::uint64_t>(good, 16, 11), Code::gguf_malformed, {"tensor number 0"});
}

TEST(HostileGguf, EveryTruncation) {
  const auto good = tiny_file().build();
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto file = parse({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    ASSERT_FALSE(file) << "cut to " << size << " of " << good.size();
    ASSERT_EQ(file.error().code, Code::gguf_malformed);
  }
}

TEST(HostileGguf, Keys) {
  expect_refused(with_raw_pair(pair_head("", 4)), Code::gguf_malformed,
                 {"metadata pair 0", "empty"});
  expect_refused(with_raw_pair(pair_head("bad\nkey", 4)), Code::gguf_malformed,
                 {"bad\\x0akey", "not ASCII"});
  std::vector<std::byte> bomb;
  GgufBuilder::append(bomb, kHuge);
  bomb.resize(32);
  expect_refused(with_raw_pair(bomb), Code::gguf_malformed, {"at byte 24", "the key claims"});
  GgufBuilder twice;
  twice.u32("a.b", 1).u32("a.b", 2);
  expect_refused(twice.build(), Code::gguf_malformed, {"'a.b'", "twice"});
}

TEST(HostileGguf, Values) {
  auto pair = pair_head("k", 13);
  pair.resize(64);
  expect_refused(with_raw_pair(pair), Code::gguf_malformed, {"'k'", "value type 13"});
  pair = pair_head("k", 8);
  GgufBuilder::append(pair, kHuge - 4);
  expect_refused(with_raw_pair(pair), Code::gguf_malformed, {"'k'", "the string needs"});
  pair = pair_head("k", 7);
  pair.resize(pair.size() + 16, std::byte{2});
  expect_refused(with_raw_pair(pair), Code::gguf_malformed, {"'k'", "a bool holds 2"});
  GgufBuilder array;
  array.array<std::uint8_t>("flags", ValueType::boolean, {0, 1, 7});
  expect_refused(array.build(), Code::gguf_malformed, {"'flags'", "a bool holds 7"});
}

TEST(HostileGguf, Arrays) {
  const auto array_pair = [](std::uint32_t element, std::uint64_t count, std::size_t payload) {
    auto pair = pair_head("k", 9);
    GgufBuilder::append(pair, element);
    GgufBuilder::append(pair, count);
    pair.resize(pair.size() + payload);
    return with_raw_pair(pair);
  };
  expect_refused(array_pair(9, 1, 32), Code::gguf_malformed, {"'k'", "arrays of arrays"});
  expect_refused(array_pair(77, 1, 32), Code::gguf_malformed, {"'k'", "element type 77"});
  expect_refused(array_pair(10, kHuge / 8 + 2, 32), Code::gguf_malformed,
                 {"'k'", "the array claims"});
  expect_refused(array_pair(0, 1ull << 27, 16), Code::gguf_malformed, {"the array claims"});
  expect_refused(array_pair(8, 1ull << 32, 64), Code::gguf_malformed, {"the array claims"});
  auto strings = pair_head("k", 9);
  GgufBuilder::append<std::uint32_t>(strings, 8);
  GgufBuilder::append<std::uint64_t>(strings, 2);
  GgufBuilder::append_string(strings, "fine");
  GgufBuilder::append(strings, kHuge);
  expect_refused(with_raw_pair(strings), Code::gguf_malformed, {"'k'", "string 1 of the array"});
}

TEST(HostileGguf, Alignment) {
  for (const std::uint32_t alignment : {0u, 1u, 4u, 33u, 1u << 21}) {
    GgufBuilder builder;
    builder.u32("general.alignment", alignment);
    expect_refused(builder.build(), Code::gguf_malformed,
                   {"general.alignment", std::to_string(alignment)});
  }
  GgufBuilder builder;
  builder.scalar<std::uint64_t>("general.alignment", ValueType::u64, 32);
  expect_refused(builder.build(), Code::gguf_malformed, {"general.alignment", "u64"});
}

std::vector<std::byte> one_tensor(const std::vector<std::uint64_t>& shape, std::uint32_t type,
                                  std::size_t bytes, std::int64_t offset = -1,
                                  std::string_view name = "w") {
  GgufBuilder builder;
  builder.tensor(name, shape, type, filled(bytes), offset);
  return builder.build();
}

TEST(HostileGguf, TensorShapes) {
  expect_refused(one_tensor({}, 0, 64), Code::gguf_malformed, {"tensor 'w'", "0 dimensions"});
  expect_refused(one_tensor({1, 1, 1, 1, 1}, 0, 64), Code::gguf_malformed, {"5 dimensions"});
  expect_refused(one_tensor({4, 0}, 0, 64), Code::gguf_malformed, {"dimension 1 is zero"});
  expect_refused(one_tensor({33}, 2, 64), Code::gguf_malformed,
                 {"'w'", "33", "Q4_0", "block of 32"});
  // 576 is a multiple of 32, but not of 256.
  for (const auto& [type, name] :
       {std::pair{12u, "Q4_K"}, std::pair{13u, "Q5_K"}, std::pair{14u, "Q6_K"}}) {
    expect_refused(one_tensor({576, 2}, type, 4096), Code::gguf_malformed,
                   {"'w'", "576", name, "block of 256"});
  }
  for (const std::uint32_t type : {6u, 7u, 20u, 39u}) {
    expect_refused(one_tensor({48}, type, 256), Code::gguf_malformed, {"'w'", "48", "block of 32"});
  }
  expect_refused(one_tensor({1ull << 32, 1ull << 32}, 0, 64), Code::gguf_malformed,
                 {"more bytes than the file has"});  // the product wraps to 0
  expect_refused(one_tensor({1ull << 62, 4}, 0, 64), Code::gguf_malformed, {"more bytes"});
  expect_refused(one_tensor({kHuge}, 0, 64), Code::gguf_malformed, {"more bytes"});
}

TEST(HostileGguf, TensorTypes) {
  expect_refused(one_tensor({256}, 19, 256), Code::unsupported_tensor_type,
                 {"tensor 'w'", "IQ1_S", "at byte"});
  expect_refused(one_tensor({256}, 4, 256), Code::unsupported_tensor_type, {"'w'", "type 4"});
  expect_refused(one_tensor({256}, 0xffffffff, 256), Code::unsupported_tensor_type,
                 {"type 4294967295"});
}

TEST(HostileGguf, TensorPlaces) {
  expect_refused(one_tensor({8}, 0, 32, 8), Code::gguf_malformed,
                 {"'w'", "offset 8", "multiple of the alignment 32"});
  expect_refused(one_tensor({8}, 0, 32, 32), Code::gguf_malformed, {"'w'", "cut short"});
  expect_refused(one_tensor({8}, 0, 31), Code::gguf_malformed, {"'w'", "cut short"});
  expect_refused(one_tensor({8}, 0, 32, std::int64_t{1} << 62), Code::gguf_malformed,
                 {"'w'", "cut short"});
  GgufBuilder overlap;
  overlap.tensor("first", {16}, 0, filled(64)).tensor("second", {8}, 0, filled(32), 32);
  expect_refused(overlap.build(), Code::gguf_malformed,
                 {"tensor 'second'", "overlaps tensor 'first'"});
}

TEST(HostileGguf, TensorNames) {
  GgufBuilder twice;
  twice.tensor("w", {8}, 0, filled(32)).tensor("w", {8}, 0, filled(32));
  expect_refused(twice.build(), Code::gguf_malformed, {"tensor 'w'", "twice"});
  expect_refused(one_tensor({8}, 0, 32, -1, ""), Code::gguf_malformed, {"the name is empty"});
  expect_refused(one_tensor({8}, 0, 32, -1, std::string(256, 'n')), Code::gguf_malformed,
                 {"tensor number 0", "claims 256 bytes"});
  // Whatever bytes a name has, the message is one printable line.
  const auto file = parse(one_tensor({}, 0, 32, -1, "a\x1b[31m\n\xff"));
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("a\\x1b[31m\\x0a\\xff"), std::string::npos);
}

}  // namespace
}  // namespace millrace::testing
