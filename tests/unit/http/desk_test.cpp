// A desk follows jobs for requests: each listener hears of its job once, and whatever happens to
// the stream, the broker or the session, nobody waits for ever.
#include "http/desk.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/client/fake_broker.hpp"

namespace millrace::http {
namespace {

struct Listener final : JobListener {
  void on_partial(const PartialEntry& entry) override { texts += entry.partial.text; }
  void on_end(const JobResult& result) override { ends.push_back(result.job); }
  void on_failure(const Error& error) override { failures.push_back(error.code); }
  void on_wait() override { ++waits; }
  std::string texts;
  std::vector<std::string> ends;
  std::vector<Code> failures;
  int waits = 0;
};

class DeskTest : public ::testing::Test {
 protected:
  static Body job(const std::string& id) {
    Job one;
    one.id = id;
    one.request.prompt = "p";
    return encode_job(one);
  }
  // Follows and submits a job; its listener stays alive as long as the test.
  std::shared_ptr<Listener> submit(const std::string& id, std::int64_t until_us = INT64_MAX) {
    auto listener = std::make_shared<Listener>();
    desk_.follow(id, listener, until_us);
    desk_.submit({job(id)}, [this](Result<std::vector<SubmitAnswer>> answers) {
      if (!answers) return refusals_.push_back(answers.error().code);
      for (const SubmitAnswer& one : *answers) {
        if (one.error) refusals_.push_back(one.error->code);
        if (one.known && one.state && is_end(*one.state)) desk_.find_result(one.job);
        ++answered_;
      }
    });
    return listener;
  }
  Status run(const std::function<bool()>& done) {
    client::EventLoop loop(*session_, clock_, {});
    return loop.run({&desk_}, [&] { return done() || broker_.waits > 5'000; });
  }
  void place() {
    ASSERT_TRUE(run([&] { return desk_.placed(); }));
  }
  std::size_t submits() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        broker_.questions, [](const auto& one) { return std::holds_alternative<Submit>(one); }));
  }

