// ARCHITECTURE.md, "Determinism", run by run: tokens, text, logprob bits and finish reasons of jobs
// of every kind are the same one at a time, all at once, in any order of arrival, in a pool so
// small that rows are paused again and again, with a cold prefix tree, a warm one and one from
// disk, with every size of chunks, and whether logprobs are asked for or not.
//
// It runs 40 jobs on a tiny model, or MILLRACE_SAME_BITS_JOBS of them;
// MILLRACE_SAME_BITS_MODEL=test takes the test model. It covers f16 and packed keys and values; the
// long tests cover every preset, and models with sliding windows, soft caps and sinks.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/kv/key_means.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "schemas/base/env.hpp"
#include "tests/unit/engine/random_jobs.hpp"

namespace millrace::engine {
namespace {

struct Kv {
  const char* policy;
  bool centered = false;
  bool shaped = false;  // a sliding window, soft-capped scores and sinks
  // Another family than llama: gemma2, whose first layer has a window and whose second has none; or
  // mixtral, whose feed-forwards are experts.
  std::string_view family{};
};

void make_gemma2(testing::TinyModel& model) {
  model.architecture = "gemma2";
  model.layer_tensors = {{"post_attention_norm", {model.width}}, {"post_ffw_norm", {model.width}}};
  model.attention.window = 37;
  model.tied = true;
  model.biases = false;
}

void make_mixtral(testing::TinyModel& model) {
  const std::uint64_t width = model.width, ffn = model.ffn_width, experts = 8;
  model.counts = {{"expert_count", 8}, {"expert_used_count", 2}};
  model.biases = false;
  model.layer_tensors = {{"ffn_gate_inp", {width, experts}},
                         {"ffn_gate_exps", {width, ffn, experts}},
                         {"ffn_up_exps", {width, ffn, experts}},
                         {"ffn_down_exps", {ffn, width, experts}}};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.types[layer + "ffn_gate_inp.weight"] = TensorType::f32;
    for (const char* name : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) {
      model.absent.push_back(layer + name);
    }
  }
}

// One test for each KV policy.
class SameBits : public TinyEngine, public ::testing::WithParamInterface<Kv> {
 protected:
  void SetUp() override {
    TinyEngine::SetUp();
    if (const char* jobs = std::getenv("MILLRACE_SAME_BITS_JOBS")) {
      jobs_ = static_cast<std::uint32_t>(std::stoul(jobs));
    }
    const char* model = std::getenv("MILLRACE_SAME_BITS_MODEL");
    real_ = model != nullptr && std::string(model) == "test";
    options_.kv = GetParam().policy;
    options_.kv_memory_bytes = (real_ ? 256 : 1) * limits::MiB;
    if (options_.kv == "f32") options_.kv_memory_bytes *= 2;  // as many tokens as with f16
    // As a user's model: integer products, and on a CPU all layers in one launch.
    model_.type = TensorType::q4_1;
    model_.width = 128;
    model_.heads = 2;  // of 64 channels, as packed codes want them
    model_.kv_heads = 1;
    if (GetParam().shaped) model_.attention = {.window = 37, .soft_cap = 5, .sinks = true};
    if (GetParam().family == "gemma2") make_gemma2(model_);
    if (GetParam().family == "mixtral") make_mixtral(model_);
    if (real_ && (GetParam().shaped || !GetParam().family.empty())) {
      GTEST_SKIP() << "the test model is a plain llama";
    }
    options_.prefix_cache = false;  // until a run asks for it
    options_.max_batch = 40;
    options_.step_tokens = 160;
    roomy_ = open(options_);
    if (GetParam().centered) {
      const std::string uncentered = roomy_->info().profile.facts.fingerprint;
      options_.kv_center = write_means();
      roomy_ = open(options_);
      ASSERT_NE(roomy_->info().profile.facts.fingerprint, uncentered);
      ASSERT_NE(roomy_->info().profile.facts.kv.find(", keys centered by "), std::string::npos);
    }
    // If all cache groups had as many pages; pages are rounded up.
    const double exact_bytes = roomy_->info().profile.facts.kv_bytes_per_token;
    token_bytes_ = static_cast<std::uint64_t>(exact_bytes) + 8;
    // Runs one job at a time, each alone in an engine; the second time with a stop machine made for
    // it.
    for (std::uint32_t i = 0; i < jobs_; ++i) {
      requests_.push_back(random_job(i, roomy_->info().vocabulary));
      if (i % 5 > 0 && requests_[i].task == Task::generate) {
        requests_[i].min_tokens = 0;
        const GenerationResult seen = run_one(*roomy_, requests_[i]);
        requests_[i] = with_stop_machine(requests_[i], seen.choices.at(0), i % 5);
      }
      alone_.push_back(run_one(*roomy_, requests_[i]));
    }
  }

