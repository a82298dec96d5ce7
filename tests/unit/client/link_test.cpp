// Submitter, StreamReader and exchange() against a scripted session: windows, pauses, gaps,
// repetitions, a broker that stays away, a signal.
#include <gtest/gtest.h>

#include <map>

#include "client/link/exchange.hpp"
#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {
namespace {

// Keeps the questions; the test writes the answers.
class ScriptedSession final : public Session {
 public:
  std::uint64_t ask(Message message) override {
    questions.emplace(++last, std::move(message));
    return last;
  }
  void forget(std::uint64_t id) override { questions.erase(id); }
  Status subscribe(const std::string&) override { return {}; }
  void watch(const std::string&) override {}
  Status poll(std::uint32_t, std::vector<Envelope>&, std::vector<Bell>&) override { return {}; }
  bool ready() const override { return away == 0; }
  std::uint64_t away_ms() const override { return away; }
  const Welcome& welcome() const override { return welcome_; }
  std::size_t unanswered() const override { return questions.size(); }

  std::map<std::uint64_t, Message> questions;
  std::uint64_t last = 0;
  std::uint64_t away = 0;  // ms

 private:
  Welcome welcome_;
};

Envelope answer(std::uint64_t id, Message message) {
  return {.id = id, .message = std::move(message)};
}

Data data_of(const std::vector<std::uint64_t>& numbers, std::uint64_t high,
             const std::string& epoch = "e") {
  Data data;
  data.stream = "results";
  data.epoch = epoch;
  data.first = 1;
  data.high = high;
  for (const std::uint64_t number : numbers) {
    Entry entry;
    entry.number = number;
    entry.job = "j" + std::to_string(number);
    data.entries.push_back(entry);
  }
  return data;
}

class StreamReaderTest : public ::testing::Test {
 protected:
  Result<bool> give(Message message) {
    Envelope envelope = answer(session_.last, std::move(message));
    return reader_.take(envelope, entries_);
  }
  Fetch fetch() const { return std::get<Fetch>(session_.questions.at(session_.last)); }

  ScriptedSession session_;
  ManualClock clock_;
  StreamReader reader_{session_, clock_, {}};
  std::vector<Entry> entries_;
};

TEST_F(StreamReaderTest, AsksOnAfterEachAnswerUntilCaughtUp) {
  reader_.tick(true);
  EXPECT_EQ(fetch().from, 1U);
  reader_.tick(true);
  EXPECT_EQ(session_.last, 1U) << "one answer of credit at a time";
  ASSERT_TRUE(give(data_of({1, 2}, 3)));
  reader_.tick(true);
  EXPECT_EQ(fetch().from, 3U);
  EXPECT_EQ(fetch().epoch, "e");
  ASSERT_TRUE(give(data_of({}, 2)));
  EXPECT_TRUE(reader_.caught_up());
  reader_.tick(true);
  EXPECT_EQ(session_.last, 2U) << "caught up: waits for a ring";
  reader_.rang({{"other"}});
  reader_.tick(true);
  EXPECT_EQ(session_.last, 2U);
  reader_.rang({{"results"}});
  reader_.tick(true);
  EXPECT_EQ(session_.last, 3U);
}

TEST_F(StreamReaderTest, AsksWithoutARingAfterAWhileAndNotWithoutRoom) {
  reader_.tick(false);
  EXPECT_EQ(session_.last, 0U);
  reader_.tick(true);
  ASSERT_TRUE(give(data_of({}, 0)));
  clock_.advance_us(1'100'000);
  reader_.tick(true);
  EXPECT_EQ(session_.last, 2U);
}

TEST_F(StreamReaderTest, RepetitionsAreDroppedAndGapsRefused) {
  reader_.tick(true);
  ASSERT_TRUE(give(data_of({1, 2}, 2)));
  reader_.tick(true);
  ASSERT_TRUE(give(data_of({2, 3}, 3)));
  ASSERT_EQ(entries_.size(), 3U);
  EXPECT_EQ(entries_[2].number, 3U);
  reader_.tick(true);
  const Result<bool> gap = give(data_of({5}, 5));
  ASSERT_FALSE(gap.has_value());
  EXPECT_EQ(gap.error().code, Code::internal);
  EXPECT_EQ(entries_.size(), 3U);
}

TEST_F(StreamReaderTest, AnotherLogIsRefusedAndTrimmedIsSaid) {
  reader_.tick(true);
  ASSERT_TRUE(give(data_of({1}, 1)));
  reader_.tick(true);
  EXPECT_EQ(give(data_of({2}, 2, "other")).error().code, Code::epoch_changed);
  reader_.tick(true);
  reader_.move_to(1);
  reader_.tick(true);
  const Result<bool> trimmed = give(Trimmed{.stream = "results", .epoch = "e", .first = 9});
  ASSERT_FALSE(trimmed.has_value());
  EXPECT_EQ(trimmed.error().code, Code::trimmed);
  EXPECT_EQ(reader_.first_kept(), 9U);
}

TEST_F(StreamReaderTest, MovedWhileAnAnswerIsUnderWayItTakesNoNoticeOfThatAnswer) {
  reader_.move_to(7);
  reader_.tick(true);
  const std::uint64_t before = session_.last;
  reader_.move_to(1);
  EXPECT_FALSE(session_.questions.contains(before));
  Envelope late = answer(before, data_of({7}, 7));
  EXPECT_EQ(reader_.take(late, entries_), false);
  reader_.tick(true);
  EXPECT_EQ(fetch().from, 1U);
  ASSERT_TRUE(give(data_of({1, 2}, 7)));
  EXPECT_EQ(entries_.size(), 2U);
}

class SubmitterTest : public ::testing::Test {
 protected:
  Result<bool> give(std::uint64_t id, Message message) {
    Envelope envelope = answer(id, std::move(message));
    return submitter_.take(envelope, done_);
  }
  const Submit& question(std::uint64_t id) { return std::get<Submit>(session_.questions.at(id)); }

