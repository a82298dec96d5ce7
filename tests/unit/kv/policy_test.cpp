#include "engine/core/kv/policy.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::engine {
namespace {

const KvShape small(30, {3, 64});

KvPolicy policy(const std::string& text) {
  const auto parsed = parse_kv_policy(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : KvPolicy{};
}

KvLayers layers(const std::string& text, const KvShape& shape = small) {
  const auto resolved = resolve(policy(text), shape);
  EXPECT_TRUE(resolved) << text;
  return resolved ? *resolved : KvLayers{};
}

TEST(KvPolicy, NamesEveryCodecAsItIsWritten) {
  for (const char* name : {"f16", "f32", "q8g64", "q6g32", "q5g128", "q4g64", "q3g32", "q2g128",
                           "r2", "r3", "r4", "r5", "r6", "r8"}) {
    const auto codec = parse_kv_codec(name);
    ASSERT_TRUE(codec) << name;
    EXPECT_EQ(codec_name(*codec), name);
  }
}

TEST(KvPolicy, RefusesWhatIsNoCodec) {
  for (const char* name :
       {"",   "q",  "q8",  "q8g", "qg64", "q7g64", "q1g64", "q8g16",  "q8g064",  "r",
        "r1", "r7", "r04", "r9",  "f8",   "f64",   "f032",  "q8g64 ", "r4:unit", "Q8g64"}) {
    const auto codec = parse_kv_codec(name);
    ASSERT_FALSE(codec) << name;
    EXPECT_EQ(codec.error().code, Code::invalid_value);
    EXPECT_NE(codec.error().message.find('"' + std::string(name) + '"'), std::string::npos);
    EXPECT_NE(codec.error().hint.find("g128"), std::string::npos);
  }
}

TEST(KvPolicy, TakesPresetsPairsAndSingleCodecs) {
  EXPECT_EQ(policy("f16").name(), "f16/f16");
  EXPECT_EQ(policy("f32").name(), "f32/f32");
  EXPECT_EQ(policy("f32/r4").name(), "f32/r4");
  EXPECT_EQ(policy("q8").name(), "q8g64/q8g64");
  EXPECT_EQ(policy("k8v4").name(), "q8g64/r4");
  EXPECT_EQ(policy("k6v4").name(), "r6/r4");
  EXPECT_EQ(policy("k5v3").name(), "r5/r3");
  EXPECT_EQ(policy("k4v3").name(), "r4/r3");
  EXPECT_EQ(policy("q4").name(), "q4g64/q4g64");
  EXPECT_EQ(policy("turboquant-4").name(), "r4/r4");
  EXPECT_EQ(policy("turboquant-3.5").name(), "r3/r4");
  EXPECT_EQ(policy("r6").name(), "r6/r6");
  EXPECT_EQ(policy("q8g32/f16").name(), "q8g32/f16");
  EXPECT_EQ(policy("r4/r4~2,1").name(), "r4/r4~2,1");
  EXPECT_EQ(policy("k5v3~0,3").name(), "r5/r3~0,3");
  for (const KvPreset& preset : kv_presets()) {
    EXPECT_EQ(policy(std::string(preset.name)).name(), preset.policy);
  }
}

TEST(KvPolicy, RefusesWhatIsNoPolicyAndListsPresets) {
  for (const char* text : {"", "k9v4", "q8/r4", "r4/", "/r4", "r4/r4/r4", "r4/r4~2", "r4/r4~a,b",
                           "r4/r4~", "r4/r4~2,2,2", "r4/r4~-1,0"}) {
    const auto parsed = parse_kv_policy(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::invalid_value) << text;
  }
  EXPECT_NE(parse_kv_policy("k9v4").error().hint.find("turboquant-3.5"), std::string::npos);
}

TEST(KvPolicy, HasOneNameForWhatMeansTheSame) {
  const auto name = [](const char* text) { return canonical_kv(text).value_or("refused"); };
  for (const char* text : {"k5v3", "r5/r3", "r5/r3~0,0", "k5v3+first:0"}) {
    EXPECT_EQ(name(text), "r5/r3") << text;
  }
  EXPECT_EQ(name("f16"), "f16/f16");
  EXPECT_EQ(name("r6"), "r6/r6");
  EXPECT_EQ(name("k5v3+last:1+first:2+layer:9+layer:5+layer:9+none"),
            "r5/r3~2,1+layer:5+layer:9+none");
  EXPECT_EQ(name(layers("k5v3~1,2").name(small).c_str()), "f16/f16 x1, r5/r3 x27, f16/f16 x2");
  for (const char* text : {"f16+none", "f16~2,2", "f16+layer:5+none", "f16/f16~1,0"}) {
    EXPECT_EQ(name(text), "f16/f16") << text;
  }
  for (const char* text : {"f32", "f32/f32", "f32+none", "f32~2,2", "f32/f32+layer:5+none"}) {
    EXPECT_EQ(name(text), "f32/f32") << text;
  }
  EXPECT_EQ(name("f16/f32~2,2"), "f16/f32");
  EXPECT_EQ(name("f32/r3~2,2"), "f32/r3~2,2");
  EXPECT_EQ(name("f32/f32 x1, f32/f32 x29"), "f32/f32 x30");
  EXPECT_EQ(kv_display_name("f32/f32"), "f32");
  EXPECT_EQ(name("f16/r3~2,2"), "f16/r3~2,2");
  for (const char* text : {"k5v3~3,0", "k5v3~3,0+layer:0", "k5v3~2,0+layer:2+layer:1",
                           "r5/r3+layer:1+layer:0+layer:2"}) {
    EXPECT_EQ(name(text), "r5/r3~3,0") << text;
  }
  EXPECT_EQ(name("k5v3~0,1+layer:1"), "r5/r3~0,1+layer:1");
  EXPECT_EQ(name("r5/r3 x1, r5/r3 x28, r5/r3 x1"), "r5/r3 x30");
  EXPECT_EQ(name("f16/f16 x1, r5/r3 x2, r5/r3 x3, f16/f16 x1"), "f16/f16 x1, r5/r3 x5, f16/f16 x1");
  for (const char* text : {"", "k9v4", "auto", "r5/r3 x", "r5/r3 x0", "k5v3 x30",
                           "r5/r3 x3,r4/r4 x1", "r5/r3 x3, ", " x3"}) {
    ASSERT_FALSE(canonical_kv(text)) << text;
    EXPECT_EQ(canonical_kv(text).error().code, Code::invalid_value);
  }
  EXPECT_EQ(name("r5/r3 x30, keys centered by 0ab9"), "r5/r3 x30, keys centered by 0ab9");
  EXPECT_EQ(name("r5/r3 x1, r5/r3 x29, keys centered by 0ab9"), "r5/r3 x30, keys centered by 0ab9");
  EXPECT_FALSE(canonical_kv("r5/r3 x30, keys centered by "));
  EXPECT_FALSE(canonical_kv("k5v3, keys centered by 0ab9"));
  EXPECT_EQ(kv_display_name("r5/r3"), "k5v3");
  EXPECT_EQ(kv_display_name("r5/r3~1,0"), "r5/r3~1,0");
}

TEST(KvPolicy, ProtectsLayersAtTheEndsAndByNumber) {
  EXPECT_EQ(layers("r5/r3").name(small), "r5/r3 x30");
  EXPECT_EQ(layers("r5/r3~2,1").name(small), "f16/f16 x2, r5/r3 x27, f16/f16 x1");
  KvPolicy some = policy("k5v3");
  const auto ends = parse_kv_protection("first:1,last:2");
  ASSERT_TRUE(ends);
  some.protection = *ends;
  some.protection.layers = {5, 0};
  const auto resolved = resolve(some, small);
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->name(small), "f16/f16 x1, r5/r3 x4, f16/f16 x1, r5/r3 x22, f16/f16 x2");
  EXPECT_EQ(layers("r4~15,15").name(small), "f16/f16 x30");
  EXPECT_EQ(layers("r4~30,30").name(small), "f16/f16 x30");
  EXPECT_EQ(layers("f32~2,2").name(small),
            "f32/f32 x30");  // protection stores nothing less exactly
  EXPECT_EQ(layers("f32/r4~1,0").name(small), "f32/f16 x1, f32/r4 x29");
}

TEST(KvPolicy, ReadsAndRefusesProtection) {
  EXPECT_EQ(parse_kv_protection("auto"), KvProtection{});
  EXPECT_TRUE(KvProtection{}.automatic);
  EXPECT_EQ(parse_kv_protection("none")->name(), "+none");
  EXPECT_EQ(parse_kv_protection("last:3")->name(), "~0,3");
  EXPECT_EQ(parse_kv_protection("first:2,none,layer:7,layer:5")->name(),
            "~2,0+layer:5+layer:7+none");
  for (const char* text : {"", "2,2", "first", "first:", "first:x", "middle:2", "first:1,", ",",
                           "first:-1", "layer", "layer:", "none:1", "auto,first:1"}) {
    const auto parsed = parse_kv_protection(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::invalid_value);
    EXPECT_NE(parsed.error().hint.find("first:2,last:2"), std::string::npos);
  }
  // The same at the end of a policy, and back.
  EXPECT_EQ(policy("k5v3+none").name(), "r5/r3+none");
  EXPECT_EQ(policy("k5v3+first:1+last:2").name(), "r5/r3~1,2");
  EXPECT_EQ(policy("r4~2,2+layer:5+none"), policy(policy("r4~2,2+layer:5+none").name()));
  EXPECT_EQ(layers("r4/r3+layer:1").name(small), "r4/r3 x1, f16/f16 x1, r4/r3 x28");
  for (const char* text : {"k5v3+", "k5v3+none+", "k5v3+ends", "k5v3+first:2,last:2", "+none"}) {
    EXPECT_FALSE(parse_kv_policy(text)) << text;
  }
  EXPECT_NE(parse_kv_policy("k5v3+first:2,last:2").error().hint.find("first:2+last:2"),
            std::string::npos);
  EXPECT_EQ(resolve(policy("r4~31,0"), small).error().code, Code::invalid_value);
  EXPECT_EQ(resolve(policy("r4~99,0+layer:5+none"), small).error().message,
            "--kv-protect first:99,layer:5,none: the model has 30 layers, numbered from 0");
  EXPECT_EQ(policy("r4~0,2").protection.option(), "last:2");
  EXPECT_EQ(policy("r4").protection.option(), "auto");
  KvPolicy beyond = policy("r4");
  beyond.protection.layers = {30};
  EXPECT_EQ(resolve(beyond, small).error().code, Code::invalid_value);
}

// A key of 576 channels, 512 of which are the value.
TEST(KvPolicy, ValuesThatAreChannelsOfKeysAreNotStored) {
  const KvShape latent(27, {1, 576, true});
  for (const auto& [name, bytes] : {std::pair("f16", 2), std::pair("f32", 4)}) {
    const KvLayers stored = layers(name, latent);
    EXPECT_EQ(stored.name(latent), std::string(name) + "/key x27");
    EXPECT_EQ(stored.bytes_per_token(latent), 27.0 * 576 * bytes);
    EXPECT_EQ(layer_page_bytes(stored.layers[0], latent.layers[0]), 16u * 576 * bytes);
    // As results name it.
    EXPECT_EQ(canonical_kv(stored.name(latent)).value_or("refused"), stored.name(latent));
    EXPECT_EQ(layers(std::string(name) + "/key", latent), stored);
  }
  EXPECT_EQ(layers("f16", latent).compression(latent), 1.0);
  EXPECT_EQ(layers("f32", latent).compression(latent), 0.5);
  EXPECT_EQ(policy("f16/key").name(), "f16/key");
}

TEST(KvPolicy, OneCodecStoresKeysAndTheValuesInThem) {
  const KvShape latent(2, {1, 128, true});
  for (const char* text : {"q8", "q8g32", "r4", "f16/q8g64", "q8g64/f16", "f16/f32", "q8g64/key"}) {
    const auto refused = resolve(policy(text), latent);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::unsupported_field);
    EXPECT_NE(refused.error().message.find("one codec stores both"), std::string::npos) << text;
    EXPECT_NE(refused.error().hint.find("use f16"), std::string::npos) << text;
  }
  const auto other = resolve(policy("f16/key"), small);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::unsupported_field);
  EXPECT_NE(other.error().message.find("no part of its keys"), std::string::npos);
  EXPECT_FALSE(parse_kv_policy("key"));
  EXPECT_FALSE(parse_kv_policy("key/f16"));
  EXPECT_FALSE(check_centering(latent));
  EXPECT_EQ(check_centering(latent).error().code, Code::unsupported_field);
  EXPECT_TRUE(check_centering(small));
}

