// Parses 20,000 damaged versions of one small file, the same ones on every run. Each is either read
// whole or refused, and all views stay inside the file. The asan build runs this, too.
#include <bit>
#include <random>

#include "engine/core/gguf/dequantize.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

// Damages the bytes in one to four places: a byte, a bit, an interesting integer, a cut, a repeat
// or a removal.
std::vector<std::byte> damaged(std::vector<std::byte> bytes, std::mt19937_64& random) {
  static constexpr std::uint64_t kInteresting[] = {
      0,          1,          2,          9,          31,         32,
      33,         255,        65536,      0x7fffffff, 0x80000000, 0xffffffff,
      1ull << 32, 1ull << 60, 1ull << 61, 1ull << 63, ~0ull - 7,  ~0ull};
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto damages = 1 + below(4);
  for (std::size_t i = 0; i < damages && bytes.size() > 16; ++i) {
    const auto at = below(bytes.size() - 8);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<std::byte>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<std::byte>(1u << below(8));
        break;
      case 2:
      case 3: {
        const auto value = kInteresting[below(std::size(kInteresting))];
        std::memcpy(bytes.data() + at, &value, below(2) == 0 ? 4 : 8);
        break;
      }
      case 4:
        bytes.resize(at);
        break;
      default: {
        const auto size = std::min<std::size_t>(1 + below(24), bytes.size() - at);
        const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        const std::vector<std::byte> piece(from, from + static_cast<std::ptrdiff_t>(size));
        if (below(2) == 0)
          bytes.insert(from, piece.begin(), piece.end());
        else
          bytes.erase(from, from + static_cast<std::ptrdiff_t>(size));
      }
    }
  }
  return bytes;
}

// Touches every byte that the file hands out, so that a sanitizer sees a wrong view.
std::uint64_t touch(const engine::GgufFile& file) {
  std::uint64_t sum = 0;
  const auto all = file.parts()[0]->view();
  const auto inside = [&all](std::span<const std::byte> view) {
    return view.data() >= all.data() && view.data() + view.size() <= all.data() + all.size();
  };
  for (const auto& tensor : file.tensors()) {
    EXPECT_TRUE(inside(tensor.data));
    EXPECT_EQ(tensor.row_bytes() * tensor.rows(), tensor.data.size());
    std::vector<float> out(tensor.elements());
    EXPECT_TRUE(engine::dequantize_rows(tensor, 0, tensor.rows(), out));
    for (const float value : out) sum += std::bit_cast<std::uint32_t>(value);
  }
  for (const auto key : file.metadata().keys()) {
    EXPECT_TRUE(inside(file.metadata().raw(key)->bytes));
    if (auto strings = file.metadata().get<std::vector<std::string_view>>(key))
      for (const auto text : *strings) sum += text.size() + (text.empty() ? 0 : text.back() & 1);
    if (auto numbers = file.metadata().get<std::vector<std::int32_t>>(key)) sum += numbers->size();
    if (auto number = file.metadata().get<std::uint64_t>(key)) sum += *number;
  }
  return sum;
}

TEST(GgufMutation, NeverACrash) {
  const auto good = tiny_file().build();
  std::mt19937_64 random(20260);
  int read = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto file = parse(damaged(good, random));
    if (file) {
      touch(*file);
      ++read;
    } else {
      EXPECT_NE(file.error().message.find("test.gguf"), std::string::npos);
      EXPECT_NE(file.error().code, Code::internal);
      ++refused;
    }
  }
  // Both must happen often, or the damage is too coarse or too fine to test anything.
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace millrace::testing
