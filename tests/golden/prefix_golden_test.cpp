// Tests the rule of ARCHITECTURE.md, "Determinism", with the prefix tree: forty mixed jobs, many of
// which begin alike, give the same tokens, text, logprob bits and finish reasons alone and
// together, in any order, on a cold tree and a warm one, in a pool that pauses them, and in chunks
// of any size.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "engine/core/prefix/folder_store.hpp"
#include "schemas/base/log.hpp"
#include "tests/golden/engine_fixture.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t jobs = 40;

Tokens prompt_of(std::uint32_t seed, std::uint32_t size) {
  Tokens out;
  for (std::uint32_t i = 0; i < size; ++i) out.push_back(1000 + (seed * 7919 + i * 104729) % 48000);
  return out;
}

// Prompts of three kinds: unrelated ones, forks of two families at any place, and repeated ones.
Tokens prompt(std::uint32_t index) {
  if (index % 8 == 7) return prompt(index - 5);
  Tokens out = index % 4 == 0 ? Tokens() : prompt_of(500 + index % 2, 20 + index * 13 % 70);
  const Tokens own = prompt_of(index, 4 + index * 17 % 40);
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

GenerationRequest job(std::uint32_t index) {
  GenerationRequest r;
  r.prompt = prompt(index);
  r.max_tokens = index % 5 == 1 ? 100 : 8 + index % 11;  // long ones exceed their forecast
  r.min_tokens = index % 9;
  r.n = index % 10 == 3 ? 2 : 1;
  r.sampling.seed = 1000 + index;
  r.sampling.temperature = index % 3 == 0 ? 0.0f : 0.6f + 0.2f * static_cast<float>(index % 4);
  if (index % 4 == 1) r.sampling.top_k = 50;
  if (index % 4 == 2) r.sampling.top_p = 0.85f;
  if (index % 4 == 3) r.sampling.min_p = 0.03f;
  r.stops.ignore_eos = index % 2 == 0;
  if (index % 6 == 2) r.stops.strings = {"e", " the"};
  r.logprobs.sampled = index % 3 != 2;
  r.logprobs.prompt = index % 9 == 4;
  r.logprobs.top = r.logprobs.sampled || r.logprobs.prompt ? index % 6 : 0;
  r.logprobs.mode = index % 5 == 2 ? LogprobMode::processed : LogprobMode::raw;
  return r;
}

EngineOptions with_prefix_cache(std::uint32_t chunk) {
  EngineOptions options = model_options();
  options.prefix_cache = true;
  options.prefill_chunk = chunk;
  return options;
}

// The results of the jobs one at a time, on an engine that keeps nothing from job to job.
const std::vector<Ended>& alone() {
  static const std::vector<Ended> results = [] {
    std::vector<Ended> out;
    for (std::uint32_t i = 0; i < jobs; ++i) out.push_back(ended(run_one(shared_engine(), job(i))));
    return out;
  }();
  return results;
}

template <class When>
JobsRun expect_same(Engine& engine, When when, const char* what) {
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < jobs; ++i) arrivals.push_back({when(i), i, job(i), -1});
  JobsRun run = run_jobs(engine, arrivals);
  for (std::uint32_t i = 0; i < jobs; ++i) {
    EXPECT_EQ(ended(run.events.at(i).result), alone()[i]) << what << ", job " << i;
  }
  EXPECT_EQ(engine.counters().kv_pages_used, 0u);
  return run;
}

std::uint64_t cached(const JobsRun& run) {
  std::uint64_t out = 0;
  for (const auto& [id, event] : run.events) out += event.result.usage.cached_tokens;
  return out;
}

TEST(PrefixTree, TheJobsAreAsMixedAsTheyShouldBe) {
  std::map<FinishReason, int> reasons;
  for (const Ended& one : alone()) {
    for (const FinishReason reason : one.reasons) ++reasons[reason];
  }
  EXPECT_GT(reasons[FinishReason::stop], 3);
  EXPECT_GT(reasons[FinishReason::length], 20);
}

