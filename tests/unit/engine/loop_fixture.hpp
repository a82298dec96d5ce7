#pragma once
// The engine loop over a scripted device and the test model's tokenizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "engine/core/request/engine_loop.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {

// A runner that gives the tokens of a script and can make steps fail.
class ScriptedRunner final : public StepRunner {
 public:
  std::function<Sampled(const SampleTask&)> script;
  std::function<bool()> forward_fails, sample_fails, wait_fails;
  bool lost = false;
  std::vector<std::size_t> banned;  // how many ids, of every task so far
  std::string calls;                // "f", "s" and "w" for each forward, sample and wait

  Status enqueue_forward(const StepPlan&) override {
    if (forward_fails && forward_fails()) {
      return fail(Code::out_of_memory, "no memory", "free some");
    }
    calls += 'f';
    return {};
  }
  Status enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) override {
    if (sample_fails && sample_fails()) {
      return fail(Code::out_of_memory, "no memory", "free some");
    }
    std::vector<Sampled> rows;
    for (const SampleTask& task : tasks) {
      rows.push_back(script(task));
      banned.push_back(task.banned.size());
    }
    batch.assign(rows);
    calls += 's';
    failures_.push_back(wait_fails && wait_fails());
    return {};
  }
  Status wait(SampleBatch&) override {
    const bool fails = failures_.front();
    failures_.pop_front();
    calls += 'w';
    if (fails) return fail(Code::device_error, "the kernel broke", "look at it");
    return {};
  }
  std::size_t under_way() const { return failures_.size(); }
  Status check_device() override {
    if (lost) return fail(Code::device_error, "the device is gone", "restart");
    return {};
  }

 private:
  std::deque<bool> failures_;
};

struct HostParts {
  Tokenizer tokenizer;
  Result<ChatTemplate> chat_template;
};

inline const HostParts& host_parts() {
  static const HostParts parts = [] {
    auto file = GgufFile::open(testing_support::model_path());
    if (!file) testing_support::missing(file.error().text());
    auto tokenizer = Tokenizer::load(file->metadata());
    if (!tokenizer) testing_support::missing(tokenizer.error().text());
    const auto source = file->metadata().get<std::string_view>("tokenizer.chat_template");
    if (!source) testing_support::missing(source.error().text());
    return HostParts{*std::move(tokenizer), ChatTemplate::parse(*source)};
  }();
  return parts;
}

class LoopTest : public ::testing::Test {
 protected:
  static constexpr TokenId end_of_text = 2;

  void open(std::uint32_t pages = 64, const SchedulerOptions& options = {}) {
    loop_.reset();  // gives its pages back
    const PoolSize sizes[] = {{pages}};
    pools_ = std::make_unique<CachePools>(16, sizes, 1024);
    context_.tokenizer = &host_parts().tokenizer;
    context_.chat_template = &host_parts().chat_template;
    context_.pools = pools_.get();
    context_.context_tokens = 2048;
    context_.vocabulary = host_parts().tokenizer.vocabulary_size();
    context_.kv_names = {"f16", "f16/f16 x30"};
    context_.fingerprint = "f00d";
    LoopOptions loop;
    loop.scheduler = options;
    loop.engine.model = "scripted";
    loop.engine.fingerprint = "f00d";
    runner_.script = [this](const SampleTask& task) { return scripted(task); };
    loop_ = std::make_unique<EngineLoop>(loop, context_, *pools_, runner_, clock_);
  }

  // Returns the token that the task forces, or the one at its position in the script of the
  // request, which its seed names, or end of text after the script.
  Sampled scripted(const SampleTask& task) const {
    Sampled out;
    out.logprob = task.draw && !task.logprob ? std::numeric_limits<float>::quiet_NaN() : -0.5f;
    out.id = task.target;
    if (task.draw && task.sampling.seed) {  // without one: of a sequence that has ended
      const auto& [script, prompt] = scripts_.at(*task.sampling.seed);
      const std::size_t at = task.position - prompt;
      out.id = task.forced.value_or(at < script.size() ? script[at] : end_of_text);
    }
    static const std::vector<std::uint32_t> ids(128, 7);
    static const std::vector<float> logprobs(128, -1.0f);
    out.top_ids = std::span(ids).first(task.top);
    out.top_logprobs = std::span(logprobs).first(task.top);
    out.listed_logprobs = std::span(logprobs).first(task.listed.size());
    return out;
  }

  // Returns a request of `prompt` tokens whose draws spell `text`.
  GenerationRequest request(std::uint64_t seed, std::uint32_t prompt, const std::string& text,
                            std::uint32_t max_tokens = 50) {
    scripts_[seed] = {host_parts().tokenizer.tokenize(text, {}), prompt};
    GenerationRequest out;
    out.prompt = Tokens(prompt, 100);
    out.max_tokens = max_tokens;
    out.sampling.seed = seed;
    return out;
  }

  std::vector<Event> run(int limit = 1000) {
    std::vector<Event> events;
    while (loop_->busy() && limit-- > 0) {
      clock_.advance_us(1000);
      EXPECT_TRUE(loop_->step(events));
    }
    EXPECT_FALSE(loop_->busy());
    EXPECT_EQ((*pools_)[0].used(), 0u);
    return events;
  }
  static const Event& of(const std::vector<Event>& events, RequestId id) {
    static const Event none;
    const auto found =
        std::find_if(events.begin(), events.end(), [&](const Event& e) { return e.id == id; });
    EXPECT_NE(found, events.end()) << "no event of request " << id;
    return found == events.end() ? none : *found;
  }

  std::map<std::uint64_t, std::pair<Tokens, std::uint32_t>> scripts_;  // and the prompt's size
  std::unique_ptr<CachePools> pools_;
  RequestContext context_;
  ScriptedRunner runner_;
  ManualClock clock_;
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace millrace::engine
