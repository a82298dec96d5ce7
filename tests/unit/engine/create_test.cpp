// The errors of Engine::create, EngineInfo, and how many tokens the KV memory holds.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/engine.hpp"
#include "engine/core/kv/kv_cache.hpp"
#include "schemas/base/log.hpp"
#include "tests/support/device.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {
namespace {

EngineOptions options() {
  EngineOptions out;
  out.model_path = testing_support::model_path();
  out.kv_memory_bytes = 32 * limits::MiB;
  return out;
}

void expect_refused(const EngineOptions& options, Code code, const std::string& says) {
  const auto engine = Engine::create(options);
  ASSERT_FALSE(engine) << says;
  EXPECT_EQ(engine.error().code, code) << engine.error().text();
  EXPECT_NE(engine.error().message.find(says), std::string::npos) << engine.error().text();
  EXPECT_FALSE(engine.error().hint.empty()) << engine.error().text();
}

TEST(EngineCreate, RefusesWithWhatWhereAndWhatToDo) {
  EngineOptions o = options();
  o.model_path = "/nowhere/model.gguf";
  expect_refused(o, Code::gguf_unreadable, "/nowhere/model.gguf");
  o = options();
  o.device = "no such device";
  expect_refused(o, Code::no_device, "no such device");
  o = options();
  o.max_batch = 0;
  expect_refused(o, Code::invalid_value, "max-batch");
  o = options();
  o.prefill_chunk = 0;
  expect_refused(o, Code::invalid_value, "prefill-chunk");
  o = options();
  o.step_tokens = o.max_batch - 1;
  expect_refused(o, Code::invalid_value, "step-tokens");
  o = options();
  o.step_tokens = ~0u;
  expect_refused(o, Code::invalid_value, "step-tokens is 4294967295");
  o = options();
  o.kv = "q9";
  expect_refused(o, Code::invalid_value, "q9");
  o = options();
  o.kv_memory_bytes = 1;
  expect_refused(o, Code::kv_exceeded, "1");
  o = options();
  o.kernel_variant = "abacus";
  expect_refused(o, Code::invalid_value, "abacus");
}

TEST(EngineCreate, AutoTakesWhatHoldsTheLoadAndSaysSo) {
  std::string log;
  set_up_logging({.level = LogLevel::info, .sink = [&](std::string_view line) { log += line; }});
  EngineOptions o = options();
  o.kv = "auto";
  o.max_batch = 1;  // a context of 8,192 tokens: 180 MiB in f16, 96 in q8
  o.kv_memory_bytes = 100 * limits::MiB;
  const auto created = Engine::create(o);
  set_up_logging({.level = LogLevel::off});
  ASSERT_TRUE(created) << created.error().text();
  EXPECT_EQ((*created)->info().profile.facts.kv_policy, "q8");
  EXPECT_EQ((*created)->info().profile.facts.kv, "q8g64/q8g64 x30");
  EXPECT_NE(log.find("KV policy chosen kv=q8 load_tokens=8192"), std::string::npos) << log;
  EXPECT_EQ(log.find("sequences will wait"), std::string::npos) << log;
  EXPECT_NE(log.find("keys were tested for outliers layers=30 protected=0"), std::string::npos)
      << log;
}

// With four layers in halves, q8 needs 107 MiB for that context.
TEST(EngineCreate, AutoCountsWhatIsProtected) {
  std::string log;
  set_up_logging({.level = LogLevel::info, .sink = [&](std::string_view line) { log += line; }});
  EngineOptions o = options();
  o.kv = "auto~2,2";
  o.max_batch = 1;
  o.kv_memory_bytes = 100 * limits::MiB;
  const auto created = Engine::create(o);
  set_up_logging({.level = LogLevel::off});
  ASSERT_TRUE(created) << created.error().text();
  const EngineInfo& info = (*created)->info();
  EXPECT_EQ(info.profile.facts.kv_policy, "k8v4~2,2");
  EXPECT_EQ(info.profile.facts.kv, "f16/f16 x2, q8g64/r4 x26, f16/f16 x2");
  EXPECT_NE(log.find("KV policy chosen kv=k8v4~2,2 load_tokens=8192 holds_tokens=" +
                     std::to_string(info.kv_pool_tokens)),
            std::string::npos)
      << log << info.kv_pool_tokens;
  o.kv = "auto~99,0";
  expect_refused(o, Code::invalid_value, "--kv-protect first:99");
}

// The tokens that an engine draws for a prompt.
Tokens drawn(Engine& engine) {
  GenerationRequest request;
  request.prompt = Tokens{504, 3, 88};
  request.max_tokens = 12;
  request.stops.ignore_eos = true;
  request.sampling.seed = 1;
  EXPECT_TRUE(engine.add(1, request));
  std::vector<Event> events;
  while (engine.busy()) EXPECT_TRUE(engine.step(events));
  return events.at(0).result.choices.at(0).tokens;
}

TEST(EngineCreate, AutoMemoryIsWhatTheModelLeavesOfADevicesOwn) {
  constexpr std::uint64_t own = 2 * limits::GiB, margin = own / 16 + 512 * limits::MiB;
  for (const char* kv : {"f16", "k8v4", "auto"}) {
    EngineOptions o = options();
    o.kv = kv;
    o.kv_memory_bytes = 256 * limits::MiB;
    const auto given = testing::must(Engine::create(o));
    o.kv_memory_auto = true;
    o.kv_memory_bytes = 1;  // is not asked for
    o.step_tokens = 0;
    o.device_bytes = own;
    const auto filled = testing::must(Engine::create(o));
    const std::uint64_t taken = filled->counters().device_bytes;
    EXPECT_LE(taken, own - margin / 2) << kv;
    EXPECT_GE(taken, own - margin - 16 * limits::MiB) << kv;
    EXPECT_GT(filled->info().kv_pool_tokens, 2 * given->info().kv_pool_tokens) << kv;
    if (kv == std::string("auto")) continue;  // it may choose another policy
    EXPECT_EQ(filled->info().profile.facts.fingerprint, given->info().profile.facts.fingerprint);
    EXPECT_EQ(drawn(*filled), drawn(*given)) << kv;
  }
}

TEST(EngineCreate, AutoMemoryOfADeviceThatSharesTheHostsIsWhatIsGiven) {
  EngineOptions o = options();
  const auto given = testing::must(Engine::create(o));
  if (testing::must(chosen_device("")).has_own_memory) GTEST_SKIP() << "the device has its own";
  o.kv_memory_auto = true;
  EXPECT_EQ(testing::must(Engine::create(o))->info().kv_pool_tokens, given->info().kv_pool_tokens);
}

TEST(EngineCreate, AutoMemoryThatIsTooSmallIsRefused) {
  EngineOptions o = options();
  o.kv_memory_auto = true;
  o.device_bytes = 600 * limits::MiB;  // the margin alone is as large
  expect_refused(o, Code::kv_exceeded, "--kv-memory");
}

// The warning comes before the file of mean keys is read, which does not exist here.
TEST(EngineCreate, SaysThatMeanKeysAreOfNoUseToHalves) {
  const auto says_so = [](const std::string& kv) {
    std::string log;
    set_up_logging({.level = LogLevel::warn, .sink = [&](std::string_view line) { log += line; }});
    EngineOptions o = options();
    o.kv = kv;
    o.kv_center = "/nowhere/model.gguf.keys";
    expect_refused(o, Code::not_found, o.kv_center);
    set_up_logging({.level = LogLevel::off});
    return log.find("--kv-center has no effect") != std::string::npos;
  };
  EXPECT_TRUE(says_so("f16"));
  EXPECT_TRUE(says_so("f16/r4"));
  EXPECT_TRUE(says_so("k5v3~30,0"));
  EXPECT_FALSE(says_so("k5v3~29,0"));
}

TEST(EngineCreate, TellsWhatItRunsAndTokenizes) {
  const auto created = Engine::create(options());
  ASSERT_TRUE(created) << created.error().text();
  const Engine& engine = **created;
  EXPECT_EQ(engine.info().architecture, "llama");
  EXPECT_EQ(engine.info().vocabulary, 49152u);
  EXPECT_EQ(engine.info().profile.facts.fingerprint.size(), 32u);
  EXPECT_EQ(engine.info().profile.kv_policies, (std::vector<std::string>{"f16", "f16/f16 x30"}));
  EXPECT_GT(engine.info().profile.facts.context_tokens, 1000u);
  EXPECT_GT(engine.info().kv_pool_tokens, 1000u);
  EXPECT_LE(engine.info().kv_pool_tokens, 2000u);  // 32 MiB at 22.5 KiB a token
  EXPECT_FALSE(engine.info().device_name.empty());
  const auto tokens = engine.tokenize("<|im_start|>Hello", false, true);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->at(0), 1u);
  EXPECT_EQ(*engine.detokenize(*tokens), "<|im_start|>Hello");
  EXPECT_FALSE(engine.detokenize({99999}));
}

