// The ways to stretch a context, as files state them.
#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::SmallFile;

RopeSpec rope_of(const SmallFile& file) {
  return file.spec().layers.front().attention.rope;
}

TEST(ReadRope, ALinearFactorCountsWithAndWithoutItsKind) {
  EXPECT_EQ(rope_of(SmallFile("llama")).linear_factor, 1.0);
  const auto factor = [](const char* key, float value, const char* kind) {
    SmallFile file("llama");
    file.f32(key, value);
    if (kind != nullptr) file.text("rope.scaling.type", kind);
    return rope_of(file).linear_factor;
  };
  EXPECT_EQ(factor("rope.scaling.factor", 4.0f, nullptr), 4.0);
  EXPECT_EQ(factor("rope.scale_linear", 2.0f, nullptr), 2.0);
  EXPECT_EQ(factor("rope.scaling.factor", 0.0f, nullptr), 1.0);
  EXPECT_EQ(factor("rope.scaling.factor", 4.0f, "linear"), 4.0);
  EXPECT_EQ(factor("rope.scaling.factor", 4.0f, "none"), 1.0);
}

TEST(ReadRope, Llama3sDivisorsAreATensor) {
  const std::vector<float> divisors{1.0f, 1.0f, 1.5f, 2.0f, 3.0f, 8.0f, 8.0f, 8.0f};
  const RopeSpec rope = rope_of(SmallFile("llama").tensor("rope_freqs.weight", {8}, divisors));
  EXPECT_EQ(rope.divisors, divisors);
  EXPECT_EQ(rope.amplitude, 1.0);
}

SmallFile yarn(const std::string& architecture = "llama") {
  SmallFile file(architecture);
  file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 32.0f);
  file.u32("rope.scaling.original_context_length", 256);
  return file;
}

TEST(ReadRope, YarnHasDefaults) {
  const RopeSpec rope = rope_of(yarn());
  EXPECT_TRUE(rope.yarn == (Yarn{.factor = 32.0, .original_tokens = 256.0}));
  EXPECT_EQ(rope.yarn->beta_fast, 32.0);
  EXPECT_EQ(rope.yarn->beta_slow, 1.0);
  EXPECT_TRUE(rope.yarn->rounds_range);
  EXPECT_EQ(rope.linear_factor, 1.0);
  EXPECT_NEAR(rope.amplitude, 1.3466, 5e-5);
  SmallFile whole = yarn();
  whole.without_key("rope.scaling.original_context_length");
  EXPECT_EQ(rope_of(whole).yarn->original_tokens, 1024.0);  // the context
}

TEST(ReadRope, YarnsAmplitudeHasThreeKeys) {
  const double a = 0.1 * std::log(32.0) + 1.0, half = 0.05 * std::log(32.0) + 1.0;
  const auto amplitude = [](const char* key, float value) {
    return rope_of(yarn().f32(key, value)).amplitude;
  };
  EXPECT_NEAR(amplitude("rope.scaling.yarn_log_multiplier", 1.0f), 1.0, 1e-15);
  EXPECT_NEAR(amplitude("rope.scaling.yarn_log_multiplier", 0.5f), a / half, 1e-15);
  EXPECT_NEAR(amplitude("rope.scaling.yarn_log_multiplier", 0.0f), a, 1e-15);
  EXPECT_NEAR(amplitude("rope.scaling.attn_factor", 0.5f), a * 0.5, 1e-15);
  EXPECT_EQ(amplitude("rope.scaling.yarn_attn_factor", 1.25f), 1.25);
  EXPECT_EQ(rope_of(yarn().f32("rope.scaling.factor", 1.0f)).amplitude, 1.0);
}

SmallFile longrope(std::uint32_t context, std::uint32_t original) {
  SmallFile file("phi3");
  file.u32("context_length", context).u32("rope.scaling.original_context_length", original);
  file.tensor("rope_factors_short.weight", {8}, std::vector<float>(8, 1.25f));
  file.tensor("rope_factors_long.weight", {8}, std::vector<float>(8, 20.0f));
  return file;
}

TEST(ReadRope, LongropeChoosesByTheModelsContext) {
  const RopeSpec stretched = rope_of(longrope(131072, 4096));
  EXPECT_EQ(stretched.divisors, std::vector<float>(8, 20.0f));
  EXPECT_NEAR(stretched.amplitude, std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-15);
  EXPECT_NEAR(stretched.amplitude, 1.1902, 5e-5);
  const RopeSpec whole = rope_of(longrope(4096, 4096));
  EXPECT_EQ(whole.divisors, std::vector<float>(8, 1.25f));
  EXPECT_EQ(whole.amplitude, 1.0);
}

TEST(ReadRope, LongropeTakesTheAmplitudeOfItsFileAndItsKind) {
  SmallFile file = longrope(131072, 4096);
  file.f32("rope.scaling.attn_factor", 1.5f).text("rope.scaling.type", "longrope");
  EXPECT_EQ(rope_of(file).amplitude, 1.5);
  EXPECT_EQ(rope_of(file).divisors, std::vector<float>(8, 20.0f));
}

TEST(ReadRope, ALocalBaseIsTheOtherLayersWithoutItsKey) {
  SmallFile file("gpt-oss");
  file.u32("attention.sliding_window", 128).f32("rope.freq_base", 150000.0f);
  file.u32("expert_count", 8).u32("expert_used_count", 2).remove({"ffn_norm"});
  file.remove({"ffn_gate", "ffn_up", "ffn_down"}).add({"attn_sinks", "post_attention_norm"});
  file.add({"ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"});
  EXPECT_EQ(file.spec().layers[0].attention.rope.base, 150000.0);
  EXPECT_EQ(file.spec().layers[1].attention.rope.base, 150000.0);
  file.f32("rope.freq_base_swa", 5000.0f);
  EXPECT_EQ(file.spec().layers[0].attention.rope.base, 5000.0);
  EXPECT_EQ(file.spec().layers[1].attention.rope.base, 150000.0);
}

}  // namespace
}  // namespace millrace::engine
