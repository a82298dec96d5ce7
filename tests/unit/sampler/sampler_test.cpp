#include <atomic>

#include "tests/unit/sampler/sampler_fixture.hpp"

namespace millrace::engine {
namespace {

INSTANTIATE_TEST_SUITE_P(Variant, SamplerVariants, ::testing::Values("generic", "cpu"));

TEST_P(SamplerVariants, GreedyTakesTheLargestAndOfEqualOnesTheLowestId) {
  std::vector<float> row(1000, -1.0f);
  EXPECT_EQ(run_one(row, greedy()).id, 0u);
  row[999] = 3;
  EXPECT_EQ(run_one(row, greedy()).id, 999u);
  row[77] = row[78] = row[500] = 3;
  EXPECT_EQ(run_one(row, greedy()).id, 77u);
  row[12] = 0.0f;
  row[11] = -0.0f;
  for (float& x : row) x = std::min(x, 0.0f);
  EXPECT_EQ(run_one(row, greedy()).id, 11u);  // -0 equals 0
}

TEST_P(SamplerVariants, IdsEqualTheMirrorForEveryMixOfFilters) {
  const std::vector<Sampling> mixes = {
      filters(1.0f),
      filters(0.7f, 40),
      filters(1.3f, 1),
      filters(1.0f, 0, 0.9f),
      filters(2.0f, 0, 0.999f),
      filters(1.0f, 0, 1e-9f),
      filters(0.9f, 0, 1, 0.05f),
      filters(1.0f, 50, 0.8f, 0.1f),
      filters(1e-38f, 5000),
      filters(100.0f),
      filters(0.0f, 3, 0.1f),
  };
  for (const std::size_t vocabulary : {7u, 64u, 1000u, 49152u}) {
    std::vector<std::vector<float>> rows;
    std::vector<SampleTask> tasks;
    for (std::uint32_t i = 0; i < mixes.size() * 2; ++i) {
      rows.push_back(random_logits(i, vocabulary, i % 2 == 0 ? 1.0f : 6.0f));
      tasks.push_back(sampled(mixes[i / 2], 0x123456789abcdefull + i, i * 3));
      tasks.back().slot = i;
      tasks.back().sample = i % 5;
    }
    const auto got = run(rows, tasks);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(got[i].id, reference::draw(rows[i], tasks[i]))
          << "vocabulary " << vocabulary << " mix " << i / 2;
    }
  }
}

TEST_P(SamplerVariants, FiltersCutWithinEqualLogitsByTheLowestIds) {
  std::vector<float> row(300, -infinity);
  for (std::size_t i = 40; i < 60; ++i) row[i] = 1.5f;
  row[200] = 2.0f;
  std::map<TokenId, int> by_count, by_mass;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    ++by_count[run_one(row, sampled(filters(1, 4), seed)).id];
    const SampleTask task = sampled(filters(1, 0, 0.2f), seed);
    const TokenId id = run_one(row, task).id;
    EXPECT_EQ(id, reference::draw(row, task));
    ++by_mass[id];
  }
  for (const auto& [id, count] : by_count) EXPECT_TRUE(id == 200 || (id >= 40 && id < 43)) << id;
  EXPECT_EQ(by_count.size(), 4u);
  for (const auto& [id, count] : by_mass) EXPECT_TRUE(id == 200 || (id >= 40 && id < 46)) << id;
}

TEST_P(SamplerVariants, TheNoiseDependsOnSeedSamplePositionAndNothingElse) {
  const std::vector<float> row = random_logits(9, 4096, 0.1f);
  const SampleTask base = sampled(filters(1), 7, 3);
  const TokenId alone = run_one(row, base).id;
  std::vector<SampleTask> tasks(5, base);
  tasks[1].sampling.seed = 8;
  tasks[2].sample = 1;
  tasks[3].position = 4;
  tasks[4].logprob = true;
  tasks[4].top = 20;
  for (std::uint32_t i = 0; i < 5; ++i) tasks[i].slot = i;
  const auto got = run(std::vector(5, row), tasks);
  EXPECT_EQ(got[0].id, alone);
  EXPECT_NE(got[1].id, alone);
  EXPECT_NE(got[2].id, alone);
  EXPECT_NE(got[3].id, alone);
  EXPECT_EQ(got[4].id, alone);
}