TEST(PrefixTree, OneAtATimeAllAtOnceColdAndWarm) {
  const auto engine = open_engine(with_prefix_cache(512));
  const JobsRun cold = expect_same(
      *engine, [](std::uint32_t) { return 0; }, "all at once, cold");
  EXPECT_GE(cold.most_rows, 20u);
  EXPECT_GT(cached(cold), 300u);  // jobs that came in the same step share pages, too
  const JobsRun warm = expect_same(
      *engine, [](std::uint32_t) { return 0; }, "all at once, warm");
  EXPECT_GT(cached(warm), cached(cold));
  for (std::uint32_t i = 0; i < jobs; i += 6) {
    EXPECT_EQ(ended(run_one(*engine, job(i))), alone()[i]) << "alone, warm, job " << i;
  }
}

TEST(PrefixTree, RandomOrderAndArrival) {
  const auto engine = open_engine(with_prefix_cache(64));
  std::mt19937 random(1);
  std::vector<int> when(jobs);
  for (int& step : when) step = static_cast<int>(random() % 60);
  expect_same(
      *engine, [&](std::uint32_t i) { return when[i]; }, "random arrival");
}

TEST(PrefixTree, APoolThatPausesOften) {
  EngineOptions options = with_prefix_cache(16);
  const std::uint64_t token_bytes =
      model_options().kv_memory_bytes / shared_engine().info().kv_pool_tokens;
  options.kv_memory_bytes = token_bytes * 288;
  const auto engine = open_engine(options);
  // The long jobs come first: the engine admits two that cannot both end in this pool.
  const auto when = [](std::uint32_t i) { return i % 5 == 1 ? 0 : 1 + static_cast<int>(i) / 4; };
  EXPECT_GT(expect_same(*engine, when, "a small pool").pauses, 0u);
}

class PrefixDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("millrace-prefix-" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Engine> open(std::uint32_t chunk) {
    EngineOptions options = with_prefix_cache(chunk);
    options.prefix_folder = folder_.string();
    return open_engine(options);
  }
  std::filesystem::path folder_;
};

TEST_F(PrefixDisk, FromDiskAfterARestart) {
  const auto at_once = [](std::uint32_t) { return 0; };
  expect_same(*open(256), at_once, "before a restart");
  const auto engine = open(64);
  expect_same(*engine, at_once, "from disk");
  EXPECT_GT(engine->counters().disk_tokens, 200u);
}

TEST_F(PrefixDisk, ASharedSystemPromptIsAnsweredFromDiskAfterARestart) {
  GenerationRequest r;
  const std::string rules = "You sort letters. You never explain. You answer in one word. ";
  r.prompt = Chat{{"system", rules + rules + rules}, {"user", "Is this one about money?"}};
  r.max_tokens = 8;
  r.sampling.temperature = 0;
  r.logprobs.sampled = true;
  const Ended cold = ended(run_one(shared_engine(), r));
  EXPECT_EQ(ended(run_one(*open(256), r)), cold);
  const auto engine = open(256);
  const GenerationResult warm = run_one(*engine, r);
  EXPECT_EQ(ended(warm), cold);
  EXPECT_GE(warm.usage.cached_tokens, 32u);
  EXPECT_EQ(engine->counters().disk_tokens, warm.usage.cached_tokens);
}

