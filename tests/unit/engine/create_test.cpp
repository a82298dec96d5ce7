// What Engine::create refuses, and what it tells about itself.
#include <gtest/gtest.h>

#include "engine/core/engine.hpp"
#include "schemas/base/log.hpp"
#include "tests/support/test_model.hpp"

namespace millrace::engine {
namespace {

EngineOptions options() {
  EngineOptions out;
  out.model_path = testing_support::test_model_path();
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
  EXPECT_EQ((*created)->info().kv_policy, "q8");
  EXPECT_EQ((*created)->info().kv, "q8g64/q8g64 x30");
  EXPECT_NE(log.find("KV policy chosen kv=q8 load_tokens=8192"), std::string::npos) << log;
  EXPECT_EQ(log.find("sequences will wait"), std::string::npos) << log;
  EXPECT_NE(log.find("keys were tested for outliers layers=30 protected=0"), std::string::npos)
      << log;
}

TEST(EngineCreate, TellsWhatItRunsAndTokenizes) {
  const auto created = Engine::create(options());
  ASSERT_TRUE(created) << created.error().text();
  const Engine& engine = **created;
  EXPECT_EQ(engine.info().architecture, "llama");
  EXPECT_EQ(engine.info().vocabulary, 49152u);
  EXPECT_EQ(engine.info().fingerprint.size(), 32u);
  EXPECT_GT(engine.info().context_tokens, 1000u);
  EXPECT_GT(engine.info().kv_pool_tokens, 1000u);
  EXPECT_LE(engine.info().kv_pool_tokens, 2000u);  // 32 MiB at 22.5 KiB a token
  EXPECT_FALSE(engine.info().device_name.empty());
  const auto tokens = engine.tokenize("<|im_start|>Hello", false, true);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->at(0), 1u);
  EXPECT_EQ(*engine.detokenize(*tokens), "<|im_start|>Hello");
  EXPECT_FALSE(engine.detokenize({99999}));
}

}  // namespace
}  // namespace millrace::engine
