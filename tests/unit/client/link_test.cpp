// Tests Submitter and StreamReader with a scripted session: windows, pauses, gaps, repetitions.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {
namespace {

// A session that keeps the questions; the test writes the answers.
class ScriptedSession final : public Session {
 public:
  std::uint64_t ask(Message message) override {
    questions.emplace(++last, std::move(message));
    return last;
  }
  void forget(std::uint64_t id) override { questions.erase(id); }
  Status subscribe(const std::string& stream) override {
    streams.insert(stream);
    return {};
  }
  Status unsubscribe(const std::string& stream) override {
    streams.erase(streams.find(stream));
    return {};
  }
  void watch(const std::string&) override {}
  Status poll(std::uint32_t, std::vector<Envelope>&, std::vector<Bell>&) override { return {}; }
  bool ready() const override { return true; }
  std::uint64_t away_ms() const override { return 0; }
  const Welcome& welcome() const override { return welcome_; }
  std::size_t unanswered() const override { return questions.size(); }
  const std::string& endpoint() const override { return endpoint_; }
  bool keyed() const override { return false; }

  std::map<std::uint64_t, Message> questions;
  std::multiset<std::string> streams;  // that are subscribed to
  std::uint64_t last = 0;

 private:
  Welcome welcome_;
  std::string endpoint_;
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

class StreamReaderTest : public ::testing::Test, public EntrySink {
 protected:
  Status on_entries(const std::vector<Entry>& entries) override {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
    asked_meanwhile_ = session_.last;
    return {};
  }
  Result<bool> give(Message message) {
    Envelope envelope = answer(session_.last, std::move(message));
    return reader_.take(envelope);
  }
  Fetch fetch() const { return std::get<Fetch>(session_.questions.at(session_.last)); }

  ScriptedSession session_;
  ManualClock clock_;
  StreamReader reader_{session_, clock_, {}, *this};
  std::vector<Entry> entries_;
  std::uint64_t asked_meanwhile_ = 0;  // the last question when the sink got entries
};

TEST_F(StreamReaderTest, TheBrokerReadsTheNextEntriesWhileTheSinkWorks) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(data_of({1, 2}, 5)));
  EXPECT_EQ(asked_meanwhile_, 2U);
  EXPECT_EQ(fetch().from, 3U);
}

TEST_F(StreamReaderTest, AsksAgainAfterEachAnswerUntilCaughtUp) {
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(fetch().from, 1U);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 1U) << "one answer of credit at a time";
  ASSERT_TRUE(give(data_of({1, 2}, 3)));
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(fetch().from, 3U);
  EXPECT_EQ(fetch().epoch, "e");
  ASSERT_TRUE(give(data_of({}, 2)));
  EXPECT_TRUE(reader_.caught_up());
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 2U) << "caught up: waits for a ring";
  reader_.rang("other");
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 2U);
  reader_.rang("results");
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 3U);
}

TEST_F(StreamReaderTest, AsksWithoutARingAfterAWhile) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(data_of({}, 0)));
  clock_.advance_us(1'100'000);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 2U);
}

TEST_F(StreamReaderTest, GivesBackWhatItHasOfTheSession) {
  {
    StreamReaderOptions options;
    options.stream = "other";
    StreamReader reader(session_, clock_, options, *this);
    ASSERT_TRUE(reader.tick());
    EXPECT_EQ(session_.streams, (std::multiset<std::string>{"other", "results"}));
    EXPECT_EQ(session_.questions.size(), 1U);
  }
  EXPECT_EQ(session_.streams, (std::multiset<std::string>{"results"}));
  EXPECT_TRUE(session_.questions.empty());
}

TEST_F(StreamReaderTest, WithoutFollowItStopsAskingOnceItHasCaughtUp) {
  StreamReaderOptions options;
  options.follow = false;
  StreamReader reader(session_, clock_, options, *this);
  ASSERT_TRUE(reader.tick());
  Envelope nothing = answer(session_.last, data_of({}, 0));
  ASSERT_TRUE(reader.take(nothing));
  reader.rang("results");
  clock_.advance_us(1'100'000);
  ASSERT_TRUE(reader.tick());
  EXPECT_EQ(session_.last, 1U);
}

TEST_F(StreamReaderTest, ABrokerThatIsFullIsAskedAgain) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(Refused{{Code::overloaded, "full", ""}}));
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 1U);
  clock_.advance_us(1'100'000);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 2U);
}

TEST_F(StreamReaderTest, ABrokerThatIsFullIsAskedAgainWhenItSuggests) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(Refused{{Code::overloaded, "full", "", 3'000}}));
  clock_.advance_us(2'900'000);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 1U);
  clock_.advance_us(200'000);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(session_.last, 2U);
}

TEST_F(StreamReaderTest, RepetitionsAreDroppedAndGapsRefused) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(data_of({1, 2}, 2)));
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(data_of({2, 3}, 3)));
  ASSERT_EQ(entries_.size(), 3U);
  EXPECT_EQ(entries_[2].number, 3U);
  ASSERT_TRUE(reader_.tick());
  const Result<bool> gap = give(data_of({5}, 5));
  ASSERT_FALSE(gap.has_value());
  EXPECT_EQ(gap.error().code, Code::internal);
  EXPECT_EQ(entries_.size(), 3U);
}