// Engines that share a store of prefixes.
class PrefixStore : public PrefixDisk {
 protected:
  void SetUp() override {
    PrefixDisk::SetUp();
    std::filesystem::create_directories(folder_);
    set_up_logging({LogLevel::warn, false, [this](std::string_view line) {
                      const std::lock_guard lock(log_mutex_);
                      log_ += line;
                    }});
    const std::string rules = "You sort letters. You never explain. You answer in one word. ";
    request_.prompt = Chat{{"system", rules + rules + rules}, {"user", "Is this about money?"}};
    request_.max_tokens = 8;
    request_.sampling.temperature = 0;
    request_.logprobs.sampled = true;
  }
  void TearDown() override {
    set_up_logging({LogLevel::off, false, {}});
    PrefixDisk::TearDown();
  }
  std::unique_ptr<Engine> open_shared(std::uint64_t bytes = limits::GiB,
                                      const std::string& kv = "f16") {
    EngineOptions options = with_prefix_cache(256);
    options.kv = kv;
    options.prefix_disk_bytes = bytes;
    options.prefix_store = [this] { return std::make_unique<FolderStore>(folder_.string()); };
    return open_engine(options);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) out.push_back(entry);
    return out;
  }
  std::string log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  GenerationRequest request_;
  std::mutex log_mutex_;
  std::string log_;
};

// Two engines at once: what the first has computed, the second reads, and nothing else changes.
TEST_F(PrefixStore, WhatOneEngineComputesTheOtherReads) {
  const Ended cold = ended(run_one(shared_engine(), request_));
  const auto first = open_shared();
  EXPECT_EQ(ended(run_one(*first, request_)), cold);
  run_one(*first, request_);  // whose steps carry out what is to be saved
  while (first->counters().disk_unwritten_bytes > 0) std::this_thread::yield();
  ASSERT_FALSE(files().empty());
  const auto second = open_shared();
  const GenerationResult read = run_one(*second, request_);
  EXPECT_EQ(ended(read), cold);
  EXPECT_GE(read.usage.cached_tokens, 32u);
  EXPECT_EQ(second->counters().disk_tokens, read.usage.cached_tokens);
  EXPECT_EQ(log(), "");
}

TEST_F(PrefixStore, MixedJobsOfTwoEnginesKeepTheirBits) {
  const auto at_once = [](std::uint32_t) { return 0; };
  expect_same(*open_shared(), at_once, "the first engine");
  const auto second = open_shared();
  expect_same(*second, at_once, "the second engine");
  EXPECT_GT(second->counters().disk_tokens, 200u);
  EXPECT_EQ(log(), "");
}

TEST_F(PrefixStore, DamagedFilesAreRefusedAndComputedAgain) {
  const Ended cold = ended(run_one(shared_engine(), request_));
  EXPECT_EQ(ended(run_one(*open_shared(), request_)), cold);
  const auto before = files();
  ASSERT_FALSE(before.empty());
  for (const auto& file : before) {  // in its last page
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(-1, std::ios::end)
        << 'x';
  }
  {
    const auto engine = open_shared();
    const GenerationResult again = run_one(*engine, request_);
    EXPECT_EQ(ended(again), cold);
    EXPECT_EQ(again.usage.cached_tokens, 0u);
    EXPECT_NE(log().find("a prefix segment cannot be used and is removed"), std::string::npos)
        << log();
    EXPECT_NE(log().find("checksum"), std::string::npos) << log();
  }
  const auto engine = open_shared();  // the one before it has saved them anew
  const GenerationResult read = run_one(*engine, request_);
  EXPECT_EQ(ended(read), cold);
  EXPECT_GE(read.usage.cached_tokens, 32u);
}

TEST_F(PrefixStore, AnotherKvPolicyReadsNothing) {
  run_one(*open_shared(), request_);
  const auto before = files();
  {
    const auto other = open_shared(limits::GiB, "q8");
    EXPECT_EQ(run_one(*other, request_).usage.cached_tokens, 0u);
    EXPECT_EQ(other->counters().disk_tokens, 0u);
  }
  EXPECT_EQ(files().size(), 2 * before.size());  // it has saved its own
  EXPECT_EQ(log(), "");
}

