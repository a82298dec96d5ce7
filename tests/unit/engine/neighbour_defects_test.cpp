// Tests for defects that the batching of other engines had, each by its name, and for flat memory.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/unit/engine/random_jobs.hpp"

namespace millrace::engine {
namespace {

class NeighbourDefects : public TinyEngine {
 protected:
  void SetUp() override {
    TinyEngine::SetUp();
    auto engine = create(tiny_vocabulary);
    ASSERT_TRUE(engine) << engine.error().text();
    engine_ = *std::move(engine);
  }
  static GenerationRequest request(std::uint32_t seed, std::uint32_t prompt, std::uint32_t tokens) {
    GenerationRequest out;
    Tokens ids;
    for (std::uint32_t i = 0; i < prompt; ++i) ids.push_back((seed * 97 + i * 31) % 256);
    out.prompt = ids;
    out.max_tokens = tokens;
    out.sampling.seed = seed;
    out.stops.ignore_eos = true;
    out.logprobs = {.sampled = true, .top = 3};
    return out;
  }
  // Counts the steps, launches and rows of `run`.
  struct Work {
    std::uint64_t steps = 0, launches = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };
  template <class Run>
  Work work_of(Run run) {
    const Counters before = engine_->counters();
    run();
    const Counters after = engine_->counters();
    return {after.steps - before.steps, after.launches - before.launches};
  }