// As of mamba2. Engines and results name a policy, and say how much smaller it is.
TEST(KvPolicy, ModelsWithoutKeysTakeAnyPolicyAndNoMeans) {
  const KvShape none(4, {});
  for (const char* name : {"f16/f16", "q8g64/r4"}) {
    const KvLayers stored = layers(name, none);
    EXPECT_EQ(stored.name(none), "f16/f16");
    EXPECT_EQ(canonical_kv(stored.name(none)).value_or("refused"), "f16/f16");
    EXPECT_EQ(stored.bytes_per_token(none), 0.0);
    EXPECT_EQ(stored.compression(none), 1.0);
  }
  ASSERT_FALSE(check_centering(none));
  EXPECT_EQ(check_centering(none).error().code, Code::unsupported_field);
  EXPECT_NE(check_centering(none).error().message.find("no layer"), std::string::npos);
}

TEST(KvPolicy, RefusesHeadsThatACodecCannotStoreAndSaysWhy) {
  struct Case {
    const char* policy;
    std::uint32_t head_dim;
    const char* reason;  // null: taken
  };
  for (const Case& c : std::initializer_list<Case>{{"f16", 80, nullptr},
                                                   {"f32", 80, nullptr},
                                                   {"f32", 32, nullptr},
                                                   {"f32/r4", 96, "power"},
                                                   {"f16", 96, nullptr},
                                                   {"q8g32", 96, nullptr},
                                                   {"q8g64", 128, nullptr},
                                                   {"q8g128", 256, nullptr},
                                                   {"r4", 512, nullptr},
                                                   {"r5/r3", 256, nullptr},
                                                   {"q8g64", 80, "64, 96"},
                                                   {"r4", 80, "64, 96"},
                                                   {"q8g32", 32, "64, 96"},
                                                   {"r4", 96, "power of two"},
                                                   {"q8g64", 96, "divide"},
                                                   {"q4g128", 64, "divide"},
                                                   {"f16/r4", 96, "power"},
                                                   {"q8g64/r4", 192, "64, 96"}}) {
    const auto resolved = resolve(policy(c.policy), KvShape(2, {1, c.head_dim}));
    EXPECT_EQ(resolved.has_value(), c.reason == nullptr) << c.policy << ", " << c.head_dim;
    if (resolved || c.reason == nullptr) continue;
    EXPECT_EQ(resolved.error().code, Code::unsupported_field);
    EXPECT_NE(resolved.error().message.find(c.reason), std::string::npos)
        << resolved.error().message;
  }
}

