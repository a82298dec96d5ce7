// Random jobs in engines over a pipeline of two devices: whatever the batch, the chunks, the pool,
// the codecs, the prefix cache and the cancels of other jobs, each job gives the tokens and logprob
// bits that it gives alone on one device. It needs two devices of one kind; on a CPU, PoCL gives
// two with POCL_DEVICES="pthread pthread", as the test's ctest entry has it.
#include "engine/core/device/device.hpp"
#include "tests/unit/engine/random_jobs.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::must;

class PipelineEngine : public TinyEngine {
 protected:
  void SetUp() override {
    TinyEngine::SetUp();
    model_.layers = 5;
    model_.type = TensorType::q4_1;
    model_.width = 128;
    model_.heads = 2;  // of 64 channels, as packed codes want them
    model_.kv_heads = 1;
    if (must(chosen_devices("", "all")).size() < 2) GTEST_SKIP() << "there is one device";
  }

  static EngineOptions random_options(Draw& draw, std::uint64_t token_bytes) {
    EngineOptions options = tiny_options();
    options.pipeline = one_of<std::string>(draw, {"0,1", "1,0", "all"});
    if (below(draw, 2) == 0) options.pipeline_layers = {1 + below(draw, 2), 0};
    if (!options.pipeline_layers.empty()) {
      options.pipeline_layers[1] = 5 - options.pipeline_layers[0];
    }
    options.max_batch = 1 + below(draw, 16);
    options.step_tokens = options.max_batch + below(draw, 80);
    options.prefill_chunk = 1 + below(draw, one_of(draw, {4u, 40u, 300u}));
    // The longest job needs 399.
    options.kv_memory_bytes = token_bytes * one_of(draw, {400u, 420u, 2000u});
    options.prefix_cache = below(draw, 3) > 0;
    options.whole_layers = below(draw, 3) > 0;
    return options;
  }

  // Jobs alone on one device, then in random company on two.
  void expect_same(const std::string& kv, std::uint32_t rounds) {
    constexpr std::uint32_t jobs = 24;
    EngineOptions plain = tiny_options();
    plain.kv = kv;
    const auto one = must(create(tiny_vocabulary, "", plain));
    std::vector<Ended> alone;
    for (std::uint32_t i = 0; i < jobs; ++i) alone.push_back(ended(run_one(*one, random_job(i))));
    const std::uint64_t token_bytes =
        static_cast<std::uint64_t>(one->info().profile.facts.kv_bytes_per_token) + 8;
    std::uint64_t pauses = 0, prefix_tokens = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      Draw draw(2000 + round);
      EngineOptions options = random_options(draw, token_bytes);
      options.kv = kv;
      if (options.prefix_cache) options.prefix_folder = (folder_ / ("prefix-" + kv)).string();
      const auto engine = must(create(tiny_vocabulary, "", options));
      EXPECT_EQ(engine->info().program, one->info().program);
      std::vector<Arrival> arrivals;
      for (std::uint32_t i = 0; i < jobs; ++i) {
        arrivals.push_back({static_cast<int>(below(draw, 20)), i, random_job(i), -1,
                            round % 2 == 0 ? limits::priority_default : below(draw, 5)});
      }
      for (std::uint32_t i = 0; i < 6; ++i) {  // cancelled at some time, or ended before
        const int start = static_cast<int>(below(draw, 60));
        arrivals.push_back(
            {start, 100 + i, random_job(100 + i), start + static_cast<int>(below(draw, 30))});
      }
      std::shuffle(arrivals.begin(), arrivals.end(), draw);
      const JobsRun run = run_jobs(*engine, arrivals);
      pauses += run.pauses;
      prefix_tokens += engine->counters().prefix_tokens;
      for (std::uint32_t i = 0; i < jobs; ++i) {
        EXPECT_EQ(ended(run.events.at(i).result), alone[i])
            << kv << ", round " << round << ", job " << i;
      }
      EXPECT_EQ(engine->counters().kv_pages_used, 0u);
    }
    EXPECT_GT(pauses, 0u);
    EXPECT_GT(prefix_tokens, 100u);
  }
};

