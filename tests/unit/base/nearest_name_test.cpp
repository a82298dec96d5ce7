#include "schemas/base/nearest_name.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

const std::vector<std::string> names = {"model", "model-name", "kv",  "kv-memory",
                                        "input", "output",     "math"};

TEST(NearestName, IsTheOneThatNeedsTheFewestErrors) {
  EXPECT_EQ(nearest_name("modle", names), "model");          // exchanged
  EXPECT_EQ(nearest_name("mdel", names), "model");           // missing
  EXPECT_EQ(nearest_name("inputt", names), "input");         // too many
  EXPECT_EQ(nearest_name("oatput", names), "output");        // wrong
  EXPECT_EQ(nearest_name("kv_memroy", names), "kv-memory");  // two of them
  EXPECT_EQ(nearest_name("model", names), "model");
}

TEST(NearestName, IsNotGuessed) {
  EXPECT_EQ(nearest_name("temperature", names), std::nullopt);
  EXPECT_EQ(nearest_name("k", names), std::nullopt);   // one error of one letter
  EXPECT_EQ(nearest_name("mo", names), std::nullopt);  // far shorter
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name("model", {}), std::nullopt);
  const std::vector<std::string> alike = {"keep", "kept"};
  EXPECT_EQ(nearest_name("keet", alike), std::nullopt);  // one error from both
  EXPECT_EQ(nearest_names("keet", alike), alike);
  EXPECT_EQ(did_you_mean("keet", alike), "did you mean keep or kept? ");
  EXPECT_EQ(did_you_mean("temperature", alike), "");
}

}  // namespace
}  // namespace millrace