  // Writes mean keys of the model that was opened, with any values.
  std::string write_means() const {
    const std::string tiny = folder_ / "tiny.gguf";
    const auto file =
        millrace::testing::must(GgufFile::open(real_ ? testing_support::model_path() : tiny));
    const ModelSpec spec = millrace::testing::must(read_spec(file));
    KeyMeans means{.model = hash_model_file(file), .shape = kv_shape(spec)};
    millrace::testing::Random random(8);
    means.values = random.floats(means.shape.channels(), -1, 1);
    const std::string path = folder_ / "means";
    millrace::testing::must(write_file_atomically(*posix_env(), path, encode_key_means(means)));
    return path;
  }

  // Checks that the test covers kernels that share work by a counter, among them whole layers.
  void expect_whole_layers() const {
    const Counters before = roomy_->counters();
    GenerationRequest plain;
    plain.prompt = Tokens{1, 2, 3};
    plain.max_tokens = 9;
    plain.sampling.seed = 1;
    run_one(*roomy_, plain);
    const Counters after = roomy_->counters();
    // Gemma's two layers take a launch each, and its logits one for their cap.
    const std::uint64_t most = GetParam().family.empty() ? 6 : 8;
    EXPECT_LE(after.launches - before.launches, most * (after.steps - before.steps));
  }

  // Checks that the test covers every way to end, and parts, among them one that was closed.
  void expect_all_ends() const {
    std::size_t lengths = 0, strings = 0, sequences = 0, loops = 0, reasonings = 0, calls = 0;
    std::size_t closed = 0;
    for (std::uint32_t i = 0; i < jobs_; ++i) {
      for (const Choice& choice : alone_[i].choices) {
        closed += requests_[i].max_reasoning_tokens && choice.reasoning;
        lengths += choice.finish_reason == FinishReason::length;
        loops += choice.finish_reason == FinishReason::repetition;
        strings += choice.stop_string.has_value();
        sequences += choice.stop_sequence.has_value();
        reasonings += choice.reasoning.has_value();
        calls += choice.tool_calls.size();
      }
    }
    EXPECT_TRUE(lengths > 0 && strings > 0 && sequences > 0 && loops > 0 && reasonings > 0 &&
                calls > 0 && closed > 0)
        << lengths << ' ' << strings << ' ' << sequences << ' ' << loops << ' ' << reasonings << ' '
        << calls << ' ' << closed;
  }

  std::unique_ptr<Engine> open(const EngineOptions& options) const {
    if (!real_) return millrace::testing::must(create(tiny_vocabulary, "", options));
    EngineOptions with_path = options;
    with_path.model_path = testing_support::model_path();
    return open_engine(with_path);
  }

  // Jobs in the order of `order`, the i-th of them before step i / `apart`; 0: all before the
  // first.
  std::vector<Arrival> arrivals(const std::vector<std::uint32_t>& order,
                                std::uint32_t apart = 0) const {
    std::vector<Arrival> out;
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      out.push_back(
          {apart == 0 ? 0 : static_cast<int>(i / apart), order[i], requests_[order[i]], -1});
    }
    return out;
  }
  std::vector<std::uint32_t> in_order() const {
    std::vector<std::uint32_t> out(jobs_);
    std::iota(out.begin(), out.end(), 0u);
    return out;
  }
  std::vector<std::uint32_t> shuffled(std::uint32_t seed) const {
    std::vector<std::uint32_t> out = in_order();
    std::shuffle(out.begin(), out.end(), Draw(seed));
    return out;
  }

  JobsRun expect_same(const char* name, Engine& engine, const std::vector<Arrival>& load) const {
    const JobsRun run = run_jobs(engine, load);
    for (const Arrival& a : load) {
      EXPECT_EQ(ended(run.events.at(a.id).result), ended(alone_[a.id])) << name << ", job " << a.id;
    }
    EXPECT_EQ(engine.counters().kv_pages_used, 0u) << name;
    return run;
  }

  // The windowed group has 15 pages, less than one of the jobs' texts would need. Two sequences at
  // a time take them from each other, from the tree and from the disk.
  void expect_same_where_windows_move(EngineOptions options) const {
    options.max_batch = 2;
    options.step_tokens = options.prefill_chunk = 16;
    options.kv_memory_bytes = token_bytes_ * 400;
    options.prefix_folder = (folder_ / "windows").string();
    for (const std::uint32_t seed : {6u, 7u}) {  // the second time from disk, too
      const auto small = open(options);
      const std::uint64_t tokens = small->info().kv_pool_tokens;
      EXPECT_EQ(small->counters().kv_pages_total, tokens / 16 + 15);
      EXPECT_GT(tokens, 400u);
      std::vector<Arrival> load;
      for (const std::uint32_t i : shuffled(seed)) {
        const GenerationRequest& fits = requests_[i];
        if (std::get<Tokens>(fits.prompt).size() + fits.max_tokens.value_or(0) > tokens) continue;
        load.push_back({static_cast<int>(load.size()) * 3, i, fits, -1, 4 - i % 5});
      }
      EXPECT_GE(expect_same("in a small windowed group", *small, load).pauses, jobs_ / 8);
      EXPECT_GT(small->counters().prefix_tokens, jobs_);
    }
  }

