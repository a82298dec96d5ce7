// Steps that fail on a device that goes on, with jobs that share pages. The fake device keeps
// tokens in its pages. A failed step copies nothing and writes nonsense to its places, so a page of
// it that any job still reads shows as a wrong token.
#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "schemas/base/fault_env.hpp"
#include "tests/unit/engine/loop_fixture.hpp"
#include "tests/unit/scheduler/fake_transport.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 16, pool_pages = 64;
constexpr TokenId nonsense = 999'999;

class FakeRunner final : public StepRunner {
 public:
  enum class Failure { none, at_forward, at_sample, at_wait };
  FakeDevice* device = nullptr;
  Failure failure = Failure::none;
  std::uint32_t fails_at = 0, steps = 0, copies_lost = 0;

  Status enqueue_forward(const StepPlan& plan) override {
    fails_ = ++steps == fails_at && failure != Failure::none;
    plan_ = plan;
    if (fails_) spoil(plan);
    if (fails_ && failure == Failure::at_forward) return fail(Code::out_of_memory, "no memory", "");
    return {};
  }
  Status enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) override {
    if (fails_ && failure == Failure::at_sample) return fail(Code::out_of_memory, "no memory", "");
    failures_.push_back(fails_);
    if (fails_) return {};
    PlannedStep step;
    step.plan = plan_;
    for (const PlanRow& row : plan_.rows) {
      for (std::uint32_t i = row.output_offset; i < row.output_offset + row.output_count; ++i) {
        const RowOutput& output = plan_.outputs[i];
        step.outputs.push_back(
            {row.sequence, output.kind, row.first_position + output.offset + 1, tasks[i].slot});
      }
    }
    std::vector<Sampled> rows;
    for (const FakeDevice::Drawn& drawn : device->run(step)) {
      Sampled row;
      row.id = drawn.token;
      row.logprob = -static_cast<float>(drawn.token);
      rows.push_back(row);
    }
    batch.assign(rows);
    return {};
  }
  Status wait(SampleBatch&) override {
    const bool fails = failures_.front();
    failures_.pop_front();
    return fails ? fail(Code::device_error, "the kernel broke", "") : Status();
  }
  Status check_device() override { return {}; }

 private:
  void spoil(const StepPlan& plan) {
    copies_lost += static_cast<std::uint32_t>(plan.copies.size());
    for (const PageCopy& copy : plan.copies) {
      std::ranges::fill(device->page(copy.to), nonsense);
    }
    for (const PlanRow& row : plan.rows) {
      for (std::uint32_t i = row.first_position; i < row.first_position + row.count; ++i) {
        device->page(plan.pages[row.page_offset + i / page_tokens])[i % page_tokens] = nonsense;
      }
    }
  }

  StepPlan plan_;
  bool fails_ = false;
  std::deque<bool> failures_;
};

constexpr auto failures = {FakeRunner::Failure::at_forward, FakeRunner::Failure::at_sample,
                           FakeRunner::Failure::at_wait};

struct Job {
  Tokens prompt;
  std::uint32_t n = 1, max_tokens = 5;
  bool score = false, prompt_logprobs = false;
  bool decides = false;  // its steps wait between their calls for the ids of the step before
};

class FailedStep : public LoopTest {
 protected:
  // Starts an engine, with a disk that outlives it if `disk`.
  void begin(bool disk) {
    end();
    open(pool_pages);
    device_ = std::make_unique<FakeDevice>(*pools_, options_.max_batch);
    steps_.device = transport_.device = device_.get();
    LoopOptions loop;
    loop.scheduler = options_;
    if (disk) {
      const PageKind kind{"f00d", page_tokens, page_tokens * sizeof(TokenId)};
      auto tier = DiskTier::open(env_, {"/tier", limits::MiB, kind});
      ASSERT_TRUE(tier) << tier.error().text();
      disk_ = std::make_unique<DiskPages>(*std::move(tier), kind, transport_);
      loop.disk = disk_.get();
      loop.scheduler.store = disk_.get();
    }
    loop_ = std::make_unique<EngineLoop>(loop, context_, *pools_, steps_, clock_);
  }
  void end() {
    loop_.reset();
    disk_.reset();
  }
  void TearDown() override { end(); }