TEST_P(SamplerVariants, BannedTokensAreNotDrawnButKeepTheirRawLogprob) {
  std::vector<float> row = random_logits(2, 500, 1.0f);
  row[100] = 20.0f;
  row[101] = 19.0f;
  const Tokens banned = {100, 499};
  SampleTask task = greedy();
  task.banned = banned;
  task.logprob = true;
  task.top = 2;
  SampleTask processed = task;
  processed.mode = LogprobMode::processed;
  processed.slot = 1;
  const auto got = run({row, row}, {task, processed});
  EXPECT_EQ(got[0].id, 101u);
  EXPECT_EQ(got[0].top_ids, (Tokens{100, 101}));
  EXPECT_NEAR(got[0].logprob, reference::logprobs(row, nullptr)[101], 1e-5);
  EXPECT_EQ(got[1].id, 101u);
  EXPECT_EQ(got[1].top_ids[0], 101u);
  EXPECT_NEAR(got[1].logprob, reference::logprobs(row, &processed)[101], 1e-5);
}

TEST_P(SamplerVariants, LogprobsAreWithin1e5OfFloat64) {
  for (const float spread : {0.01f, 2.0f, 10.0f}) {
    const std::vector<float> row = random_logits(17, 49152, spread);
    std::vector<SampleTask> tasks;
    for (const Sampling& s : {filters(0), filters(1), filters(0.7f, 30, 0.9f)}) {
      for (const LogprobMode mode : {LogprobMode::raw, LogprobMode::processed}) {
        SampleTask task = sampled(s, 11);
        task.logprob = true;
        task.top = 128;
        task.mode = mode;
        task.slot = static_cast<std::uint32_t>(tasks.size());
        tasks.push_back(task);
      }
    }
    const auto got = run(std::vector(tasks.size(), row), tasks);
    const Tokens order = reference::order(row);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const bool raw = tasks[i].mode == LogprobMode::raw;
      const auto want = reference::logprobs(row, raw ? nullptr : &tasks[i]);
      EXPECT_NEAR(got[i].logprob, want[got[i].id], 1e-5);
      ASSERT_EQ(got[i].top_ids, Tokens(order.begin(), order.begin() + 128));
      for (std::size_t k = 0; k < 128; ++k) {
        const double w = want[order[k]];
        if (std::isinf(w)) {
          EXPECT_EQ(got[i].top_logprobs[k], -infinity);
        } else {
          EXPECT_NEAR(got[i].top_logprobs[k], w, 1e-5);
        }
      }
    }
  }
}

TEST_P(SamplerVariants, ScoresAGivenToken) {
  const std::vector<float> row = random_logits(23, 49152, 3.0f);
  SampleTask task;
  task.draw = false;
  task.target = 31000;
  task.top = 5;
  const Outcome got = run_one(row, task);
  const auto want = reference::logprobs(row, nullptr);
  EXPECT_NEAR(got.logprob, want[31000], 1e-5);
  const Tokens order = reference::order(row);
  EXPECT_EQ(got.top_ids, Tokens(order.begin(), order.begin() + 5));
  EXPECT_EQ(got.stages, STAGE_SUM | STAGE_TOP);
}

TEST_P(SamplerVariants, MinusInfinityIsAnOrdinaryLogit) {
  std::vector<float> row(200, -infinity);
  row[63] = 1.0f;
  SampleTask task = sampled(filters(1, 10, 0.9f, 0.1f), 3);
  task.logprob = true;
  task.top = 3;
  const Outcome got = run_one(row, task);
  EXPECT_EQ(got.id, 63u);
  EXPECT_EQ(got.logprob, 0.0f);
  EXPECT_EQ(got.top_logprobs, (std::vector<float>{0.0f, -infinity, -infinity}));
}

TEST_P(SamplerVariants, NotANumberIsReportedAndDisturbsNobody) {
  const std::vector<float> good = random_logits(4, 333, 1.0f);
  for (const float poison : {std::nanf(""), infinity}) {
    for (const std::size_t where : {0u, 15u, 16u, 332u}) {
      std::vector<float> bad = good;
      bad[where] = poison;
      SampleTask task = sampled(filters(1), 5);
      SampleTask other = task;
      other.slot = 1;
      const auto got = run({bad, good}, {task, other});
      EXPECT_EQ(got[0].fault, SampleFault::not_a_number);
      EXPECT_EQ(got[1].fault, SampleFault::none);
      EXPECT_EQ(got[1].id, reference::draw(good, task));
    }
  }
}

