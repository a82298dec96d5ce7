// Tests how a producer waits in a stream for the results of its own jobs: each comes once, also one
// that was published earlier and one that cannot be decoded.
#include "client/link/result_wait.hpp"

#include <gtest/gtest.h>

#include "client/link/entry_result.hpp"
#include "tests/unit/client/fake_broker.hpp"

namespace millrace::client {
namespace {

class ResultWaitTest : public ::testing::Test {
 protected:
  std::unique_ptr<ResultWait> wait_from(std::uint64_t number,
                                        std::function<bool()> all_answered = {}) {
    StreamReaderOptions options;
    options.from = number;
    const auto keep = [this](std::uint64_t tag, const JobResult& result) {
      results_[tag] = result;
      return Status();
    };
    return std::make_unique<ResultWait>(*session_, clock_, options, keep, std::move(all_answered));
  }
  static SubmitAnswer ended(const std::string& job) {
    SubmitAnswer answer{.job = job, .known = true, .error = {}};
    answer.state = JobState::completed;
    return answer;
  }
  Status read(ResultWait& wait) {
    EventLoopOptions options;
    options.interrupted = [this] { return broker_.waits > 1'000; };  // bounds the test
    return EventLoop(*session_, clock_, options).run({&wait}, [&] { return wait.done(); });
  }
  static Submission submission(std::uint64_t tag, const std::string& id, SubmitAnswer answer) {
    Job job;
    job.id = id;
    job.request.prompt = "p";
    return {tag, std::move(answer), encode_job(job)};
  }

  ManualClock clock_;
  FakeBroker broker_{clock_};
  std::unique_ptr<Session> session_ = broker_.open_session();
  std::map<std::uint64_t, JobResult> results_;
};

TEST_F(ResultWaitTest, SkipsResultsOfOtherProducers) {
  for (const char* job : {"theirs", "mine", "mine", "theirs"}) broker_.complete(job);
  const auto wait = wait_from(1);
  wait->expect("mine", 7);
  ASSERT_TRUE(read(*wait));
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(results_[7].job, "mine");
}

TEST_F(ResultWaitTest, FindsTheEarlierResultOfAKnownJobThatHasEnded) {
  for (const char* job : {"early", "late"}) broker_.complete(job);
  const auto wait = wait_from(2);
  wait->expect("early", 1);
  wait->expect("late", 2);
  EXPECT_EQ(read(*wait).error().code, Code::interrupted) << "it reads from 2";
  SubmitAnswer known{.job = "early", .known = true, .error = {}};
  known.state = JobState::completed;
  ASSERT_TRUE(wait->note_answer(submission(1, "early", known)));
  broker_.waits = 0;
  ASSERT_TRUE(read(*wait));
  EXPECT_EQ(results_.size(), 2U);
}

TEST_F(ResultWaitTest, GoesOnWhereATrimmedStreamBeginsAndLosesNothingThatIsThere) {
  for (const char* job : {"theirs", "theirs", "early", "late"}) broker_.complete(job);
  broker_.first = 3;
  const auto wait = wait_from(5);
  for (const char* job : {"early", "late"}) {
    wait->expect(job, static_cast<std::uint64_t>(*job));
    ASSERT_TRUE(wait->note_answer(submission(1, job, ended(job))));
  }
  const Status done = read(*wait);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(results_.size(), 2U);
  EXPECT_TRUE(wait->lost().empty());
}

TEST_F(ResultWaitTest, AKnownJobWhoseResultWasTrimmedIsLostAndTheOthersCome) {
  for (const char* job : {"gone", "early"}) broker_.complete(job);
  broker_.first = 2;
  const auto wait = wait_from(3);
  for (const char* job : {"gone", "early"}) {
    wait->expect(job, static_cast<std::uint64_t>(*job));
    ASSERT_TRUE(wait->note_answer(submission(1, job, ended(job))));
  }
  wait->expect("new", 'n');
  EXPECT_EQ(read(*wait).error().code, Code::interrupted) << "a job that has not ended is no loss";
  ASSERT_EQ(wait->lost().size(), 1U);
  EXPECT_EQ(wait->lost()[0].job, "gone");
  EXPECT_EQ(wait->lost()[0].tag, 'g');
  broker_.complete("new");
  broker_.waits = 0;
  ASSERT_TRUE(read(*wait));
  EXPECT_TRUE(results_.size() == 2 && results_.contains('e') && results_.contains('n'));
}

TEST_F(ResultWaitTest, AResultThatIsTrimmedBeforeItIsReadIsLost) {
  const auto wait = wait_from(1);
  for (const char* job : {"a", "b", "c"}) wait->expect(job, static_cast<std::uint64_t>(*job));
  for (const char* job : {"a", "b"}) broker_.complete(job);
  broker_.first = 2;
  EXPECT_EQ(read(*wait).error().code, Code::interrupted) << "c has not ended";
  ASSERT_EQ(wait->lost().size(), 1U);
  EXPECT_EQ(wait->lost()[0].job, "a");
  EXPECT_TRUE(results_.contains('b'));
}

TEST_F(ResultWaitTest, AnotherLedgerIsToldWithWhatToDo) {
  broker_.complete("theirs");
  const auto wait = wait_from(1);
  wait->expect("mine", 1);
  EXPECT_EQ(read(*wait).error().code, Code::interrupted);
  broker_.epoch = "another";
  broker_.waits = 0;
  const Status done = read(*wait);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::epoch_changed);
  EXPECT_TRUE(done.error().hint.contains("submit the jobs again"));
}

TEST_F(ResultWaitTest, AnEarlierResultIsFoundHoweverLateItsLineIsSubmitted) {
  for (const char* job : {"second", "first"}) broker_.complete(job);
  bool all_answered = false;
  const auto wait = wait_from(3, [&] { return all_answered; });
  wait->expect("first", 1);
  ASSERT_TRUE(wait->note_answer(submission(1, "first", ended("first"))));
  EXPECT_EQ(read(*wait).error().code, Code::interrupted);
  wait->expect("second", 2);
  ASSERT_TRUE(wait->note_answer(submission(2, "second", ended("second"))));
  all_answered = true;
  broker_.waits = 0;
  ASSERT_TRUE(read(*wait));
  EXPECT_EQ(results_.size(), 2U);
}

TEST_F(ResultWaitTest, ARefusedJobIsNotWaitedForUnlessAnotherLineHasItsId) {
  const auto wait = wait_from(1);
  wait->expect("twice", 1);
  wait->expect("twice", 2);  // the broker refuses it below: the first line's job has the id
  wait->expect("bad", 3);
  const SubmitAnswer refused{.job = {}, .error = Error{Code::conflict, "x", ""}};
  ASSERT_TRUE(wait->note_answer(submission(2, "twice", refused)));
  ASSERT_TRUE(wait->note_answer(submission(3, "bad", refused)));
  EXPECT_FALSE(wait->done());
  broker_.complete("twice");
  ASSERT_TRUE(read(*wait));
  EXPECT_TRUE(results_.contains(1) && results_.size() == 1);
}

TEST_F(ResultWaitTest, AResultThatCannotBeDecodedIsAFailedJobAndTheReadingGoesOn) {
  broker_.complete("a");
  broker_.publish("b", no_result);
  broker_.complete("c");
  const auto wait = wait_from(1);
  for (const char* job : {"a", "b", "c"}) wait->expect(job, static_cast<std::uint64_t>(*job));
  const Status done = read(*wait);
  ASSERT_TRUE(done) << done.error().text();
  ASSERT_EQ(results_.size(), 3U);
  EXPECT_EQ(results_['a'].state, JobState::completed);
  EXPECT_EQ(results_['c'].state, JobState::completed);
  const JobResult& bad = results_['b'];
  EXPECT_EQ(bad.job, "b");
  EXPECT_EQ(bad.state, JobState::failed);
  ASSERT_TRUE(bad.error.has_value());
  EXPECT_EQ(bad.error->code, Code::engine_failed);
  EXPECT_TRUE(bad.error->message.starts_with("result 2 of stream results cannot be decoded: "));
  EXPECT_FALSE(bad.error->hint.empty());
}

TEST_F(ResultWaitTest, TheBrokerDecidesWhoseResultItIs) {
  JobResult lie;
  lie.job = "another";
  lie.result.emplace();
  broker_.publish("mine", encode_result(lie));
  EXPECT_EQ(result_of(broker_.entries[0], "results").job, "mine");
}

}  // namespace
}  // namespace millrace::client
