#pragma once
// Runs the engine on the test model, with jobs that arrive step by step.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine.hpp"
#include "tests/support/device.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {

// Each program is compiled for one math mode.
#ifndef MILLRACE_TEST_MATH
#define MILLRACE_TEST_MATH exact
#endif
// The namespace has the mode's name, because tests/core links programs of both modes into one.
inline namespace MILLRACE_TEST_MATH {

inline EngineOptions model_options() {
  EngineOptions options;
  options.math = MathMode::MILLRACE_TEST_MATH;
  options.model_path = testing_support::model_path();
  options.kv_memory_bytes = 256 * limits::MiB;
  options.prefix_cache = false;  // computes every job; tests of the prefix tree turn it on
  options.kernel_variant = millrace::testing::test_variant();
  return options;
}

inline std::unique_ptr<Engine> open_engine(const EngineOptions& options) {
  auto engine = Engine::create(options);
  if (!engine) testing_support::missing("a working engine: " + engine.error().text());
  return *std::move(engine);
}

// The engine is opened on first use and kept, because loading takes a second.
inline Engine& shared_engine() {
  static const std::unique_ptr<Engine> engine = open_engine(model_options());
  return *engine;
}

struct Arrival {
  int step = 0;  // the job is added before this step
  RequestId id = 0;
  GenerationRequest request;
  int cancel_step = -1;  // the job is cancelled before this step; -1: never
  std::uint32_t priority = limits::priority_default;
};

struct JobsRun {
  std::map<RequestId, Event> events;
  std::uint32_t most_rows = 0;
  std::uint64_t pauses = 0;
  int steps = 0;
};

inline JobsRun run_jobs(Engine& engine, const std::vector<Arrival>& arrivals) {
  JobsRun run;
  const std::uint64_t pauses = engine.counters().pauses;
  std::vector<Event> events;
  int last = 0;
  for (const Arrival& a : arrivals) last = std::max(last, std::max(a.step, a.cancel_step));
  for (; run.steps <= last || engine.busy(); ++run.steps) {
    for (const Arrival& a : arrivals) {
      if (a.step == run.steps) {
        const Status status = engine.add(a.id, a.request, a.priority);
        EXPECT_TRUE(status) << status.error().text();
      }
      if (a.cancel_step == run.steps) engine.cancel(a.id);
    }
    const Status status = engine.step(events);
    EXPECT_TRUE(status) << status.error().text();
    if (!status) break;
    run.most_rows = std::max(run.most_rows, engine.counters().last_rows);
  }
  for (Event& event : events) {
    if (event.error) ADD_FAILURE() << event.error->text();
    run.events[event.id] = std::move(event);
  }
  run.pauses = engine.counters().pauses - pauses;
  return run;
}

inline GenerationResult run_one(Engine& engine, const GenerationRequest& request) {
  JobsRun run = run_jobs(engine, {{0, 1, request, -1}});
  return std::move(run.events[1].result);
}

// The tokens and the bits of every logprob of a result.
using Bits = std::vector<std::uint32_t>;
inline void append_bits(Bits& bits, const TokenLogprobs& logprobs) {
  for (const float x : logprobs.token) bits.push_back(std::bit_cast<std::uint32_t>(x));
  bits.insert(bits.end(), logprobs.top_ids.begin(), logprobs.top_ids.end());
  for (const float x : logprobs.top_logprobs) bits.push_back(std::bit_cast<std::uint32_t>(x));
  if (!logprobs.listed) return;
  for (const float x : logprobs.listed->logprobs) bits.push_back(std::bit_cast<std::uint32_t>(x));
}
inline Bits bits_of(const GenerationResult& result) {
  Bits bits;
  for (const Choice& choice : result.choices) {
    bits.push_back(static_cast<std::uint32_t>(choice.tokens.size()));
    bits.insert(bits.end(), choice.tokens.begin(), choice.tokens.end());
    if (choice.logprobs) append_bits(bits, *choice.logprobs);
  }
  if (result.prompt_logprobs) append_bits(bits, *result.prompt_logprobs);
  return bits;
}

// The parts of a result that must not depend on what shares the batch.
struct Ended {
  Bits bits;
  std::vector<std::string> texts;
  std::vector<FinishReason> reasons;
  // What stopped each choice, and the marked parts of its text.
  std::vector<std::optional<std::string>> stop_strings, reasonings;
  std::vector<std::optional<TokenId>> stop_tokens;
  std::vector<std::optional<Tokens>> stop_sequences;
  std::vector<std::vector<std::string>> tool_calls;
  friend bool operator==(const Ended&, const Ended&) = default;
};

inline Ended ended(const GenerationResult& result) {
  Ended out;
  out.bits = bits_of(result);
  for (const Choice& choice : result.choices) {
    out.stop_strings.push_back(choice.stop_string);
    out.stop_tokens.push_back(choice.stop_token);
    out.stop_sequences.push_back(choice.stop_sequence);
    out.reasonings.push_back(choice.reasoning);
    out.tool_calls.push_back(choice.tool_calls);
    out.texts.push_back(choice.text);
    out.reasons.push_back(choice.finish_reason);
  }
  return out;
}

}  // namespace MILLRACE_TEST_MATH
}  // namespace millrace::engine