  ManualClock clock_;
  client::FakeBroker broker_{clock_};
  std::unique_ptr<client::Session> session_ = broker_.open_session();
  Desk desk_{*session_, clock_, "http"};
  std::vector<Code> refusals_;
  std::size_t answered_ = 0;
};

TEST_F(DeskTest, TellsEachListenerTheEndOfItsJobOnce) {
  place();
  const auto a = submit("a"), b = submit("b");
  ASSERT_TRUE(run([&] { return !b->ends.empty() && !desk_.asking(); }));
  EXPECT_EQ(a->ends, std::vector<std::string>{"a"});
  EXPECT_EQ(b->ends, std::vector<std::string>{"b"});
  EXPECT_FALSE(desk_.following());
  EXPECT_EQ(answered_, 2u);
}

TEST_F(DeskTest, RequestsShareMessages) {
  place();
  std::vector<std::shared_ptr<Listener>> all;
  for (int i = 0; i < 500; ++i) all.push_back(submit("j" + std::to_string(i)));
  ASSERT_TRUE(run([&] { return !desk_.following() && !desk_.asking(); }));
  EXPECT_EQ(submits(), 1u);
  EXPECT_EQ(answered_, 500u);
  for (const auto& one : all) EXPECT_EQ(one->ends.size(), 1u);
}

TEST_F(DeskTest, ASessionHasRoomForSoManyQuestions) {
  place();
  std::size_t answers = 0;
  for (int i = 0; i < 300; ++i) {
    desk_.ask_for<StatusAnswer>(StatusRequest{}, [&](const auto& answer) {
      EXPECT_TRUE(answer);
      ++answers;
    });
  }
  EXPECT_LT(session_->unanswered(), limits::requests_per_session);
  ASSERT_TRUE(run([&] { return answers == 300; }));
  EXPECT_EQ(answers, 300u);
}

TEST_F(DeskTest, FindsTheResultOfAJobThatHadEnded) {
  place();
  const auto first = submit("a");
  ASSERT_TRUE(run([&] { return !first->ends.empty(); }));
  const auto again = submit("a");
  ASSERT_TRUE(run([&] { return !again->ends.empty(); }));
  EXPECT_EQ(again->ends, std::vector<std::string>{"a"});
  EXPECT_EQ(first->ends.size(), 1u);
}

TEST_F(DeskTest, AResultThatIsTrimmedIsAnError) {
  place();
  const auto first = submit("a");
  ASSERT_TRUE(run([&] { return !first->ends.empty(); }));
  broker_.first = 2;
  const auto again = submit("a");
  ASSERT_TRUE(run([&] { return !again->failures.empty(); }));
  EXPECT_EQ(again->failures, std::vector<Code>{Code::trimmed});
}

TEST_F(DeskTest, PartialsGoToTheirJob) {
  place();
  broker_.ends_at_once = false;
  const auto a = submit("a"), b = submit("b");
  ASSERT_TRUE(run([&] { return answered_ == 2; }));
  Partials partials;
  for (const char* name : {"b", "a", "b", "other"}) {
    PartialEntry& entry = partials.entries.emplace_back();
    entry.job = name;
    entry.partial.text = std::string(name) + ".";
  }
  broker_.answer(0, std::move(partials));
  ASSERT_TRUE(run([&] { return !a->texts.empty(); }));
  EXPECT_EQ(a->texts, "a.");
  EXPECT_EQ(b->texts, "b.b.");
  desk_.unfollow("a", *a);
  broker_.complete("a");
  broker_.complete("b");
  ASSERT_TRUE(run([&] { return !b->ends.empty(); }));
  EXPECT_TRUE(a->ends.empty());
}

TEST_F(DeskTest, AJobIsSubmittedBeforeItIsCancelled) {
  place();
  broker_.ends_at_once = false;
  const auto a = submit("a");
  desk_.unfollow("a", *a);
  desk_.cancel({"a"});
  ASSERT_TRUE(run([&] { return answered_ == 1; }));
  std::vector<std::string> order;
  for (const Message& one : broker_.questions) {
    if (std::holds_alternative<Submit>(one)) order.emplace_back("submit");
    if (std::holds_alternative<Cancel>(one)) order.emplace_back("cancel");
  }
  EXPECT_EQ(order, (std::vector<std::string>{"submit", "cancel"}));
}

TEST_F(DeskTest, WhoWaitsForLongIsToldAndThenFails) {
  place();
  broker_.ends_at_once = false;
  const auto a = submit("a", clock_.monotonic_us() + 60'000'000);
  ASSERT_TRUE(run([&] { return !a->failures.empty(); }));
  EXPECT_EQ(a->failures, std::vector<Code>{Code::timed_out});
  EXPECT_GE(a->waits, 4);
  EXPECT_FALSE(desk_.following());
}

TEST_F(DeskTest, EachFollowerOfAJobHasItsOwnTime) {
  place();
  broker_.ends_at_once = false;
  const auto first = submit("a", clock_.monotonic_us() + 5'000'000);
  const auto second = submit("a", clock_.monotonic_us() + 60'000'000);
  ASSERT_TRUE(run([&] { return !first->failures.empty(); }));
  EXPECT_EQ(first->failures, std::vector<Code>{Code::timed_out});
  EXPECT_TRUE(second->failures.empty());
  broker_.complete("a");
  ASSERT_TRUE(run([&] { return !second->ends.empty(); }));
  EXPECT_TRUE(first->ends.empty());
}

TEST_F(DeskTest, AnotherLedgerKnowsNothingOfTheJobs) {
  place();
  const auto first = submit("a");
  ASSERT_TRUE(run([&] { return !first->ends.empty(); }));
  broker_.ends_at_once = false;
  const auto lost = submit("b");
  ASSERT_TRUE(run([&] { return answered_ == 2; }));
  broker_.epoch = "other";
  ASSERT_TRUE(run([&] { return !lost->failures.empty(); }));
  EXPECT_EQ(lost->failures, std::vector<Code>{Code::epoch_changed});
  broker_.ends_at_once = true;
  const auto later = submit("c");
  ASSERT_TRUE(run([&] { return !later->ends.empty(); }));
  EXPECT_EQ(later->ends, std::vector<std::string>{"c"});
}

TEST_F(DeskTest, AKeyThatMayNotReadIsToldAndAskedAgainLater) {
  broker_.refuses_fetches = {Code::unauthorized, "the key may not read", {}, {}};
  place();
  ASSERT_TRUE(desk_.no_reader());
  EXPECT_EQ(desk_.no_reader()->code, Code::unauthorized);
  broker_.refuses_fetches.reset();
  ASSERT_TRUE(run([&] { return desk_.placed() && !desk_.no_reader(); }));
  const auto a = submit("a");
  ASSERT_TRUE(run([&] { return !a->ends.empty(); }));
}

TEST_F(DeskTest, AKeyThatMayNoLongerReadFailsItsRequests) {
  place();
  broker_.ends_at_once = false;
  const auto a = submit("a");
  ASSERT_TRUE(run([&] { return answered_ == 1; }));
  broker_.refuses_fetches = {Code::unauthorized, "the key may not read", {}, {}};
  ASSERT_TRUE(run([&] { return !a->failures.empty(); }));
  EXPECT_EQ(a->failures, std::vector<Code>{Code::unauthorized});
  EXPECT_TRUE(desk_.no_reader());
}

TEST_F(DeskTest, NothingIsSubmittedBeforeItsEndCanBeRead) {
  const auto a = submit("a");
  ASSERT_TRUE(run([&] { return !a->ends.empty(); }));
  const auto at = [&](const auto& is) {
    return std::ranges::find_if(broker_.questions, is) - broker_.questions.begin();
  };
  EXPECT_LT(at([](const Message& one) { return std::holds_alternative<Fetch>(one); }),
            at([](const Message& one) { return std::holds_alternative<Submit>(one); }));
}

TEST_F(DeskTest, TheEndOfTheSessionIsToldToAll) {
  place();
  broker_.silent = true;
  const auto a = submit("a");
  Code status = Code::internal;
  desk_.with_status([&](const auto& answer) { status = answer ? status : answer.error().code; });
  desk_.end({Code::unauthorized, "the key was revoked", {}, {}});
  EXPECT_EQ(a->failures, std::vector<Code>{Code::unauthorized});
  EXPECT_EQ(refusals_, std::vector<Code>{Code::unauthorized});
  EXPECT_EQ(status, Code::unauthorized);
}

TEST_F(DeskTest, TheStatusIsAskedForOnceASecond) {
  place();
  const auto asked = [&] {
    return std::ranges::count_if(broker_.questions, [](const auto& one) {
      return std::holds_alternative<StatusRequest>(one);
    });
  };
  const auto before = asked();
  int told = 0;
  for (int i = 0; i < 10; ++i) desk_.with_status([&](const auto&) { ++told; });
  ASSERT_TRUE(run([&] { return told == 10; }));
  desk_.with_status([&](const auto&) { ++told; });
  EXPECT_EQ(told, 11);
  EXPECT_EQ(asked() - before, 1);
  clock_.advance_us(2'000'000);
  desk_.with_status([&](const auto&) { ++told; });
  ASSERT_TRUE(run([&] { return told == 12; }));
  EXPECT_EQ(asked() - before, 2);
}

}  // namespace
}  // namespace millrace::http