  ScriptedSession session_;
  ManualClock clock_;
  Submitter submitter_{session_,
                       clock_,
                       {.messages = 2,
                        .jobs_per_message = 2,
                        .bytes_per_message = 1'000,
                        .pause_ms = 100,
                        .pause_max_ms = 200}};
  std::vector<Submission> done_;
};

TEST_F(SubmitterTest, GathersJobsAndKeepsAWindow) {
  for (std::uint64_t tag = 1; tag <= 4; ++tag) {
    ASSERT_TRUE(submitter_.has_room());
    submitter_.add("job", tag);
  }
  EXPECT_FALSE(submitter_.has_room());
  ASSERT_EQ(session_.last, 2U);
  EXPECT_EQ(question(1).jobs.size(), 2U);
  ASSERT_TRUE(
      give(1, Submitted{{SubmitAnswer{.job = "a", .error = {}},
                         SubmitAnswer{.job = "b", .error = Error{Code::conflict, "x", ""}}}}));
  EXPECT_TRUE(submitter_.has_room());
  ASSERT_EQ(done_.size(), 2U);
  EXPECT_EQ(done_[1].tag, 2U);
  EXPECT_EQ(done_[1].answer.error->code, Code::conflict);
  EXPECT_EQ(submitter_.unanswered(), 2U);
}

TEST_F(SubmitterTest, WaitsAndSendsAgainWhatTheBrokerHadNoRoomFor) {
  submitter_.add("a", 1);
  submitter_.add("b", 2);
  ASSERT_TRUE(give(1, Refused{{Code::overloaded, "full", ""}}));
  EXPECT_TRUE(submitter_.paused());
  EXPECT_FALSE(submitter_.has_room());
  submitter_.tick();
  EXPECT_EQ(session_.last, 1U);
  clock_.advance_us(101'000);
  submitter_.tick();
  ASSERT_EQ(session_.last, 2U);
  EXPECT_EQ(question(2).jobs, (std::vector<Body>{"a", "b"}));
  // One of them again, and the pause has grown.
  ASSERT_TRUE(
      give(2, Submitted{{SubmitAnswer{.job = "a", .error = {}},
                         SubmitAnswer{.job = "b", .error = Error{Code::disk_full, "full", ""}}}}));
  EXPECT_EQ(submitter_.unanswered(), 1U);
  clock_.advance_us(101'000);
  submitter_.tick();
  EXPECT_EQ(session_.last, 2U);
  clock_.advance_us(101'000);
  submitter_.tick();
  ASSERT_EQ(session_.last, 3U);
  EXPECT_EQ(question(3).jobs, (std::vector<Body>{"b"}));
}

TEST_F(SubmitterTest, ARefusedMessageIsEachJobsError) {
  submitter_.add("a", 1);
  submitter_.flush();
  ASSERT_TRUE(give(1, Refused{{Code::too_large, "x", ""}}));
  ASSERT_EQ(done_.size(), 1U);
  EXPECT_EQ(done_[0].answer.error->code, Code::too_large);
  EXPECT_EQ(submitter_.unanswered(), 0U);
}

TEST_F(SubmitterTest, AnAnswerThatDoesNotFitIsAnError) {
  submitter_.add("a", 1);
  submitter_.flush();
  EXPECT_FALSE(give(1, Submitted{}).has_value());
}

Exchange work_without_end() {
  return {.next_job = [] { return Result<std::optional<NextJob>>(); },
          .on_answer = [](const Submission&) { return Status(); },
          .on_entry = {},
          .done = [] { return false; },
          .tick = {},
          .interrupted = [] { return false; },
          .stream = {}};
}

TEST(Exchange, ABrokerThatStaysAwayIsUnreachableAfterTheTimeAllowed) {
  ScriptedSession session;
  session.away = 501;
  Exchange work = work_without_end();
  work.give_up_ms = 500;
  const ManualClock clock;
  const Status ended = exchange(session, clock, work);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::unreachable);
  EXPECT_NE(ended.error().message.find("501 ms"), std::string::npos);
}

TEST(Exchange, ASignalEndsIt) {
  ScriptedSession session;
  Exchange work = work_without_end();
  int rounds = 0;
  work.interrupted = [&] { return ++rounds == 3; };
  const ManualClock clock;
  const Status ended = exchange(session, clock, work);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::interrupted);
  EXPECT_EQ(rounds, 3);
}

}  // namespace
}  // namespace millrace::client
