#include <gtest/gtest.h>

#include "engine/core/families/family.hpp"
#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {
namespace {

const std::string classes[] = {"LlamaForCausalLM", "GptOssForCausalLM", "Gemma3ForCausalLM",
                               "Mistral3ForConditionalGeneration", "Cohere2ForCausalLM"};

TEST(HubFamilies, NamesArchitecturesOfTheEngine) {
  const std::string all = supported_hub_classes();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(", ", at), all.size());
    const std::string name = all.substr(at, end - at);
    const HubFamily* const family = find_hub_family(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_NE(find_family(family->architecture), nullptr) << family->architecture;
    EXPECT_TRUE(Settings::parse(family->defaults, name)) << name;
    at = end + 2;
  }
  for (const std::string& name : classes) EXPECT_NE(find_hub_family(name), nullptr) << name;
  EXPECT_EQ(find_hub_family("NoSuchForCausalLM"), nullptr);
}

}  // namespace
}  // namespace millrace::engine