// Figures of the reference's measurements.
TEST(KvPolicy, TakesTheBytesOfItsDefinition) {
  struct Case {
    const char* policy;
    double bytes, compression;
  };
  for (const Case& c : std::initializer_list<Case>{{"f16", 23040, 1},
                                                   {"f32", 46080, 0.5},
                                                   {"f32/f16", 34560, 0.67},
                                                   {"q8", 12240, 1.88},
                                                   {"r8", 11880, 1.94},
                                                   {"k8v4", 9180, 2.51},
                                                   {"k6v4", 7560, 3.05},
                                                   {"k5v3", 6120, 3.76},
                                                   {"k4v3", 5400, 4.27},
                                                   {"q4", 6480, 3.56},
                                                   {"q4g32", 7200, 3.20},
                                                   {"r4/r4~2,2", 8376, 2.75},
                                                   {"r2", 3240, 7.11}}) {
    EXPECT_DOUBLE_EQ(layers(c.policy).bytes_per_token(small), c.bytes) << c.policy;
    EXPECT_NEAR(layers(c.policy).compression(small), c.compression, 0.006) << c.policy;
  }
}

TEST(KvPolicy, RoundsPagesUpToCacheLinesAndNoMore) {
  for (const KvPreset& preset : kv_presets()) {
    const KvLayers all = layers(std::string(preset.name));
    const double defined = all.bytes_per_token(small) * kv_page_tokens / small.count();
    const auto page = static_cast<double>(layer_page_bytes(all.layers[0], {3, 64}));
    EXPECT_GE(page, defined);
    EXPECT_LT(page, defined * 1.01) << preset.name;
  }
}