  bool real_ = false;
  std::uint32_t jobs_ = 40;
  EngineOptions options_;
  std::unique_ptr<Engine> roomy_;
  std::uint64_t token_bytes_ = 0;
  std::vector<GenerationRequest> requests_;
  std::vector<GenerationResult> alone_;
};

TEST_P(SameBits, HoweverTheJobsAreRun) {
  if (millrace::testing::has_cpu_family()) expect_whole_layers();
  expect_all_ends();
  EXPECT_GE(expect_same("all at once", *roomy_, arrivals(in_order())).most_rows,
            std::min(jobs_, 30u));
  expect_same("in random order, a few a step", *roomy_, arrivals(shuffled(1), 3));
  std::vector<Arrival> random = arrivals(shuffled(2));
  Draw draw(3);
  for (Arrival& a : random) {
    a.step = static_cast<int>(below(draw, jobs_ * 2));
    a.priority = below(draw, limits::priority_count);
  }
  expect_same("at random times, with random priorities", *roomy_, random);

  EngineOptions cached = options_;
  cached.prefix_cache = true;
  const auto tree = open(cached);
  expect_same("into a cold tree", *tree, arrivals(in_order()));
  const std::uint64_t cold = tree->counters().prefix_tokens;
  expect_same("from a warm tree", *tree, arrivals(shuffled(4), 3));
  EXPECT_GT(tree->counters().prefix_tokens, cold + jobs_);

  EngineOptions kept = cached;
  kept.prefix_folder = (folder_ / "prefix").string();
  expect_same("before a restart", *open(kept), arrivals(in_order()));
  const auto restarted = open(kept);
  expect_same("from disk after a restart", *restarted, arrivals(shuffled(5)));
  EXPECT_GT(restarted->counters().disk_tokens, jobs_);

  std::uint64_t pauses = 0;
  for (const std::uint32_t tokens : {160u, 208u, 288u, 400u}) {
    EngineOptions tight = tokens % 32 == 0 ? cached : options_;
    tight.kv_memory_bytes = token_bytes_ * tokens;
    std::vector<Arrival> pressing;  // jobs that fit; many arrive after less urgent ones
    for (const std::uint32_t i : shuffled(tokens)) {
      const GenerationRequest& fits = requests_[i];
      if (std::get<Tokens>(fits.prompt).size() + fits.max_tokens.value_or(0) > tokens) continue;
      pressing.push_back({static_cast<int>(pressing.size()), i, fits, -1, 4 - i % 5});
    }
    EXPECT_GE(pressing.size(), jobs_ / 2);
    pauses += expect_same("in a tiny pool", *open(tight), pressing).pauses;
  }
  EXPECT_GE(pauses, jobs_ / 8);

  if (GetParam().family == "gemma2") expect_same_where_windows_move(cached);

  for (const std::uint32_t chunk : {16u, 64u, 512u}) {
    EngineOptions chunked = options_;
    chunked.prefill_chunk = chunk;
    chunked.step_tokens = std::max(160u, chunk);
    const std::string name = "chunks of " + std::to_string(chunk);
    expect_same(name.c_str(), *open(chunked), arrivals(shuffled(chunk)));
  }

  std::vector<Arrival> silent = arrivals(in_order());
  for (Arrival& a : silent) {
    if (a.request.task == Task::generate) a.request.logprobs = {};
  }
  const JobsRun run = run_jobs(*roomy_, silent);
  for (std::uint32_t i = 0; i < jobs_; ++i) {
    const GenerationResult& result = run.events.at(i).result;
    ASSERT_EQ(result.choices.size(), alone_[i].choices.size());
    for (std::size_t c = 0; c < result.choices.size(); ++c) {
      const Choice &got = result.choices[c], &want = alone_[i].choices[c];
      EXPECT_EQ(got.tokens, want.tokens) << "without logprobs, job " << i;
      EXPECT_EQ(got.text, want.text) << i;
      EXPECT_EQ(got.finish_reason, want.finish_reason) << i;
      EXPECT_FALSE(got.logprobs) << i;
    }
  }
}

const auto name_of = [](const auto& kv) {
  std::string name(kv.param.policy);  // gtest takes letters, digits and _
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name + (kv.param.centered ? "_centered" : "") + (kv.param.shaped ? "_shaped" : "") +
         (kv.param.family.empty() ? "" : "_" + std::string(kv.param.family));
};
INSTANTIATE_TEST_SUITE_P(Kv, SameBits,
                         ::testing::Values(Kv{"f16"}, Kv{"k5v3"}, Kv{"k5v3", true},
                                           Kv{"k5v3", false, false, "gemma2"},
                                           Kv{"f16", false, false, "mixtral"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(DISABLED_Kv, SameBits,
                         ::testing::Values(Kv{"f32"}, Kv{"q8"}, Kv{"k8v4"}, Kv{"k6v4"}, Kv{"k4v3"},
                                           Kv{"q4"}, Kv{"turboquant-4"}, Kv{"turboquant-3.5"},
                                           Kv{"f16", true}, Kv{"q8", true}, Kv{"f16", false, true},
                                           Kv{"k5v3", false, true}, Kv{"k4v3", true, true}),
                         name_of);

}  // namespace
}  // namespace millrace::engine