// The bytes of a token by each codec's definition, for 30 layers of 3 KV heads of 64 channels, and
// how many times f16's tokens must fit.
struct Stored {
  const char* policy;
  double bytes_per_token, times_f16;
};
constexpr Stored stored_as_f16{"f16", 23040, 1};
constexpr Stored stored[] = {{"q8", 12240, 1.85}, {"k8v4", 9180, 2.45}, {"k6v4", 7560, 3.0},
                             {"k5v3", 6120, 3.7}, {"k4v3", 5400, 4.2},  {"f32", 46080, 0.5}};

void expect_tokens_in_a_gibibyte(const Stored& as, std::uint64_t tokens, std::uint64_t of_f16) {
  const double formula = 0x1p30 / as.bytes_per_token;
  EXPECT_NEAR(static_cast<double>(tokens), formula, formula * 0.02) << as.policy;
  EXPECT_GE(static_cast<double>(tokens), as.times_f16 * static_cast<double>(of_f16)) << as.policy;
}

// Large pools are cheap here: memory that is never written is never allocated.
TEST(KvPool, HoldsTheTokensOfTheFormula) {
  const auto device = testing::open_device();
  const auto tokens = [&](const Stored& as) {
    const KvCodecs codecs = testing::must(parse_kv_policy(as.policy)).codecs;
    const CacheShape shape{.shape = KvShape(30, {3, 64}), .layers = std::vector(30, codecs)};
    const auto group = testing::must(KvCache::create(*device, shape, limits::GiB));
    return std::uint64_t{group.page_count()} * kv_page_tokens;
  };
  const std::uint64_t of_f16 = tokens(stored_as_f16);
  expect_tokens_in_a_gibibyte(stored_as_f16, of_f16, of_f16);
  for (const Stored& as : stored) expect_tokens_in_a_gibibyte(as, tokens(as), of_f16);
}

class EnginePool : public ::testing::TestWithParam<Stored> {
 protected:
  static std::uint64_t tokens(const Stored& as) {
    EngineOptions o = options();
    o.kv = as.policy;
    o.kv_memory_bytes = limits::GiB;
    return testing::must(Engine::create(o))->info().kv_pool_tokens;
  }
};

TEST_P(EnginePool, HoldsTheTokensOfTheFormula) {
  const std::uint64_t of_f16 = tokens(stored_as_f16);
  expect_tokens_in_a_gibibyte(stored_as_f16, of_f16, of_f16);
  expect_tokens_in_a_gibibyte(GetParam(), tokens(GetParam()), of_f16);
}

const auto name_of = [](const auto& as) { return std::string(as.param.policy); };

INSTANTIATE_TEST_SUITE_P(Slice, EnginePool, ::testing::Values(stored[0]), name_of);
// Each compiles its policy's kernels.
INSTANTIATE_TEST_SUITE_P(DISABLED_Long, EnginePool,
                         ::testing::ValuesIn(stored + 1, std::end(stored)), name_of);

}  // namespace
}  // namespace millrace::engine
