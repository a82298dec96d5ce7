#pragma once
// A device with each variant of the sampler's kernels forced, and ways to run tasks on rows.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/core/sampler/sampler.hpp"
#include "tests/support/device.hpp"
#include "tests/unit/sampler/reference.hpp"

namespace millrace::engine {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

inline std::vector<float> random_logits(std::uint32_t seed, std::size_t count, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(below(10000)) / 10000.0f;
  }
  Tokens tokens(std::uint32_t count, std::uint32_t alphabet) {
    Tokens out(count);
    for (TokenId& id : out) id = below(alphabet);
    return out;
  }
  PenaltyScope scope() { return below(2) == 0 ? PenaltyScope::all : PenaltyScope::output; }

 private:
  std::mt19937 random_;
};

struct Outcome {
  TokenId id = 0;
  SampleFault fault = SampleFault::none;
  float logprob = 0;
  std::uint32_t stages = 0;
  Tokens top_ids;
  std::vector<float> top_logprobs, listed_logprobs;
};

// Each variant of the kernels, forced.
class SamplerVariants : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string variant = GetParam();
    if (variant == "cpu" && !millrace::testing::has_cpu_family()) {
      GTEST_SKIP() << millrace::testing::needs_cpu_family;
    }
    device_ = millrace::testing::open_device({.variant = variant});
  }

  std::vector<Outcome> run(const std::vector<std::vector<float>>& rows,
                           const std::vector<SampleTask>& tasks) {
    const auto vocabulary = static_cast<std::uint32_t>(rows[0].size());
    const std::uint32_t stride = vocabulary + 5;  // words between rows must not matter
    std::vector<float> logits(rows.size() * stride, std::nanf(""));
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy(rows[i].begin(), rows[i].end(), logits.begin() + static_cast<long>(i * stride));
    logits.resize(logits.size() - 5);
    auto buffer = device_->allocate(logits.size() * 4, "test logits");
    if (!sampler_ || vocabulary != vocabulary_) {
      auto sampler = Sampler::create(*device_, vocabulary, slots, 4, row_items_);
      EXPECT_TRUE(sampler);
      sampler_ = *std::move(sampler);
      vocabulary_ = vocabulary;
    }
    EXPECT_TRUE(buffer);
    EXPECT_TRUE(device_->write(*buffer, 0, std::as_bytes(std::span(logits))));
    SampleBatch batch;
    EXPECT_TRUE(sampler_->enqueue(*buffer, stride, tasks, batch));
    EXPECT_TRUE(sampler_->wait(batch));
    std::vector<std::uint32_t> ids(slots);
    EXPECT_TRUE(device_->read(sampler_->ids(), 0, std::as_writable_bytes(std::span(ids))));
    std::vector<Outcome> out;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const Sampled s = batch.row(i);
      out.push_back({s.id,
                     s.fault,
                     s.logprob,
                     s.stages,
                     {s.top_ids.begin(), s.top_ids.end()},
                     {s.top_logprobs.begin(), s.top_logprobs.end()},
                     {s.listed_logprobs.begin(), s.listed_logprobs.end()}});
      if (tasks[i].draw) {
        EXPECT_EQ(ids[tasks[i].slot], s.id);
      }
    }
    return out;
  }
  Outcome run_one(const std::vector<float>& row, const SampleTask& task) {
    return run({row}, {task})[0];
  }

  static constexpr std::uint32_t slots = 1024;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Sampler> sampler_;  // for the last run's vocabulary
  std::uint32_t vocabulary_ = 0;
  std::uint32_t row_items_ = 0;  // 0: by the device; used when a sampler is created
};

inline Sampling filters(float temperature, std::uint32_t top_k = 0, float top_p = 1,
                        float min_p = 0) {
  Sampling out;
  out.temperature = temperature;
  out.top_k = top_k;
  out.top_p = top_p;
  out.min_p = min_p;
  return out;
}

inline SampleTask greedy() {
  SampleTask task;
  task.sampling.temperature = 0;
  return task;
}

inline SampleTask sampled(Sampling sampling, std::uint64_t seed, std::uint32_t position = 0) {
  SampleTask task;
  task.sampling = sampling;
  task.sampling.seed = seed;
  task.position = position;
  return task;
}

}  // namespace millrace::engine
