// A session whose broker is away, restarts, refuses or leaves; draining; a lost device; bad frames.
#include "tests/unit/worker/session_fixture.hpp"

namespace millrace::worker {
namespace {

TEST_F(SessionTest, AwayItGoesOnAndKeepsResultsForTheNextBroker) {
  int away_lines = 0, join_lines = 0;
  set_up_logging({LogLevel::info, false, [&](std::string_view line) {
                    away_lines += line.find("broker is away") != std::string_view::npos;
                    join_lines += line.find("joined") != std::string_view::npos;
                  }});
  join();
  lease({1, 2});
  for (int i = 0; i < 100; ++i) {  // nobody answers
    wait_ms(500);
    session_.pump();
  }
  EXPECT_NE(session_.state(), Session::State::joined);
  EXPECT_EQ(away_lines, 1);
  executor_.end(1);
  session_.pump();
  EXPECT_EQ(session_.book().unconfirmed(), 1u);
  wait_ms(20'000);
  welcome("b2");
  EXPECT_EQ(join_lines, 2);
  const auto all = sent();
  const auto beat = only<Heartbeat>(all);
  ASSERT_EQ(beat.size(), 1u);
  EXPECT_EQ(beat[0].leases, (Leased{1, 2}));
  EXPECT_EQ(leases_of(only<Ends>(all)), Leased{1});
  executor_.end(2);
  EXPECT_EQ(ends_sent(), Leased{2});
  EXPECT_EQ(away_lines, 1);
}

TEST_F(SessionTest, ABrokerThatStartedAnewIsGreetedAndGetsTheEndsAgain) {
  join();
  lease({1});
  executor_.end(1);
  EXPECT_EQ(ends_sent(), Leased{1});
  wait_ms(1'000);
  const auto beat = sent();
  ASSERT_EQ(only<Heartbeat>(beat).size(), 1u);
  const Refused who{{Code::unexpected_message, "no session is open", ""}};
  say(who, beat.back().id);
  EXPECT_EQ(session_.state(), Session::State::greeting);
  say(who, 1);  // this refuses the ends that were sent before, not the hello
  EXPECT_EQ(session_.state(), Session::State::greeting);
  welcome("b2");
  EXPECT_EQ(ends_sent(), Leased{1});
}

TEST_F(SessionTest, AGoodbyeOfTheBrokerIsNoReasonToStop) {
  join();
  lease({1});
  say(Goodbye{"restart"});
  EXPECT_EQ(session_.state(), Session::State::away);
  executor_.end(1);
  wait_ms(1'000);
  welcome("b2");
  EXPECT_EQ(ends_sent(), Leased{1});
}

TEST_F(SessionTest, ARefusalForGoodEndsIt) {
  const auto hello = sent();
  say(Refused{{Code::unsupported_version, "speaks 9", "update"}}, hello.back().id);
  EXPECT_TRUE(session_.finished());
  ASSERT_FALSE(session_.outcome());
  EXPECT_EQ(session_.outcome().error().code, Code::unsupported_version);
}

TEST_F(SessionTest, ARefusalForNowIsTriedAgain) {
  const auto hello = sent();
  say(Refused{{Code::overloaded, "full", ""}}, hello.back().id);
  EXPECT_FALSE(session_.finished());
  wait_ms(1'000);
  welcome();
  EXPECT_EQ(session_.state(), Session::State::joined);
}

TEST_F(SessionTest, DrainFinishesWhatRunsAndHandsBackWhatWaits) {
  join();
  lease({1});
  lease({2}, true);  // waits for 1
  session_.drain("test");
  auto all = sent();
  ASSERT_EQ(only<Release>(all).size(), 1u);
  EXPECT_EQ(only<Release>(all)[0].leases, Leased{2});
  ASSERT_EQ(only<Ready>(all).size(), 1u);
  EXPECT_EQ(only<Ready>(all)[0].credit, 0u);
  lease({3});  // crossed with it
  EXPECT_EQ(sent_of<Release>().at(0).leases, Leased{3});
  EXPECT_EQ(executor_.started(), Leased{1});
  executor_.end(1);
  all = sent();
  EXPECT_EQ(leases_of(only<Ends>(all)), Leased{1});
  EXPECT_TRUE(only<Goodbye>(all).empty());  // not before the result is safe
  say(Committed{{1}, {}});
  EXPECT_EQ(sent_of<Goodbye>().size(), 1u);
  EXPECT_TRUE(session_.finished());
  EXPECT_TRUE(session_.outcome());
}

TEST_F(SessionTest, DrainGivesUpAfterItsTime) {
  join();
  lease({1, 2});
  session_.drain("test");
  executor_.end(1);
  EXPECT_EQ(ends_sent(), Leased{1});
  for (int i = 0; i < 29; ++i) {
    wait_ms(1'000);
    answer();
    EXPECT_TRUE(sent_of<Release>().empty());
  }
  say(Committed{{1}, {}});
  wait_ms(1'000);
  const auto all = sent();
  ASSERT_EQ(only<Release>(all).size(), 1u);
  EXPECT_EQ(only<Release>(all)[0].leases, Leased{2});
  EXPECT_EQ(executor_.cancelled, Leased{2});
  EXPECT_EQ(only<Goodbye>(all).size(), 1u);
  EXPECT_TRUE(session_.finished());
}

TEST_F(SessionTest, ASecondStopLeavesAtOnce) {
  join();
  lease({1});
  session_.drain("test");
  EXPECT_TRUE(sent_of<Goodbye>().empty());
  session_.drain("test");
  const auto all = sent();
  EXPECT_EQ(only<Release>(all).at(0).leases, Leased{1});
  EXPECT_EQ(only<Goodbye>(all).size(), 1u);
  EXPECT_TRUE(session_.finished());
}

TEST_F(SessionTest, TheBrokerMayAskForTheDrain) {
  join();
  answer({{}, {}, true});
  EXPECT_EQ(sent_of<Goodbye>().size(), 1u);
  EXPECT_TRUE(session_.finished());
}

TEST_F(SessionTest, DrainingWithoutABrokerEnds) {
  session_.pump();
  session_.drain("test");
  session_.pump();
  EXPECT_TRUE(session_.finished());
}

TEST_F(SessionTest, ALostDeviceKeepsItsLeasesSoThatTheyBecomeSuspects) {
  join();
  lease({1, 2});
  lease({3}, true);
  executor_.end(1);
  executor_.failed = Error{Code::device_error, "gone", ""};
  const auto all = sent();
  EXPECT_EQ(leases_of(only<Ends>(all)), Leased{1});
  ASSERT_EQ(only<Release>(all).size(), 1u);
  EXPECT_EQ(only<Release>(all)[0].leases, Leased{3});  // it never ran
  say(Committed{{1}, {}});
  EXPECT_TRUE(sent_of<Goodbye>().empty());  // a goodbye would hand back job 2 without blame
  EXPECT_TRUE(session_.finished());
  ASSERT_FALSE(session_.outcome());
  EXPECT_EQ(session_.outcome().error().code, Code::device_error);
}

TEST_F(SessionTest, NoiseFromTheBrokerIsDropped) {
  join();
  session_.received("");
  session_.received("\xc1\xff");
  say(Submitted{});
  say(Committed{{4, 5}, {6}});
  say(HeartbeatAnswer{{7}, {8}, false});
  lease({1});
  lease({1});  // twice
  EXPECT_EQ(executor_.started(), Leased{1});
  EXPECT_EQ(session_.state(), Session::State::joined);
}

}  // namespace
}  // namespace millrace::worker