  void add(RequestId id, const Job& job) {
    GenerationRequest r;
    r.prompt = job.prompt;
    r.n = job.n;
    r.max_tokens = job.max_tokens;
    r.sampling.seed = id;
    r.stops.ignore_eos = true;
    r.logprobs.prompt = job.prompt_logprobs;
    if (job.decides) {  // no text opens the part
      r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"}};
      r.max_reasoning_tokens = 0;
    }
    if (job.score) {
      r.task = Task::score;
      r.max_tokens.reset();
      r.stops = {};
    }
    const Status added = loop_->add(id, r);
    ASSERT_TRUE(added) << added.error().text();
    jobs_[id] = job;
  }
  void step() {
    std::vector<Event> events;
    clock_.advance_us(1000);
    ASSERT_TRUE(loop_->step(events));
    for (const Event& event : events) check(event);
  }
  void run() {
    for (int i = 0; i < 1000 && loop_->busy(); ++i) step();
    EXPECT_FALSE(loop_->busy());
    EXPECT_EQ((*pools_)[0].used(), (*pools_)[0].idle());
    EXPECT_EQ((*pools_)[0].idle(), loop_->counters().prefix_pages);
  }
  // Checks that a job gives the tokens that it gives alone.
  void check(const Event& event) {
    if (event.error) {
      const bool at_wait = steps_.failure == FakeRunner::Failure::at_wait;
      EXPECT_EQ(event.error->message, at_wait ? "the kernel broke" : "no memory");
      ++failed_;
      return;
    }
    ++ended_;
    const Job& job = jobs_.at(event.id);
    for (const Choice& choice : event.result.choices) {
      EXPECT_EQ(choice.tokens, expected(job.prompt, job.max_tokens)) << "job " << event.id;
    }
    if (!job.score && !job.prompt_logprobs) return;
    ASSERT_TRUE(event.result.prompt_logprobs);
    const std::vector<float>& logprobs = event.result.prompt_logprobs->token;
    ASSERT_EQ(logprobs.size(), job.prompt.size());
    for (std::size_t i = 1; i < logprobs.size(); ++i) {
      const Tokens before(job.prompt.begin(), job.prompt.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(logprobs[i], -static_cast<float>(next_token(before))) << "job " << event.id;
    }
  }
  // Adds a job that leaves pages behind; then, some steps apart, one that forks, two whose prompt
  // is scored, two that go on inside a page of the first with one token of their own, and one that
  // pauses others. Some of them decide, so steps come in both orders of calls.
  void add_company() {
    const Tokens common = prompt_of(1, 25);
    const auto with = [&](TokenId own, std::uint32_t more) {
      Tokens out = common;
      out.push_back(own);
      const Tokens rest = prompt_of(own, more);
      out.insert(out.end(), rest.begin(), rest.end());
      return out;
    };
    add(1, {.prompt = with(500, 30)});
    for (int i = 0; i < 8; ++i) step();
    add(2, {.prompt = with(501, 20), .n = 2});
    add(3, {.prompt = prompt_of(3, 40), .score = true});
    add(4, {.prompt = with(502, 0), .decides = true});
    step();
    add(5, {.prompt = with(503, 12), .prompt_logprobs = true});
    add(6, {.prompt = with(504, 0)});
    add(7, {.prompt = with(501, 20)});
    for (int i = 0; i < 6; ++i) step();
    add(8, {.prompt = with(500, 40), .n = 2, .decides = true});
    run();
  }

  SchedulerOptions options_{.max_batch = 4,
                            .step_tokens = 36,
                            .prefill_chunk = 16,
                            .step_outputs = 4,
                            .prefix_cache = true,
                            .fingerprint = "f00d"};
  std::shared_ptr<FaultEnv> env_;
  std::unique_ptr<FakeDevice> device_;
  FakeTransport transport_;
  FakeRunner steps_;
  std::unique_ptr<DiskPages> disk_;
  std::map<RequestId, Job> jobs_;
  std::uint32_t failed_ = 0, ended_ = 0;
};

// Each step fails in turn, in each of its calls, without a disk and with one. Jobs that had
// no row in it, and later jobs, give the tokens that they give alone, also after a restart.
TEST_F(FailedStep, HarmsNobodyButThoseWithRowsInIt) {
  std::uint32_t copies_lost = 0, read_from_disk = 0;
  for (const bool disk : {false, true}) {
    for (const auto failure : failures) {
      for (std::uint32_t at = 1;; ++at) {
        SCOPED_TRACE("step " + std::to_string(at) + (disk ? " with a disk" : ""));
        env_ = std::make_shared<FaultEnv>();
        steps_ = {};
        steps_.failure = failure;
        steps_.fails_at = at;
        failed_ = ended_ = 0;
        begin(disk);
        add_company();
        const bool reached = steps_.steps >= at;
        EXPECT_EQ(failed_ > 0, reached);
        EXPECT_EQ(failed_ + ended_, 8u);
        EXPECT_LE(failed_, options_.max_batch);
        steps_.fails_at = 0;
        const std::uint32_t before = failed_;
        add_company();
        begin(disk);
        add_company();
        EXPECT_EQ(failed_, before);
        read_from_disk += static_cast<std::uint32_t>(loop_->counters().disk_tokens);
        copies_lost += steps_.copies_lost;
        ASSERT_FALSE(HasFailure());
        if (!reached) break;
      }
    }
  }
  EXPECT_GE(copies_lost, 4u);
  EXPECT_GT(read_from_disk, 1000u);
}

TEST_F(FailedStep, LeavesNothingInTheTree) {
  for (const auto failure : failures) {
    steps_ = {};
    steps_.failure = failure;
    steps_.fails_at = 2;
    begin(false);
    add(1, {.prompt = prompt_of(1, 64), .n = 2});
    while (failed_ == 0) step();
    // The first step's chunk, if that has come back.
    const bool came_back = failure == FakeRunner::Failure::at_wait;
    EXPECT_EQ(loop_->counters().prefix_pages, came_back ? 1u : 0u);
    run();
    failed_ = 0;
  }
}

// The step that was enqueued behind it may have used what it left, so its jobs fail, too, also if
// its sampling was not enqueued yet.
TEST_F(FailedStep, TakesTheStepBehindItAlong) {
  for (const bool decides : {false, true}) {
    steps_ = {};
    steps_.failure = FakeRunner::Failure::at_wait;
    steps_.fails_at = 1;
    failed_ = ended_ = 0;
    begin(false);
    add(1, {.prompt = prompt_of(1, 20)});
    step();
    add(2, {.prompt = prompt_of(2, 20), .decides = decides});
    step();
    EXPECT_EQ(failed_, 2u);
    add(3, {.prompt = prompt_of(3, 20), .decides = decides});
    run();
    EXPECT_EQ(failed_, 2u);
    EXPECT_EQ(ended_, 1u);
  }
}

}  // namespace
}  // namespace millrace::engine