  std::unique_ptr<Engine> engine_;
};

// A row with all kinds of state, while other requests arrive before each of its steps.
TEST_F(NeighbourDefects, EarlierRowResetByANewArrival) {
  GenerationRequest early = request(1, 20, 60);
  early.edits.repetition = {1.3f, PenaltyScope::all, 30};
  early.edits.frequency = {0.4f, PenaltyScope::output, 0};
  early.edits.dry.multiplier = 0.7f;
  early.stops.strings = {"never said, but held back for"};
  early.min_tokens = 40;
  const Ended alone = ended(run_one(*engine_, early));
  std::vector<Arrival> arrivals = {{0, 0, early, -1}};
  for (std::uint32_t i = 1; i <= 30; ++i) {
    arrivals.push_back({static_cast<int>(2 * i), i, request(i, 1 + i, 1 + i % 5), -1});
  }
  const JobsRun run = run_jobs(*engine_, arrivals);
  EXPECT_GE(run.most_rows, 3u);
  EXPECT_EQ(ended(run.events.at(0).result), alone);
}

// A token sees no later token, wherever chunks and pages end.
TEST_F(NeighbourDefects, MaskBeforeCacheUpdate) {
  std::vector<Ended> whole;
  std::vector<Arrival> arrivals;
  for (const std::uint32_t prompt : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 48u}) {
    GenerationRequest r = request(prompt, prompt, 35);
    r.logprobs.prompt = true;
    arrivals.push_back({0, arrivals.size(), r, -1});
    whole.push_back(ended(run_one(*engine_, r)));
  }
  for (const std::uint32_t chunk : {1u, 5u, 15u, 16u, 17u}) {
    EngineOptions options = tiny_options();
    options.prefill_chunk = chunk;
    const auto engine = create(tiny_vocabulary, "", options);
    ASSERT_TRUE(engine) << engine.error().text();
    const JobsRun run = run_jobs(**engine, arrivals);
    for (const Arrival& a : arrivals) {
      EXPECT_EQ(ended(run.events.at(a.id).result), whole[a.id])
          << "chunk " << chunk << ", " << a.id;
    }
  }
}

// After an abort the next request finds the engine as before, and a surviving one runs alone.
TEST_F(NeighbourDefects, FollowUpAfterAbortSlower) {
  const GenerationRequest job = request(7, 20, 30);
  const auto run_job = [&] { run_one(*engine_, job); };
  run_job();
  const Work alone = work_of(run_job);
  for (const int when : {1, 2, 10}) {
    run_jobs(*engine_, {{0, 1, request(8, 40, 100), when}, {0, 2, request(9, 3, 100), when}});
    EXPECT_EQ(engine_->counters().kv_pages_used, 0u);
    EXPECT_EQ(work_of(run_job), alone) << when;
  }
  ASSERT_TRUE(engine_->add(1, job));
  ASSERT_TRUE(engine_->add(2, request(8, 40, 100)));
  std::vector<Event> events;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(engine_->step(events));
  EXPECT_EQ(engine_->counters().last_rows, 2u);
  engine_->cancel(2);
  ASSERT_TRUE(engine_->step(events));
  EXPECT_EQ(engine_->counters().last_rows, 1u);
  while (engine_->busy()) ASSERT_TRUE(engine_->step(events));
}

std::uint64_t heap_bytes() {
  return ::mallinfo2().uordblks;
}
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A CPU device keeps its buffers in this process, so its memory counts, too.
TEST_F(NeighbourDefects, TensorsKeptAfterTheBatchEmpties) {
  const auto wave = [&](std::uint32_t seed) {
    std::vector<Arrival> arrivals;
    for (std::uint32_t i = 0; i < 8; ++i) {
      arrivals.push_back({0, i, random_job(seed * 8 + i), i % 3 == 0 ? 4 : -1});
    }
    run_jobs(*engine_, arrivals);
    const Counters counters = engine_->counters();
    EXPECT_EQ(counters.running + counters.waiting + counters.last_rows, 0u);
    EXPECT_EQ(counters.kv_pages_used, 0u);
  };
  for (std::uint32_t i = 0; i < 10; ++i) wave(i);
  const std::uint64_t before = heap_bytes();
  for (int again = 0; again < 4; ++again) {
    for (std::uint32_t i = 0; i < 10; ++i) wave(i);
  }
  EXPECT_LE(heap_bytes(), before + 64 * limits::KiB);
}

// Pages on their way to or from the disk use memory, and a slow disk means more of them. This waits
// until they have arrived, with steps without jobs.
void wait_for_disk(Engine& engine) {
  std::vector<Event> events;
  for (int i = 0; i < 32; ++i) {
    ASSERT_TRUE(engine.step(events));
    while (engine.counters().disk_unwritten_bytes > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(events.empty());
}

// Runs short jobs with random cancels; memory must not grow in the second half.
// MILLRACE_FLAT_JOBS sets their number.
void expect_flat_memory(Engine& engine, std::uint32_t longest_prompt) {
  const char* given = std::getenv("MILLRACE_FLAT_JOBS");
  const std::uint32_t jobs = given ? static_cast<std::uint32_t>(std::stoul(given)) : 1000;
  Draw draw(5);
  std::uint32_t next = 0;
  std::uint64_t cancelled = 0, ends = 0;
  const auto run_to = [&](std::uint32_t count) {
    std::vector<Event> events;
    while (next < count || engine.busy()) {
      if (next < count && engine.counters().running + engine.counters().waiting < 12) {
        GenerationRequest r = random_job(next % 500);
        r.prompt = Tokens(1 + below(draw, longest_prompt), below(draw, tiny_vocabulary));
        if (r.task != Task::score) r.max_tokens = 1 + below(draw, 8);
        r.min_tokens = 0;
        const Status added = engine.add(next++, r);
        ASSERT_TRUE(added) << added.error().text();
      }
      if (below(draw, 8) == 0) engine.cancel(next - 1 - below(draw, std::min(next, 12u)));
      ASSERT_TRUE(engine.step(events));
      for (const Event& event : events) cancelled += event.cancelled ? 1 : 0;
      ends += events.size();
      events.clear();
    }
    wait_for_disk(engine);
  };
  run_to(jobs / 2);
  const std::uint64_t heap = heap_bytes(), on_device = engine.counters().device_bytes;
  [[maybe_unused]] const std::uint64_t resident = resident_bytes();
  run_to(jobs);
  EXPECT_EQ(ends, jobs);
  EXPECT_GT(cancelled, jobs / 100);
  EXPECT_EQ(engine.counters().kv_pages_used, 0u);
  // A step's lists double when a longer one is needed.
  EXPECT_LE(engine.counters().device_bytes, on_device + 64 * limits::KiB);
  EXPECT_LE(heap_bytes(), heap + 256 * limits::KiB);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
  EXPECT_LE(resident_bytes(), resident + 4 * limits::MiB);
#endif
}

TEST_F(NeighbourDefects, MemoryIsFlatOverManyShortJobsWithRandomCancels) {
  expect_flat_memory(*engine_, 20);
}

// The pool and the folder are full long before half of the jobs have run.
TEST_F(NeighbourDefects, MemoryIsFlatWithAPrefixTreeInMemoryAndOnDisk) {
  EngineOptions options = tiny_options();
  options.prefix_cache = true;
  options.kv_memory_bytes = limits::MiB / 4;
  options.prefix_folder = (folder_ / "prefix").string();
  options.prefix_disk_bytes = limits::MiB;
  engine_ = millrace::testing::must(create(tiny_vocabulary, "", options));
  expect_flat_memory(*engine_, 100);
  EXPECT_GT(engine_->counters().prefix_tokens, 0u);
  EXPECT_GT(engine_->counters().disk_tokens, 0u);
  engine_.reset();  // it still writes into the folder
}

}  // namespace
}  // namespace millrace::engine