TEST_F(StreamReaderTest, AnotherLogAndTrimmedEntriesAreErrors) {
  ASSERT_TRUE(reader_.tick());
  ASSERT_TRUE(give(data_of({1}, 1)));
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(give(data_of({2}, 2, "other")).error().code, Code::epoch_changed);
  ASSERT_TRUE(reader_.tick());
  reader_.move_to(1);
  ASSERT_TRUE(reader_.tick());
  const Result<bool> trimmed = give(Trimmed{.stream = "results", .epoch = "e", .first = 9});
  ASSERT_FALSE(trimmed.has_value());
  EXPECT_EQ(trimmed.error().code, Code::trimmed);
  EXPECT_EQ(reader_.first_kept(), 9U);
}

TEST_F(StreamReaderTest, AfterAMoveItIgnoresTheAnswerToTheEarlierQuestion) {
  reader_.move_to(7);
  ASSERT_TRUE(reader_.tick());
  const std::uint64_t before = session_.last;
  reader_.move_to(1);
  EXPECT_FALSE(session_.questions.contains(before));
  Envelope late = answer(before, data_of({7}, 7));
  EXPECT_EQ(reader_.take(late), false);
  ASSERT_TRUE(reader_.tick());
  EXPECT_EQ(fetch().from, 1U);
  ASSERT_TRUE(give(data_of({1, 2}, 7)));
  EXPECT_EQ(entries_.size(), 2U);
}

class SubmitterTest : public ::testing::Test, public JobSource {
 protected:
  Result<bool> feed(Submitter& submitter) override {
    if (jobs_.empty()) {
      return false;
    }
    submitter.add(jobs_.front(), ++tag_);
    jobs_.erase(jobs_.begin());
    return true;
  }
  bool holds_back() const override { return holds_back_; }
  Status on_answer(const Submission& submission) override {
    done_.push_back(submission);
    return {};
  }
  Result<bool> give(std::uint64_t id, Message message) {
    Envelope envelope = answer(id, std::move(message));
    return submitter_.take(envelope);
  }
  const Submit& question(std::uint64_t id) { return std::get<Submit>(session_.questions.at(id)); }

  ScriptedSession session_;
  ManualClock clock_;
  std::vector<Body> jobs_;
  std::uint64_t tag_ = 0;
  bool holds_back_ = false;
  Submitter submitter_{session_,
                       clock_,
                       *this,
                       {.messages = 2,
                        .jobs_per_message = 2,
                        .bytes_per_message = 1'000,
                        .pause_ms = 100,
                        .pause_max_ms = 400}};
  std::vector<Submission> done_;
};

TEST_F(SubmitterTest, GathersJobsAndKeepsAWindow) {
  jobs_ = {"1", "2", "3", "4", "5"};
  ASSERT_TRUE(submitter_.busy());
  ASSERT_TRUE(submitter_.tick());
  EXPECT_FALSE(submitter_.busy());
  EXPECT_EQ(jobs_.size(), 1U) << "fed beyond its window";
  ASSERT_EQ(session_.last, 2U);
  EXPECT_EQ(question(1).jobs.size(), 2U);
  ASSERT_TRUE(
      give(1, Submitted{{SubmitAnswer{.job = "a", .error = {}},
                         SubmitAnswer{.job = "b", .error = Error{Code::conflict, "x", ""}}}}));
  EXPECT_TRUE(submitter_.busy());
  ASSERT_EQ(done_.size(), 2U);
  EXPECT_EQ(done_[1].tag, 2U);
  EXPECT_EQ(done_[1].answer.error->code, Code::conflict);
  EXPECT_EQ(done_[1].refused, "2");
  ASSERT_TRUE(submitter_.tick());
  EXPECT_FALSE(submitter_.done()) << "three have no answer yet";
}

TEST_F(SubmitterTest, DoesNotFeedFromASourceThatHoldsBack) {
  jobs_ = {"1"};
  holds_back_ = true;
  ASSERT_TRUE(submitter_.tick());
  EXPECT_FALSE(submitter_.busy());
  EXPECT_EQ(session_.last, 0U);
  holds_back_ = false;
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(session_.last, 1U);
}

