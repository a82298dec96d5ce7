// Whole models in math int8.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::must;
using testing::open_device;
using testing::TinyModel;

ModelOptions small(MathMode math) {
  return {.kv_bytes = 4 << 20, .step_tokens = 64, .step_outputs = 64, .math = math};
}

TEST(Int8, OtherFamiliesRefuseIt) {
  const GgufFile file = TinyModel{}.file();
  for (const std::string& variant : testing::families()) {
    if (variant == "nvidia") continue;
    const auto device = open_device({.variant = variant});
    const auto loaded = Model::load(*device, file, small(MathMode::int8));
    ASSERT_FALSE(loaded.has_value()) << variant;
    EXPECT_EQ(loaded.error().code, Code::invalid_value);
    EXPECT_NE(loaded.error().message.find("--math int8 needs an NVIDIA GPU"), std::string::npos);
    EXPECT_NE(loaded.error().message.find(device->info().name), std::string::npos);
    EXPECT_EQ(device->allocated_bytes(), 0u);  // before anything takes time or memory
  }
}

TEST(Int8, ResultsAndCachesHaveAFingerprintOfTheirOwn) {
  const GgufFile file = TinyModel{}.file();
  const auto device = open_device({.variant = "nvidia"});
  const auto fingerprint = [&](MathMode math) {
    return must(Model::load(*device, file, small(math)))->info().fingerprint;
  };
  EXPECT_NE(fingerprint(MathMode::int8), fingerprint(MathMode::fast));
}

TEST(Int8, EachModeHasAName) {
  for (const MathMode math : {MathMode::exact, MathMode::fast, MathMode::int8}) {
    EXPECT_EQ(find_math(math_name(math)), math);
  }
  EXPECT_EQ(find_math("int4"), std::nullopt);
}

}  // namespace
}  // namespace millrace::engine
