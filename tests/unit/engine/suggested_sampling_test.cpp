// The sampling that a model's file suggests: what is read, what is refused, and how jobs get it.
#include "engine/core/request/suggested_sampling.hpp"

#include "tests/support/tiny_model.hpp"
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::GgufBuilder;

Result<SuggestedSampling> read(const GgufBuilder& built) {
  const GgufFile file = millrace::testing::TinyModel::file(built);
  return suggested_sampling(file.metadata());
}

GgufBuilder& i32(GgufBuilder& file, std::string_view key, std::int32_t value) {
  return file.scalar(key, ValueType::i32, value);
}

TEST(SuggestedSampling, IsReadUnderTheNamesOfAJob) {
  GgufBuilder file;
  EXPECT_EQ(read(file).value(), SuggestedSampling());
  file.f32("general.sampling.temp", 0.6f).f32("general.sampling.top_p", 0.95f);
  file.f32("general.sampling.min_p", 0.0f).f32("general.sampling.penalty_repeat", 1.05f);
  file.f32("general.sampling.xtc_probability", 0.5f).f32("general.sampling.xtc_threshold", 0.25f);
  file.f32("general.sampling.mirostat_tau", 5.0f);  // counts only with mirostat
  i32(i32(file, "general.sampling.top_k", 20), "general.sampling.mirostat", 0);
  i32(file, "general.sampling.penalty_last_n", 64);
  const SuggestedSampling expected = {.temperature = 0.6f,
                                      .top_k = 20,
                                      .top_p = 0.95f,
                                      .min_p = 0.0f,
                                      .xtc_probability = 0.5f,
                                      .xtc_threshold = 0.25f,
                                      .repetition_penalty = 1.05f,
                                      .repetition_penalty_window = 64};
  const auto suggested = read(file);
  ASSERT_TRUE(suggested) << suggested.error().text();
  EXPECT_EQ(*suggested, expected);
}

TEST(SuggestedSampling, TakesTheFilesWaysToSayOffAndAll) {
  GgufBuilder off, all;
  i32(i32(off, "general.sampling.top_k", -1), "general.sampling.penalty_last_n", 0);
  off.f32("general.sampling.penalty_repeat", 1.5f);
  i32(all, "general.sampling.penalty_last_n", -1).f32("general.sampling.penalty_repeat", 1.5f);
  EXPECT_EQ(read(off).value(), (SuggestedSampling{.top_k = 0, .repetition_penalty = 1.0f}));
  EXPECT_EQ(read(all).value(),
            (SuggestedSampling{.repetition_penalty = 1.5f, .repetition_penalty_window = 0}));
}

TEST(SuggestedSampling, IsRefusedWholeWhereOneKeyCannotBeUsed) {
  const auto error = [](const std::function<void(GgufBuilder&)>& add) {
    GgufBuilder file;
    file.f32("general.sampling.temp", 0.6f);
    add(file);
    const auto suggested = read(file);
    EXPECT_FALSE(suggested);
    return suggested ? Error() : suggested.error();
  };
  const auto expect = [](const Error& got, Code code, const char* message) {
    EXPECT_EQ(got.code, code) << got.text();
    EXPECT_NE(got.message.find(message), std::string::npos) << got.text();
    EXPECT_NE(got.hint, "");
  };
  const auto bad_float = [&](const char* key, float value, const char* message) {
    expect(error([&](GgufBuilder& f) { f.f32(std::string("general.sampling.") + key, value); }),
           Code::invalid_value, message);
  };
  bad_float("top_p", 0.0f, "general.sampling.* is out of range: top_p is 0");
  bad_float("top_p", 1.5f, "top_p is 1.5");
  bad_float("min_p", -0.1f, "min_p is -0.1");
  bad_float("min_p", std::numeric_limits<float>::quiet_NaN(), "min_p is nan");
  bad_float("penalty_repeat", 0.0f, "repetition_penalty is 0");
  bad_float("xtc_threshold", 0.75f, "xtc_threshold is 0.75");
  const auto bad_int = [&](const char* key, std::int64_t value, Code code, const char* message) {
    expect(error([&](GgufBuilder& f) {
             f.f32("general.sampling.penalty_repeat", 1.5f);
             f.scalar(std::string("general.sampling.") + key, ValueType::i64, value);
           }),
           code, message);
  };
  bad_int("top_k", std::int64_t{1} << 32, Code::invalid_value, "general.sampling.top_k is 42949");
  bad_int("penalty_last_n", -2, Code::invalid_value, "general.sampling.penalty_last_n is -2");
  bad_int("penalty_last_n", std::int64_t{1} << 31, Code::invalid_value,
          "repetition_penalty_window");
  bad_int("mirostat", 2, Code::unsupported_field, "general.sampling.mirostat has no setting");
  bad_int("temp_last", 2, Code::unsupported_field, "general.sampling.temp_last has no setting");
  expect(error([](GgufBuilder& f) { f.string("general.sampling.sequence", "top_k;temp"); }),
         Code::unsupported_field, "general.sampling.sequence has no setting");
  expect(error([](GgufBuilder& f) { f.string("general.sampling.top_p", "0.9"); }),
         Code::gguf_malformed, "general.sampling.top_p");
}

