// Bounds the cost of KV policies on the test model: mean KL divergence from fp16 KV, in fp32
// activations, over the reference's two contexts of 1,024 tokens. fp16 KV itself is within 1e-5 of
// the reference (test_fidelity.py): a fortieth of the gates of q8 and r8, and under a hundredth of
// the others. Also tests the gain of centered keys, with the mean keys of another text, over the
// first context and over one of 4,096 tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/fidelity/calibrate.hpp"
#include "engine/core/fidelity/measure.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "tests/support/device.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {
namespace {

using testing::must;

struct Gate {
  const char* policy;
  double mean_kld;
};

class KvFidelity : public ::testing::TestWithParam<Gate> {};

Tokens context_tokens(const std::string& name) {
  const std::string text = testing_support::reference_text("contexts/" + name + ".json");
  return nlohmann::json::parse(text).at("tokens").get<Tokens>();
}

// Computes mean keys from a text that Debian's perl-doc installs and that no test measures.
KeyMeans calibrated(Device& device, const GgufFile& file) {
  std::ifstream pod("/usr/share/perl/5.36.0/pod/perlop.pod");
  if (!pod) testing_support::missing("perlop.pod of Debian's perl-doc");
  const std::string text{std::istreambuf_iterator<char>(pod), {}};
  const Tokens ids = must(Tokenizer::load(file.metadata())).tokenize(text, {});
  return must(
      calibrate_keys(device, file, must(cut_contexts(ids, {.size = 1024, .most = 8}, 49152)), {}));
}

struct Centered {
  const char* policy;
  double of_uncentered;  // at most this share of the uncentered KLD is left
  MathMode math = MathMode::fast;
  const char* context = "perl";
  std::uint32_t size = 512;  // the context's first tokens
  double mean_kld = 1;       // at most
};

class CenteredKeys : public ::testing::TestWithParam<Centered> {};

TEST_P(CenteredKeys, AreCloserAtTheSameSize) {
  const auto device = testing::open_device();
  const GgufFile file = must(GgufFile::open(testing_support::model_path()));
  Tokens tokens = context_tokens(GetParam().context);
  ASSERT_GE(tokens.size(), GetParam().size);
  tokens.resize(GetParam().size);
  const FidelityContexts contexts =
      must(cut_contexts(tokens, {.size = GetParam().size, .all_scored = true}, 49152));
  const KvPolicy policy = must(parse_kv_policy(GetParam().policy));
  FidelityOptions options{.math = GetParam().math};
  const PolicyFidelity plain =
      must(must(FidelityRun::open(*device, file, contexts, options, nullptr))->measure(policy));
  options.key_means = calibrated(*device, file);
  const PolicyFidelity centered =
      must(must(FidelityRun::open(*device, file, contexts, options, nullptr))->measure(policy));
  EXPECT_EQ(centered.bytes_per_token, plain.bytes_per_token);
  EXPECT_NE(centered.fingerprint, plain.fingerprint);
  EXPECT_LT(centered.against_f16.mean_kld, GetParam().of_uncentered * plain.against_f16.mean_kld);
  EXPECT_LT(centered.against_f16.mean_kld, GetParam().mean_kld);
  std::printf("%s, %s: mean KLD %.3g, centered %.3g\n", GetParam().policy, GetParam().context,
              plain.against_f16.mean_kld, centered.against_f16.mean_kld);
}

TEST_P(KvFidelity, StaysWithinItsGate) {
  const auto device = testing::open_device();
  const GgufFile file = must(GgufFile::open(testing_support::model_path()));
  Tokens tokens = context_tokens("perl");
  const Tokens chat = context_tokens("chat");
  tokens.insert(tokens.end(), chat.begin(), chat.end());
  ASSERT_EQ(tokens.size(), 2048u);
  const FidelityContexts contexts =
      must(cut_contexts(tokens, {.size = 1024, .all_scored = true}, 49152));
  const auto run =
      must(FidelityRun::open(*device, file, contexts, {.math = MathMode::exact}, nullptr));
  const PolicyFidelity cost = must(run->measure(must(parse_kv_policy(GetParam().policy))));
  EXPECT_GT(cost.against_f16.mean_kld, GetParam().mean_kld / 10);  // the policy was in use
  const KvPolicy policy = must(parse_kv_policy(GetParam().policy));
  EXPECT_EQ(cost.layers, policy.codecs.name() + " x30");  // this model's keys have no outliers
  EXPECT_LT(cost.against_f16.mean_kld, GetParam().mean_kld);
  RecordProperty("mean_kld", std::to_string(cost.against_f16.mean_kld));
  std::printf("%s: mean KLD %.3g\n", GetParam().policy, cost.against_f16.mean_kld);
}

const auto name_of = [](const auto& gate) {
  std::string out = gate.param.policy;
  std::ranges::replace_if(
      out, [](char c) { return c == '-' || c == '.'; }, '_');
  return out;
};

INSTANTIATE_TEST_SUITE_P(Slice, KvFidelity,
                         ::testing::Values(Gate{"k8v4", .0095}, Gate{"k5v3", .06},
                                           Gate{"k4v3", .115}),
                         name_of);
const auto name_with_context = [](const auto& centered) {
  return std::string(centered.param.policy) + "_" + centered.param.context;
};

INSTANTIATE_TEST_SUITE_P(Slice, CenteredKeys, ::testing::Values(Centered{"k4v3", .75}),
                         name_with_context);
// The limits of the long context lie a fifth above the figures of kernels/kv/README.md, which are
// accurate to 7 %.
INSTANTIATE_TEST_SUITE_P(
    DISABLED_Long, CenteredKeys,
    ::testing::Values(Centered{"k5v3", .9, MathMode::fast, "perl", 1024},
                      Centered{"r4", .75, MathMode::fast, "perl", 1024},
                      Centered{"q4", .75, MathMode::fast, "perl", 1024},
                      Centered{"k5v3", .9, MathMode::exact, "long", 4096, .036},
                      Centered{"k4v3", .75, MathMode::exact, "long", 4096, .062}),
    name_with_context);
INSTANTIATE_TEST_SUITE_P(DISABLED_Long, KvFidelity,
                         ::testing::Values(Gate{"q8", .00065}, Gate{"r8", .0004},
                                           Gate{"k6v4", .014}, Gate{"r4", .095}, Gate{"q4", .175},
                                           Gate{"turboquant-3.5", .32}),
                         name_of);

}  // namespace
}  // namespace millrace::engine
