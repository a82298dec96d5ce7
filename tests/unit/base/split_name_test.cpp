#include "schemas/base/split_name.hpp"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(SplitName, IsReadAndWritten) {
  const auto name = split_name("/models/a-b.Q4_K_M-00002-of-00012.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "/models/a-b.Q4_K_M");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 12u);
  EXPECT_EQ(name->part(2), "/models/a-b.Q4_K_M-00002-of-00012.gguf");
  EXPECT_EQ(name->part(12), "/models/a-b.Q4_K_M-00012-of-00012.gguf");
}

TEST(SplitName, OtherNamesAreNone) {
  for (const char* path :
       {"", "model.gguf", "model-00001-of-00003", "model-1-of-3.gguf", "model-00001-of-0003.gguf",
        "model-0000a-of-00003.gguf", "model00001-of-00003.gguf", "model-00001_of_00003.gguf",
        "model-00000-of-00003.gguf", "model-00004-of-00003.gguf", "of-00003.gguf",
        "model-00001-of-00003.GGUF"}) {
    EXPECT_FALSE(split_name(path)) << path;
  }
}

}  // namespace
}  // namespace millrace
