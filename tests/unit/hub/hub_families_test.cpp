#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/families/family.hpp"
#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/hub_name.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {
namespace {

const std::string classes[] = {"LlamaForCausalLM",
                               "GptOssForCausalLM",
                               "Gemma3ForCausalLM",
                               "Mistral3ForConditionalGeneration",
                               "Cohere2ForCausalLM",
                               "Qwen3_5MoeForCausalLM",
                               "Gemma4ForConditionalGeneration",
                               "Mamba2ForCausalLM",
                               "DeepseekV3ForCausalLM"};

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

TEST(HubFamilies, AClassMayBeSeveralArchitectures) {
  constexpr struct {
    std::string_view class_name, variant, architecture;
  } variants[] = {
      {"Mistral3ForConditionalGeneration", "mistral4", "mistral4"},
      {"NemotronHForCausalLM", "", "nemotron_h"},
      {"NemotronHForCausalLM", "experts", "nemotron_h_moe"},
      {"GraniteMoeHybridForCausalLM", "", "granitehybrid"},
      {"GraniteMoeHybridForCausalLM", "experts", "granitehybrid"},
      {"GraniteMoeHybridForCausalLM", "attention", "granite"},
      {"GraniteMoeHybridForCausalLM", "attention experts", "granitemoe"},
  };
  for (const auto& [class_name, variant, architecture] : variants) {
    const HubFamily* const family = find_hub_family(class_name, variant);
    ASSERT_NE(family, nullptr) << class_name << " " << variant;
    EXPECT_EQ(family->architecture, architecture);
    EXPECT_NE(find_family(architecture), nullptr);
    EXPECT_TRUE(Settings::parse(family->defaults, std::string(class_name)));
    // Settings are made uniform before the variant is known.
    const HubFamily* const first = find_hub_family(class_name);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->layer_kinds, family->layer_kinds);
    EXPECT_EQ(first->settings.data(), family->settings.data());
  }
  EXPECT_EQ(find_hub_family("LlamaForCausalLM", "experts"), nullptr);
}

TEST(HubNames, AreSplit) {
  const HubName expert = split_hub_name("model.language_model.layers.12.mlp.experts.3.up.weight");
  EXPECT_EQ(expert.layer, 12u);
  EXPECT_EQ(expert.expert, 3u);
  EXPECT_EQ(expert.stem, "mlp.experts.*.up");
  EXPECT_EQ(expert.ending, ".weight");
  const HubName outside = split_hub_name("backbone.norm_f.weight");
  EXPECT_FALSE(outside.layer);
  EXPECT_EQ(outside.stem, "norm_f");
  EXPECT_EQ(split_hub_name("backbone.layers.0.mixer.A_log").stem, "mixer.A_log");
  for (const char* const name : {"model.visual.blocks.0.norm1.weight", "mtp.fc.weight",
                                 "model.audio_tower.layers.0.x", "model.embed_vision.y"}) {
    EXPECT_TRUE(is_unused(name)) << name;
  }
  EXPECT_FALSE(is_unused("model.embed_tokens.weight"));
}

TEST(Settings, InfinityMayBeInAList) {
  const auto bare = Settings::parse(R"({"a": [0.0, Infinity], "b": "Infinity \" Infinity"})", "x");
  ASSERT_TRUE(bare);
  const auto limits = bare->get<std::vector<double>>("a");
  ASSERT_TRUE(limits);
  EXPECT_TRUE(std::isinf(limits->at(1)));
  EXPECT_EQ(bare->get<std::string>("b").value(), "Infinity \" Infinity");
  const auto object = Settings::parse(R"({"a": [{"__float__": "Infinity"}], "b": Infinity})", "x");
  ASSERT_TRUE(object);
  EXPECT_TRUE(std::isinf(object->get<std::vector<double>>("a")->at(0)));
  EXPECT_FALSE(object->get<double>("b"));  // a number must be finite
  EXPECT_FALSE(Settings::parse(R"({"a": Infinit})", "x"));
}

}  // namespace
}  // namespace millrace::engine