TEST(KvPolicy, LayersMayDifferInHeadsAndStoreNothing) {
  const KvShape shape({{2, 64}, {}, {1, 128}, {2, 64}});
  const KvLayers mixed = layers("k4v3~0,1", shape);
  EXPECT_EQ(mixed.name(shape), "r4/r3 x2, f16/f16 x1");
  EXPECT_EQ(mixed.layers[1], KvCodecs{});
  // Of a head of 64 channels r4 takes 34 bytes and r3 26, of 128 channels 66 and 50.
  EXPECT_DOUBLE_EQ(mixed.bytes_per_token(shape), 2 * (34 + 26) + (66 + 50) + 2 * 2 * 128);
  EXPECT_DOUBLE_EQ(mixed.compression(shape), 4.0 * (128 + 128 + 128) / (120 + 116 + 512));
  // A codec must fit the heads of each layer that stores any.
  EXPECT_TRUE(resolve(policy("r4"), KvShape({{1, 64}, {}})));
  const auto refused = resolve(policy("r4"), KvShape({{1, 64}, {1, 80}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported_field);
}

std::uint64_t tokens_in_a_gibibyte(const std::string& text) {
  std::uint64_t page = 0;
  for (const KvCodecs& codecs : layers(text).layers) page += layer_page_bytes(codecs, {3, 64});
  return (1ull << 30) / page * kv_page_tokens;
}

TEST(KvPolicy, FitsTheTokensOfItsFormulaIntoAGibibyte) {
  struct Case {
    const char* policy;
    double least;  // times f16's tokens
  };
  const auto halves = static_cast<double>(tokens_in_a_gibibyte("f16"));
  for (const Case& c : std::initializer_list<Case>{{"f16", 1},
                                                   {"f32", 0.5},
                                                   {"q8", 1.85},
                                                   {"k8v4", 2.45},
                                                   {"k6v4", 3.0},
                                                   {"k5v3", 3.7},
                                                   {"k4v3", 4.2}}) {
    const auto tokens = static_cast<double>(tokens_in_a_gibibyte(c.policy));
    const double formula = 0x1p30 / layers(c.policy).bytes_per_token(small);
    EXPECT_NEAR(tokens, formula, formula * 0.02) << c.policy;
    EXPECT_GE(tokens, halves * c.least) << c.policy;
  }
}

}  // namespace
}  // namespace millrace::engine