TEST_P(SamplerVariants, NothingLeftToDrawIsReported) {
  EXPECT_EQ(run_one(std::vector<float>(50, -infinity), greedy()).fault, SampleFault::nothing_left);
  std::vector<float> row(50, -infinity);
  row[3] = 0;
  const Tokens banned = {3};
  SampleTask task = sampled(filters(1), 1);
  task.banned = banned;
  EXPECT_EQ(run_one(row, task).fault, SampleFault::nothing_left);
}

TEST_P(SamplerVariants, WorkNobodyAskedForIsNotDone) {
  const std::vector<float> row = random_logits(6, 500, 1.0f);
  EXPECT_EQ(run_one(row, greedy()).stages, 0u);
  EXPECT_TRUE(std::isnan(run_one(row, greedy()).logprob));
  EXPECT_EQ(run_one(row, sampled(filters(1), 1)).stages, STAGE_NOISE);
  EXPECT_EQ(run_one(row, sampled(filters(1, 5), 1)).stages, STAGE_NOISE | STAGE_FILTER);
  SampleTask task = greedy();
  task.logprob = true;
  EXPECT_EQ(run_one(row, task).stages, STAGE_SUM);
}

TEST_P(SamplerVariants, BitsDoNotDependOnTheBatch) {
  const std::vector<float> row = random_logits(31, 49152, 3.0f);
  SampleTask task = sampled(filters(0.8f, 0, 0.95f), 77, 12);
  task.logprob = true;
  task.top = 4;
  task.mode = LogprobMode::processed;
  const Outcome alone = run_one(row, task);
  std::vector<std::vector<float>> rows;
  std::vector<SampleTask> tasks;
  for (std::uint32_t i = 0; i < 33; ++i) {
    rows.push_back(i == 20 ? row : random_logits(i, 49152, 2.0f));
    tasks.push_back(i == 20 ? task : sampled(filters(1), i));
    tasks.back().slot = i;
  }
  const Outcome among = run(rows, tasks)[20];
  EXPECT_EQ(among.id, alone.id);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(among.logprob),
            std::bit_cast<std::uint32_t>(alone.logprob));
  EXPECT_EQ(among.top_ids, alone.top_ids);
  EXPECT_EQ(among.top_logprobs, alone.top_logprobs);
}

// A chunk of a prompt draws nothing, but `wait` must wait for its step as well.
TEST_P(SamplerVariants, AStepWithoutTasksIsWaitedForToItsEnd) {
  const ProgramSpec slow{.name = "slow", .sources = {}, .defines = {}, .text = R"(
__kernel void slow(__global uint* x, uint rounds) {
  uint y = x[0];
  for (uint i = 0; i < rounds; ++i) y = y * 1664525u + 1013904223u ^ y >> 7;
  x[0] = y | 1u;
}
)"};
  run_one({1, 2}, greedy());
  using millrace::testing::must;
  const Program program = must(device_->build(slow));
  Kernel kernel = must(device_->kernel(program, "slow"));
  const Buffer x = must(device_->allocate_zeroed(4, "x"));
  must(device_->launch(kernel, {.groups = {1}}, {x, 100'000'000u}));
  std::uint32_t ended = 0;  // when its read behind the kernel has come
  const auto bytes = std::as_writable_bytes(std::span(&ended, 1));
  const DeviceEvent read = must(device_->enqueue_read(x, 0, bytes));
  SampleBatch batch;
  must(sampler_->enqueue(x, 1, {}, batch));
  must(sampler_->wait(batch));
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_NE(std::atomic_ref(ended).load(), 0u);
  must(device_->wait(read));
}

TEST(SamplerReference, NoiseIsAStandardGumbelToItsTails) {
  double sum = 0, square = 0;
  const int count = 1 << 20;
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<std::uint32_t>(i) * 4096u + 1234u;
    const double u = (x + 0.5) / 4294967296.0;
    const double want = -std::log(-std::log1p(u - 1.0));
    const double got = reference::gumbel(x);
    ASSERT_NEAR(got, want, 1e-6 * std::max(1.0, std::fabs(want))) << x;
    sum += got;
    square += got * got;
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 0.5772157, 1e-3);
  EXPECT_NEAR(square / count - mean * mean, 1.6449341, 1e-2);
  EXPECT_LE(reference::gumbel(0xffffffffu), 23.0f);
  EXPECT_GE(reference::gumbel(0), -3.2f);
}

}  // namespace
}  // namespace millrace::engine
