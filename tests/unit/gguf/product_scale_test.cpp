#include "engine/core/gguf/product_scale.hpp"

#include <limits>

#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

// A file with two matrices of 32 x 2 in "a.weight", and "a.scale" with these factors.
engine::GgufFile file_of(const std::vector<float>& factors, std::uint32_t type = 0) {
  GgufBuilder builder;
  builder.tensor("a.weight", {32, 2, 2}, 8, filled(4 * 34)).tensor("norm", {8}, 0, filled(32));
  if (!factors.empty()) {
    builder.tensor("a.scale", {type == 0 ? factors.size() : 2 * factors.size()}, type,
                   std::as_bytes(std::span(factors)));
  }
  return parse(builder.build()).value();
}

Result<std::vector<float>> scales(const engine::GgufFile& file, std::string_view name) {
  return engine::product_scales(file, *file.find_tensor(name));
}

TEST(ProductScale, OneForEachMatrixOrOneForAll) {
  EXPECT_EQ(scales(file_of({0.5f, -3}), "a.weight").value(), (std::vector<float>{0.5f, -3}));
  EXPECT_EQ(scales(file_of({0.25f}), "a.weight").value(), (std::vector<float>{0.25f, 0.25f}));
  EXPECT_TRUE(scales(file_of({}), "a.weight").value().empty());
  EXPECT_TRUE(scales(file_of({2}), "norm").value().empty());
}

TEST(ProductScale, RefusesWhatIsNoFactor) {
  const auto expect = [](const engine::GgufFile& file, const char* what) {
    const auto refused = scales(file, "a.weight");
    ASSERT_FALSE(refused) << what;
    EXPECT_EQ(refused.error().code, Code::gguf_malformed);
    EXPECT_NE(refused.error().message.find(std::string("tensor 'a.scale' ") + what),
              std::string::npos)
        << refused.error().text();
  };
  expect(file_of({1, 2, 3}), "has 3 factors for 2 matrices");
  expect(file_of({1, std::numeric_limits<float>::infinity()}), "holds a number that is not finite");
  expect(file_of({1}, 1), "is F16, not F32");
}

}  // namespace
}  // namespace millrace::testing