TEST_F(SubmitterTest, WaitsAndSendsAgainIfTheBrokerHadNoRoom) {
  jobs_ = {"a", "b"};
  ASSERT_TRUE(submitter_.tick());
  ASSERT_TRUE(give(1, Refused{{Code::overloaded, "full", ""}}));
  EXPECT_GT(submitter_.without_room_ms(), 0U);
  EXPECT_FALSE(submitter_.busy());
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(session_.last, 1U);
  clock_.advance_us(101'000);
  ASSERT_TRUE(submitter_.tick());
  ASSERT_EQ(session_.last, 2U);
  EXPECT_EQ(question(2).jobs, (std::vector<Body>{"a", "b"}));
  // The broker takes one of them and refuses the other.
  ASSERT_TRUE(
      give(2, Submitted{{SubmitAnswer{.job = "a", .error = {}},
                         SubmitAnswer{.job = "b", .error = Error{Code::disk_full, "full", ""}}}}));
  EXPECT_EQ(submitter_.pause_reason().code, Code::disk_full);
  clock_.advance_us(101'000);
  ASSERT_TRUE(submitter_.tick());
  ASSERT_EQ(session_.last, 3U);
  EXPECT_EQ(question(3).jobs, (std::vector<Body>{"b"}));
  EXPECT_FALSE(submitter_.done());
  ASSERT_TRUE(give(3, Submitted{{SubmitAnswer{.job = "b", .error = {}}}}));
  ASSERT_TRUE(submitter_.tick());
  EXPECT_TRUE(submitter_.done());
}

TEST_F(SubmitterTest, ThePauseGrowsWhileNothingIsTakenAndStartsAgainWhenAJobIs) {
  const Error full{Code::overloaded, "full", "", 100};
  const SubmitAnswer taken{.job = "a", .error = {}}, refused{.job = "b", .error = full};
  jobs_ = {"a", "b"};
  ASSERT_TRUE(submitter_.tick());
  std::uint64_t question = 0;
  for (const std::int64_t pause_ms : {100, 200, 400, 400}) {  // 400 is the longest here
    ASSERT_TRUE(give(++question, Submitted{{refused, refused}}));
    clock_.advance_us(pause_ms * 1'000 - 1);
    ASSERT_TRUE(submitter_.tick());
    EXPECT_EQ(session_.last, question) << "sent before " << pause_ms << " ms";
    clock_.advance_us(1);
    ASSERT_TRUE(submitter_.tick());
    EXPECT_EQ(session_.last, question + 1) << "not sent after " << pause_ms << " ms";
  }
  ASSERT_TRUE(give(++question, Submitted{{taken, refused}}));
  EXPECT_EQ(submitter_.without_room_ms(), 1U) << "it counts from the last job that was taken";
  clock_.advance_us(100'000);
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(session_.last, question + 1);
}

TEST_F(SubmitterTest, ItWaitsAsLongAsTheRefusalSuggests) {
  jobs_ = {"a"};
  ASSERT_TRUE(submitter_.tick());
  ASSERT_TRUE(give(1, Refused{{Code::overloaded, "full", "", 700}}));
  clock_.advance_us(699'000);
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(session_.last, 1U);
  clock_.advance_us(1'000);
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(session_.last, 2U);
}

TEST_F(SubmitterTest, ItTellsForHowLongTheBrokerHadNoRoomForAnyJob) {
  const Error full{Code::disk_full, "full", "", 1'000};
  jobs_ = {"a", "b"};
  ASSERT_TRUE(submitter_.tick());
  EXPECT_EQ(submitter_.without_room_ms(), 0U);
  // The time goes on while the jobs are sent again and nothing is known yet.
  for (std::uint64_t question = 1; question <= 3; ++question) {
    ASSERT_TRUE(give(question, Refused{full}));
    clock_.advance_us(1'000'000);
    ASSERT_TRUE(submitter_.tick());
    EXPECT_EQ(submitter_.without_room_ms(), question * 1'000 + 1);
  }
  // Room for one of them is room.
  ASSERT_TRUE(give(4, Submitted{{SubmitAnswer{.job = "a", .error = {}},
                                 SubmitAnswer{.job = "b", .error = full}}}));
  EXPECT_EQ(submitter_.without_room_ms(), 1U);
  clock_.advance_us(1'000'000);
  ASSERT_TRUE(submitter_.tick());
  ASSERT_TRUE(give(5, Submitted{{SubmitAnswer{.job = "b", .error = {}}}}));
  EXPECT_EQ(submitter_.without_room_ms(), 0U);
}

TEST_F(SubmitterTest, ARefusedMessageIsEachJobsError) {
  jobs_ = {"a"};
  ASSERT_TRUE(submitter_.tick());
  ASSERT_TRUE(give(1, Refused{{Code::too_large, "x", ""}}));
  ASSERT_EQ(done_.size(), 1U);
  EXPECT_EQ(done_[0].answer.error->code, Code::too_large);
  EXPECT_EQ(done_[0].refused, "a");
  EXPECT_TRUE(submitter_.done());
}

TEST_F(SubmitterTest, AnAnswerThatDoesNotFitIsAnError) {
  jobs_ = {"a"};
  ASSERT_TRUE(submitter_.tick());
  EXPECT_FALSE(give(1, Submitted{}).has_value());
}

}  // namespace
}  // namespace millrace::client