class ModelSampling : public LoopTest {
 protected:
  void SetUp() override {
    context_.suggested_sampling = {.temperature = 0.6f,
                                   .top_k = 20,
                                   .top_p = 0.95f,
                                   .repetition_penalty = 1.25f,
                                   .repetition_penalty_window = 64};
    open();
  }
  GenerationRequest asking() {
    GenerationRequest r = request(1, 4, "a b");
    r.sampling_source = SamplingSource::model;
    return r;
  }
  EffectiveSettings effective(const GenerationRequest& r) {
    const Status added = loop_->add(1, r);
    EXPECT_TRUE(added) << added.error().text();
    return of(run(), 1).result.effective;
  }
};

TEST_F(ModelSampling, IsNotUsedUnlessTheJobAsks) {
  const EffectiveSettings used = effective(request(1, 4, "a b"));
  EXPECT_EQ(used.sampling, (Sampling{.seed = 1}));
  EXPECT_EQ(used.edits, LogitEdits());
}

TEST_F(ModelSampling, FillsWhatTheJobDoesNotGive) {
  Sampling drawn;
  runner_.script = [&, script = runner_.script](const SampleTask& task) {
    drawn = task.sampling;
    return script(task);
  };
  const EffectiveSettings used = effective(asking());
  const Sampling expected = {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .seed = 1};
  EXPECT_EQ(used.sampling, expected);
  EXPECT_EQ(drawn, expected);
  EXPECT_EQ(used.edits.repetition, (Penalty{1.25f, PenaltyScope::all, 64}));
}

TEST_F(ModelSampling, GivesWayToWhatTheJobGivesEvenIfThatIsADefault) {
  GenerationRequest r = asking();
  r.given_sampling = {"temperature", "top_k", "repetition_penalty"};
  r.sampling.top_k = 5;
  const EffectiveSettings used = effective(r);
  EXPECT_EQ(used.sampling, (Sampling{.temperature = 1.0f, .top_k = 5, .top_p = 0.95f, .seed = 1}));
  EXPECT_FALSE(used.edits.any());
}

TEST_F(ModelSampling, IsCheckedTogetherWithTheJobs) {
  context_.suggested_sampling = {.xtc_threshold = 0.0f};
  open();
  GenerationRequest r = asking();
  r.sampling.xtc_probability = 0.5f;
  const Status refused = loop_->add(1, r);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("xtc_threshold is 0"), std::string::npos);
}

TEST_F(ModelSampling, ThatDoesNotExistIsRefused) {
  context_.suggested_sampling = {};
  open();
  const Status none = loop_->add(1, asking());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::unsupported_field);
  EXPECT_NE(none.error().message.find("the model's file suggests none"), std::string::npos);
  EXPECT_NE(none.error().hint, "");
  context_.suggested_sampling_error = "general.sampling.mirostat has no setting in Millrace";
  open();
  const Status unusable = loop_->add(1, asking());
  ASSERT_FALSE(unusable);
  EXPECT_NE(unusable.error().message.find("general.sampling.mirostat"), std::string::npos);
  // A job that scores samples nothing, and so needs none.
  GenerationRequest score = asking();
  score.task = Task::score;
  score.max_tokens.reset();
  EXPECT_TRUE(loop_->add(1, score));
  run();
}

}  // namespace
}  // namespace millrace::engine