TEST_F(PrefixStore, TwoEnginesKeepTheBound) {
  constexpr std::uint64_t bytes = 2 * limits::MiB;  // less than two beginnings
  {
    const auto first = open_shared(bytes), second = open_shared(bytes);
    for (std::uint32_t i = 0; i < 4; ++i) {
      GenerationRequest r = request_;
      Chat& chat = std::get<Chat>(r.prompt);
      chat[0].content = "Rule " + std::to_string(i) + ": " + *chat[0].content;
      r.max_tokens = 2;
      EXPECT_EQ(ended(run_one(i % 2 == 0 ? *first : *second, r)),
                ended(run_one(shared_engine(), r)));
    }
  }
  std::uint64_t total = 0;
  for (const auto& file : files()) total += std::filesystem::file_size(file);
  EXPECT_LE(total, bytes);
  EXPECT_GT(total, 0u);
  EXPECT_EQ(log(), "");
}

TEST(PrefixTree, CachedTokensAreReportedAndTheLastOneIsComputed) {
  const auto engine = open_engine(with_prefix_cache(256));
  GenerationRequest r;
  r.sampling.temperature = 0;
  r.max_tokens = 40;
  r.stops.ignore_eos = true;
  r.prompt = prompt_of(9, 96);
  const GenerationResult first = run_one(*engine, r);
  EXPECT_EQ(first.usage.cached_tokens, 0u);
  const GenerationResult again = run_one(*engine, r);
  EXPECT_EQ(again.usage.cached_tokens, 95u);  // five pages, and a copy of the sixth
  EXPECT_EQ(ended(again), ended(first));
  // In the next turn of a chat, prompt and answer are cached up to the last whole page.
  Tokens next = prompt_of(9, 96);
  next.insert(next.end(), first.choices[0].tokens.begin(), first.choices[0].tokens.end());
  next.push_back(1234);
  r.prompt = next;
  EXPECT_EQ(run_one(*engine, r).usage.cached_tokens, 128u);
  EXPECT_EQ(engine->counters().prefix_hits, 2u);
  EXPECT_EQ(engine->counters().prefix_tokens, 95u + 128);
}

// Guards against a defect that engines have had, a shared RoPE offset: rows share pages, each at
// its own positions.
TEST(PrefixTree, RowsThatSharePagesKeepTheirOwnPositions) {
  const auto engine = open_engine(with_prefix_cache(256));
  std::vector<Arrival> arrivals;
  for (const std::uint32_t own : {1u, 17u, 33u, 70u}) {
    GenerationRequest r;
    r.prompt = prompt_of(11, 40);
    const Tokens rest = prompt_of(own, own);
    auto& prompt = std::get<Tokens>(r.prompt);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    r.max_tokens = 8;
    r.sampling.temperature = 0;
    r.logprobs.sampled = true;
    r.stops.ignore_eos = true;
    arrivals.push_back({0, own, r, -1});
  }
  const JobsRun run = run_jobs(*engine, arrivals);
  // Where a slow machine cuts the step, a later prompt also takes the eight tokens beyond the page.
  EXPECT_GE(cached(run), 3u * 32);
  EXPECT_LE(cached(run), 3u * 40);
  EXPECT_GE(run.most_rows, 4u);
  for (const Arrival& a : arrivals) {
    EXPECT_EQ(ended(run.events.at(a.id).result), ended(run_one(shared_engine(), a.request)));
  }
}

TEST(PrefixTree, NoStalePromptLogprobs) {
  const auto engine = open_engine(with_prefix_cache(256));
  GenerationRequest plain;
  plain.prompt = prompt_of(3, 100);
  plain.max_tokens = 4;
  plain.sampling.temperature = 0;
  GenerationRequest scored = plain;
  scored.logprobs.prompt = true;
  scored.logprobs.top = 2;
  const Ended cold = ended(run_one(shared_engine(), scored));
  run_one(*engine, plain);
  const GenerationResult warm = run_one(*engine, scored);
  EXPECT_EQ(warm.usage.cached_tokens, 0u);
  EXPECT_EQ(warm.prompt_logprobs->token.size(), 100u);
  EXPECT_EQ(ended(warm), cold);
  scored.n = 2;  // the second sample may read what the first one must not
  GenerationResult two = run_one(*engine, scored);
  two.choices.resize(1);
  EXPECT_EQ(ended(two), cold);
}

}  // namespace
}  // namespace millrace::engine
