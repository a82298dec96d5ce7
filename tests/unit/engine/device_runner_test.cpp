// A step in two calls on a device: what the host does between the forward pass and the sampling
// changes no bit, and calls out of turn are refused and change nothing.
#include "engine/core/device_runner.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/kv/kv_cache.hpp"
#include "schemas/base/limits.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::must;
using millrace::testing::TinyModel;

constexpr std::uint32_t rows = 3, steps = 12, pages_each = 4;
constexpr std::uint32_t prompt_sizes[rows] = {20, 7, 33};

// The bits of a step's results, row by row.
using Bits = std::vector<std::uint32_t>;

// What the host does with step t before it samples step t + 1.
enum class Host {
  runs_ahead,      // enqueues both calls at once; the rows decide nothing
  decides_before,  // reads the ids of step t, decides, then enqueues both calls
  decides_between,
  decides_late  // lets the device finish the forward pass, and reads pages meanwhile
};

// Three sequences over a tiny model. Row 0 may only draw ids of the other parity than its last one
// unless the host runs ahead; row 1 draws with edits, row 2 greedily.
class Steps {
 public:
  Steps()
      : device_(millrace::testing::open_device()),
        model_(
            must(Model::load(*device_, TinyModel().file(),
                             {.kv_bytes = limits::MiB, .step_tokens = 64, .step_outputs = rows}))),
        sampler_(must(Sampler::create(*device_, vocabulary(), rows, rows))),
        runner_(*device_, *model_, *sampler_) {
    edits_.repetition.value = 1.5f;
    for (TokenId id = 0; id < vocabulary(); ++id) by_parity_[id % 2].push_back(id);
  }

  std::uint32_t vocabulary() const { return model_->info().vocabulary; }
  StepRunner& runner() { return runner_; }

  static Tokens prompt_of(std::uint32_t s) {
    Tokens out(prompt_sizes[s]);
    for (std::uint32_t i = 0; i < out.size(); ++i) out[i] = (i * 7 + s) % 70;
    return out;
  }
  // The plan of step t: the prompts, then a token of each sequence that is still on the device.
  static StepPlan plan(std::uint32_t t) {
    StepPlan plan;
    for (std::uint32_t s = 0; s < rows; ++s) {
      PlanRow row;
      row.sequence = s + 1;
      row.count = t == 0 ? prompt_sizes[s] : 1;
      row.first_position = t == 0 ? 0 : prompt_sizes[s] + t - 1;
      row.token_offset = static_cast<std::uint32_t>(plan.tokens.size());
      if (t == 0) {
        const Tokens prompt = prompt_of(s);
        plan.tokens.insert(plan.tokens.end(), prompt.begin(), prompt.end());
      } else {
        row.device_slot = s;
      }
      row.page_offset = static_cast<std::uint32_t>(plan.pages.size());
      row.page_count = pages_each;
      for (std::uint32_t p = 0; p < pages_each; ++p) plan.pages.push_back(s * pages_each + p);
      row.output_offset = s;
      row.output_count = 1;
      plan.outputs.push_back({row.count - 1, OutputKind::logits});
      plan.rows.push_back(row);
    }
    return plan;
  }

  std::vector<SampleTask> tasks(std::uint32_t t, Host host) {
    std::vector<SampleTask> out(rows);
    for (std::uint32_t s = 0; s < rows; ++s) {
      SampleTask& task = out[s];
      task.slot = s;
      task.sequence = s + 1;
      task.position = prompt_sizes[s] + t;
      task.sampling.seed = s + 5;
      task.sampling.temperature = s == 2 ? 0.0f : 1.0f;
      task.logprob = true;
      task.top = 4;
      if (s == 1) {
        task.edits = &edits_;
        task.history = {edited_prompt_, {}, prompt_sizes[s] + steps};
      }
    }
    if (host != Host::runs_ahead && !drawn_.empty()) out[0].banned = by_parity_[drawn_.back() % 2];
    return out;
  }

  // Takes the results of a step that was sampled before.
  void take(SampleBatch& batch) {
    must(runner_.wait(batch));
    for (std::size_t i = 0; i < rows; ++i) {
      const Sampled row = batch.row(i);
      bits_.insert(bits_.end(), {row.id, std::bit_cast<std::uint32_t>(row.logprob)});
      bits_.insert(bits_.end(), row.top_ids.begin(), row.top_ids.end());
      for (const float value : row.top_logprobs) {
        bits_.push_back(std::bit_cast<std::uint32_t>(value));
      }
    }
    drawn_.push_back(batch.row(0).id);
  }