TEST_F(PipelineEngine, RandomCompanyNeverShows) {
  expect_same("f16", 8);
}

TEST_F(PipelineEngine, NorWithPackedKeysAndValues) {
  expect_same("k8v4", 4);
}

TEST_F(PipelineEngine, NorWithWindows) {
  model_.attention = {.window = 37, .soft_cap = 5, .sinks = true};
  expect_same("f16", 4);
}

TEST_F(PipelineEngine, SaysWhichLayersRunWhereAndHasTheFingerprintOfOneDevice) {
  const auto one = must(create(tiny_vocabulary));
  EngineOptions options = tiny_options();
  options.pipeline = "1,0";
  options.pipeline_layers = {4, 1};
  const auto engine = must(create(tiny_vocabulary, "", options));
  const EngineProfile& profile = engine->info().profile;
  EXPECT_EQ(profile.facts.fingerprint, one->info().profile.facts.fingerprint);
  EXPECT_TRUE(profile.layer_path.ends_with("; layers 0 to 3 on 0:1, layer 4 on 0:0"))
      << profile.layer_path;
  EXPECT_EQ(engine->info().kv_pool_tokens, one->info().kv_pool_tokens);
}

// Each of two devices has the memory of one, and half of the layers: so keys and values of about
// twice as many tokens fit.
TEST_F(PipelineEngine, TheCacheTakesWhatAllDevicesHaveLeft) {
  EngineOptions options = tiny_options();
  options.kv_memory_auto = true;
  options.device_bytes = 600 * limits::MiB;
  model_.layers = 6;
  const auto one = must(create(tiny_vocabulary, "", options));
  options.pipeline = "0,1";
  options.pipeline_layers = {3, 3};
  const auto two = must(create(tiny_vocabulary, "", options));
  EXPECT_GT(two->info().kv_pool_tokens, one->info().kv_pool_tokens * 19 / 10);
  EXPECT_LT(two->info().kv_pool_tokens, one->info().kv_pool_tokens * 21 / 10);
  GenerationRequest request = random_job(3);
  EXPECT_EQ(ended(run_one(*two, request)), ended(run_one(*one, request)));
  options.pipeline_layers = {1, 5};  // the device with five layers decides
  const auto uneven = must(create(tiny_vocabulary, "", options));
  EXPECT_LT(uneven->info().kv_pool_tokens, two->info().kv_pool_tokens * 7 / 10);
  EXPECT_GT(uneven->info().kv_pool_tokens, one->info().kv_pool_tokens);
}

TEST_F(PipelineEngine, WhatCannotRunIsRefused) {
  const auto refused = [&](const std::string& devices, std::vector<std::uint32_t> layers, Code code,
                           const std::string& what) {
    EngineOptions options = tiny_options();
    options.pipeline = devices;
    options.pipeline_layers = std::move(layers);
    const auto made = create(tiny_vocabulary, "", options);
    ASSERT_FALSE(made) << what;
    EXPECT_EQ(made.error().code, code) << made.error().text();
    EXPECT_NE(made.error().message.find(what), std::string::npos) << made.error().text();
    EXPECT_FALSE(made.error().hint.empty());
  };
  refused("0,0", {}, Code::usage, "--pipeline names 0:0 twice");
  refused("0,99", {}, Code::no_device, "--pipeline: no OpenCL device is \"99\"");
  refused("0,1", {5, 1}, Code::invalid_value,
          "--pipeline gives a device 1 layers where 0 are left");
  model_.layers = 1;
  refused("0,1", {}, Code::invalid_value, "a pipeline of 2 devices, the model has 1 layer");
}

}  // namespace
}  // namespace millrace::engine