  void between(Host host) {
    if (host != Host::decides_late) return;
    std::vector<std::byte> page(model_->info().page_bytes);
    const PageId last = model_->info().page_count - 1;
    for (const DeviceEvent& event : must(model_->read_pages({&last, 1}, page))) {
      must(device_->wait(event));
    }
    must(device_->finish());
  }

  Bits run(Host host) {
    std::deque<SampleBatch> batches(steps);
    for (std::uint32_t t = 0; t < steps; ++t) {
      const bool decides = host != Host::runs_ahead;
      if (t > 0 && host == Host::decides_before) take(batches[t - 1]);
      must(runner_.forward(plan(t)));
      between(host);
      if (t > 0 && decides && host != Host::decides_before) take(batches[t - 1]);
      must(runner_.sample(tasks(t, host), batches[t]));
      if (t > 0 && !decides) take(batches[t - 1]);
    }
    take(batches.back());
    return bits_;
  }
  const Tokens& drawn() const { return drawn_; }
  const Bits& bits() const { return bits_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Sampler> sampler_;
  DeviceRunner runner_;
  LogitEdits edits_;
  Tokens edited_prompt_ = prompt_of(1);
  Tokens by_parity_[2];
  Bits bits_;
  Tokens drawn_;  // by row 0
};

TEST(DeviceRunner, WhenTheHostDecidesChangesNoBit) {
  Steps before;
  const Bits expected = before.run(Host::decides_before);
  for (std::size_t i = 1; i < before.drawn().size(); ++i) {
    EXPECT_NE(before.drawn()[i] % 2, before.drawn()[i - 1] % 2) << "the decision counts";
  }
  EXPECT_EQ(Steps().run(Host::decides_between), expected);
  EXPECT_EQ(Steps().run(Host::decides_late), expected);
  // Rows without a decision draw the same when nobody waits; row 0 does not.
  const Bits ahead = Steps().run(Host::runs_ahead);
  ASSERT_EQ(ahead.size(), expected.size());
  const std::size_t row_words = expected.size() / (steps * rows);
  bool differs = false;
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    if (i / row_words % rows == 0) {
      differs |= ahead[i] != expected[i];
    } else {
      EXPECT_EQ(ahead[i], expected[i]) << "word " << i;
    }
  }
  EXPECT_TRUE(differs);
}

TEST(DeviceRunner, CallsOutOfTurnAreRefusedAndChangeNothing) {
  Steps made;
  StepRunner& runner = made.runner();
  std::deque<SampleBatch> batches(steps);
  const auto refused = [](const Status& status, const std::string& what) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::internal);
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().text();
    EXPECT_FALSE(status.error().hint.empty());
  };
  SampleBatch none;
  for (std::uint32_t t = 0; t < steps; ++t) {
    refused(runner.sample(made.tasks(t, Host::runs_ahead), none), "sample() without logits");
    must(runner.forward(Steps::plan(t)));
    refused(runner.forward(Steps::plan(t)), "forward() before sample()");
    auto tasks = made.tasks(t, Host::runs_ahead);
    refused(runner.sample(std::span(tasks).first(2), none), "2 tasks for 3 outputs");
    must(runner.sample(tasks, batches[t]));
    refused(runner.sample(tasks, none), "sample() without logits");
  }
  for (SampleBatch& batch : batches) made.take(batch);
  EXPECT_EQ(made.bits(), Steps().run(Host::runs_ahead));
}

TEST(DeviceRunner, AFailedStepIsGivenUpBeforeTheNext) {
  Steps made;
  StepRunner& runner = made.runner();
  StepPlan bad = Steps::plan(0);
  bad.tokens[0] = made.vocabulary();
  const Status failed = runner.forward(bad);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::invalid_token);
  SampleBatch none;
  EXPECT_EQ(runner.sample(made.tasks(0, Host::runs_ahead), none).error().code, Code::internal);
  const Status early = runner.forward(Steps::plan(0));
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message.find("after a step that failed"), std::string::npos);
  must(runner.probe());
  // A step that is given up between its calls leaves nothing behind, either.
  must(runner.forward(Steps::plan(0)));
  must(runner.probe());
  EXPECT_EQ(made.run(Host::runs_ahead), Steps().run(Host::runs_ahead));
}

}  // namespace
}  // namespace millrace::engine
