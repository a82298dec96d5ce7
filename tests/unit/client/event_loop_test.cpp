// Tests the loop in which every command waits, against a broker in memory that falls silent,
// restarts or loses its doorbell, and with a signal that interrupts the loop.
#include "client/link/event_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "client/link/result_wait.hpp"
#include "schemas/base/net/local_endpoint.hpp"
#include "tests/unit/client/fake_broker.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t job_count = 2'000;

// Submits job_count jobs and waits for their results.
class Producer final : public JobSource {
 public:
  Producer(Session& session, const Clock& clock)
      : submitter(session, clock, *this), wait(session, clock, {}, [this](auto line, const auto&) {
          ++results[line];
          return Status();
        }) {}

  Result<bool> feed(Submitter& to) override {
    if (fed == job_count) {
      return false;
    }
    Job job;
    job.id = "j" + std::to_string(++fed);
    job.request.prompt = "p";
    wait.expect(job.id, fed);
    to.add(encode_job(job), fed);
    return true;
  }
  Status on_answer(const Submission& submission) override {
    ++answers[submission.tag];
    return wait.note_answer(submission);
  }
  bool done() const { return submitter.done() && wait.done(); }

  Submitter submitter;
  ResultWait wait;
  std::uint64_t fed = 0;
  std::map<std::uint64_t, int> answers, results;  // how often each came, by job
};

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() {
    SessionOptions options;
    options.on_event = [this](const LinkEvent& event) {
      ++(event.kind == LinkEvent::Kind::away ? away_ : back_);
    };
    session_ = broker_.open_session(std::move(options));
    options_.timeout_ms = 10'000;
    options_.interrupted = [this] { return interrupted_; };
  }
  Status run(Producer& producer) {
    return EventLoop(*session_, clock_, options_).run({&producer.submitter, &producer.wait}, [&] {
      return producer.done();
    });
  }
  // Makes the broker do `what` at the `n`th wait.
  void at_wait(std::uint32_t n, std::function<void()> what) {
    broker_.at_wait = [this, n, what = std::move(what)] {
      if (broker_.waits == n) what();
    };
  }
  static void expect_all_once(const std::map<std::uint64_t, int>& counts) {
    EXPECT_EQ(counts.size(), job_count);
    EXPECT_TRUE(std::ranges::all_of(counts, [](const auto& one) { return one.second == 1; }));
  }

  ManualClock clock_;
  FakeBroker broker_{clock_};
  std::unique_ptr<Session> session_;
  EventLoopOptions options_;
  bool interrupted_ = false;
  int away_ = 0, back_ = 0;
};

TEST_F(EventLoopTest, EachJobHasItsAnswerAndItsResultOnce) {
  Producer producer(*session_, clock_);
  ASSERT_TRUE(run(producer));
  expect_all_once(producer.answers);
  expect_all_once(producer.results);
  EXPECT_EQ(away_, 0);
}

TEST_F(EventLoopTest, ABrokerThatNeverAnswersIsUnreachable) {
  broker_.silent = true;
  Producer producer(*session_, clock_);
  const Status status = run(producer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::unreachable);
  EXPECT_NE(status.error().message.find("fake://broker"), std::string::npos);
  EXPECT_GT(broker_.connections, 1U) << "hello was tried again";
  options_.timeout_ms = 0;
  at_wait(broker_.waits + 1'000, [this] { broker_.silent = false; });
  EXPECT_TRUE(run(producer)) << "without a limit the loop waits";
}

TEST_F(EventLoopTest, ASessionTurnsToTheNextBrokerWithItsQuestions) {
  SessionOptions options;
  options.endpoint = "tcp://first:1,tcp://second:1";
  broker_.away = "tcp://first:1";
  session_ = broker_.open_session(std::move(options));
  // The one that serves is lost in the middle, and the other one takes over.
  broker_.at_wait = [this] {
    if (broker_.away == "tcp://second:1" || broker_.jobs.empty()) return;
    EXPECT_EQ(session_->endpoint(), "tcp://second:1");
    broker_.away = "tcp://second:1";
    broker_.restart(true);
  };
  Producer producer(*session_, clock_);
  ASSERT_TRUE(run(producer));
  expect_all_once(producer.answers);
  expect_all_once(producer.results);
  EXPECT_EQ(session_->endpoint(), "tcp://first:1");
}

TEST_F(EventLoopTest, TheHintAboutASilentBrokerFitsTheKeyAndTheEndpoint) {
  broker_.silent = true;
  const auto hint = [this](SessionOptions options) {
    const auto session = broker_.open_session(std::move(options));
    return EventLoop(*session, clock_, options_).request(StatusRequest{}).error().hint;
  };
  constexpr auto none = std::string::npos;
  SessionOptions keyed;
  keyed.key = {"public", "secret", "of a broker"};
  EXPECT_EQ(hint({}).find("key"), none);
  EXPECT_NE(hint(keyed).find("the key file's `broker` line is not this broker's key"), none);
  EXPECT_EQ(hint({}).find("XDG_RUNTIME_DIR"), none) << "a given endpoint is not in that folder";
  SessionOptions by_default;
  by_default.endpoint = net::local_endpoint(net::clients_socket);
  EXPECT_NE(hint(by_default).find("XDG_RUNTIME_DIR"), none);
}

TEST_F(EventLoopTest, AGoodbyeIsToldWithItsReason) {
  std::vector<std::string> reasons;
  SessionOptions options;
  options.on_event = [&](const LinkEvent& event) {
    if (event.kind == LinkEvent::Kind::away) reasons.push_back(event.reason);
  };
  const auto session = broker_.open_session(std::move(options));
  broker_.at_wait = [this] {
    if (broker_.waits == 3) broker_.answer(0, Goodbye{"the key was revoked"});
    if (broker_.waits == 6) broker_.answer(0, Goodbye{});
  };
  ASSERT_TRUE(EventLoop(*session, clock_, options_).run({}, [this] { return broker_.waits > 10; }));
  EXPECT_EQ(reasons, (std::vector<std::string>{"the broker said goodbye: the key was revoked",
                                               "the broker said goodbye"}));
}

TEST_F(EventLoopTest, ABrokerWithoutRoomIsGreetedAgainWhenItSays) {
  broker_.refuses_hello =
      Error{Code::overloaded, "all sessions are in use", "try again", /*retry_ms=*/3'000};
  broker_.restart(/*connection_breaks=*/true);
  const std::int64_t begin_us = clock_.monotonic_us();
  const std::uint32_t connections = broker_.connections;
  at_wait(20, [this] { broker_.refuses_hello.reset(); });
  Producer producer(*session_, clock_);
  const Status done = run(producer);
  ASSERT_TRUE(done) << done.error().text();
  expect_all_once(producer.results);
  // One greeting for each pause that the broker asked for, and not one for each wait.
  const std::int64_t pauses = (clock_.monotonic_us() - begin_us) / 3'000'000;
  EXPECT_LE(broker_.connections - connections, pauses + 2);
}

TEST_F(EventLoopTest, ARefusalOfTheHelloItselfEndsTheLoop) {
  broker_.refuses_hello = Error{Code::unauthorized, "the key may not submit", "use another"};
  broker_.restart(/*connection_breaks=*/true);
  Producer producer(*session_, clock_);
  const Status done = run(producer);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::unauthorized);
}

TEST_F(EventLoopTest, ABrokerThatFallsSilentIsWaitedForAndGreetedAgain) {
  at_wait(4, [this] { broker_.silent = true; });
  Producer producer(*session_, clock_);
  const std::int64_t end_us = clock_.monotonic_us() + 300'000'000;  // far beyond the timeout
  const auto fall_silent = broker_.at_wait;
  broker_.at_wait = [&] {
    fall_silent();
    if (clock_.monotonic_us() > end_us) broker_.silent = false;
  };
  ASSERT_TRUE(run(producer));
  expect_all_once(producer.results);
  EXPECT_GT(clock_.monotonic_us(), end_us);
  EXPECT_GE(away_, 1);
  EXPECT_EQ(back_, 1);
}

TEST_F(EventLoopTest, IfAbsenceIsAFailureASilentBrokerEndsTheLoop) {
  options_.absence = Absence::is_failure;
  at_wait(4, [this] { broker_.silent = true; });
  Producer producer(*session_, clock_);
  const Status status = run(producer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::unreachable);
}

TEST_F(EventLoopTest, ARestartInTheMiddleLosesNothingAndRepeatsNothing) {
  for (const bool connection_breaks : {true, false}) {
    SCOPED_TRACE(connection_breaks);
    ManualClock clock;
    FakeBroker broker(clock);
    const auto session = broker.open_session();
    broker.at_wait = [&] {
      broker.loses_submitted = broker.waits == 3;  // the jobs are on disk, but the answer is lost
      if (broker.waits == 5) broker.restart(connection_breaks);
    };
    Producer producer(*session, clock);
    EventLoop loop(*session, clock, {});
    ASSERT_TRUE(loop.run({&producer.submitter, &producer.wait}, [&] { return producer.done(); }));
    expect_all_once(producer.answers);
    expect_all_once(producer.results);
    EXPECT_EQ(broker.connections, 2U);
    EXPECT_GT(broker.resubmitted, 0U);
    EXPECT_EQ(broker.entries.size(), job_count);
  }
}

TEST_F(EventLoopTest, AResultIsReadAtTheRingAndLaterWithoutARing) {
  const auto ms_until_read = [&](bool rings) {
    ManualClock clock;
    FakeBroker broker(clock);
    broker.rings = rings;
    broker.ends_at_once = false;
    const auto session = broker.open_session();
    std::int64_t published_us = 0;
    broker.at_wait = [&] {
      if (broker.waits == 100) {
        published_us = clock.monotonic_us();
        for (const auto& [id, ended] : broker.jobs) broker.complete(id);
      }
    };
    Producer producer(*session, clock);
    EventLoop loop(*session, clock, {});
    EXPECT_TRUE(loop.run({&producer.submitter, &producer.wait}, [&] { return producer.done(); }));
    expect_all_once(producer.results);
    return (clock.monotonic_us() - published_us) / 1'000;
  };
  EXPECT_EQ(ms_until_read(true), 0);
  EXPECT_GT(ms_until_read(false), 0);  // by the test's own clock
}

TEST_F(EventLoopTest, ASignalEndsTheLoopBeforeAnythingElseIsAsked) {
  std::size_t asked = 0;
  at_wait(4, [&] {
    interrupted_ = true;
    asked = broker_.questions.size();
  });
  Producer producer(*session_, clock_);
  const Status status = run(producer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::interrupted);
  EXPECT_EQ(broker_.questions.size(), asked);
  EXPECT_EQ(broker_.waits, 4U);
}

TEST_F(EventLoopTest, ARequestIsAnsweredRefusedOrTimesOut) {
  EventLoop loop(*session_, clock_, options_);
  EXPECT_TRUE(loop.request_as<StatusAnswer>(StatusRequest{}));
  EXPECT_EQ(loop.request_as<Acknowledged>(StatusRequest{}).error().code, Code::unexpected_message);
  broker_.answers_status = false;
  EXPECT_EQ(loop.request(StatusRequest{}).error().code, Code::timed_out);
  at_wait(broker_.waits + 2, [this] { interrupted_ = true; });
  EXPECT_EQ(loop.request(StatusRequest{}).error().code, Code::interrupted);
  interrupted_ = false;
  broker_.silent = true;
  const auto fresh = broker_.open_session();
  EventLoop to_nobody(*fresh, clock_, options_);
  EXPECT_EQ(to_nobody.request(StatusRequest{}).error().code, Code::unreachable);
  EXPECT_EQ(session_->unanswered() + fresh->unanswered(), 0U) << "nobody waits for late answers";
}

TEST_F(EventLoopTest, APauseIsARequestWithOneAnswer) {
  EventLoop loop(*session_, clock_, options_);
  const auto pause = loop.request_as<PauseChanged>(ChangePause{.batch = "evening"});
  ASSERT_TRUE(pause);
  EXPECT_TRUE(pause->changed);
  const ChangePause resume{.batch = "evening", .paused = false};
  EXPECT_TRUE(loop.request_as<PauseChanged>(resume)->changed);
  EXPECT_FALSE(loop.request_as<PauseChanged>(resume)->changed);
}

// A handler that counts the answers that it is offered.
class Counter final : public EventHandler {
 public:
  Status tick() override { return ++ticks == fails_at ? fail(Code::io_error, "x") : Status(); }
  bool busy() const override { return ticks < busy_until; }
  Result<bool> take(Envelope&) override {
    ++offered;
    return takes;
  }
  int ticks = 0, busy_until = 0, fails_at = 0, offered = 0;
  bool takes = true;
};

TEST_F(EventLoopTest, ABusyHandlerIsNotWaitedForAndAnAnswerIsTakenOnce) {
  Counter first;
  Counter second;
  second.busy_until = 3;
  for (int i = 0; i < 2; ++i) session_->ask(StatusRequest{});
  EventLoop loop(*session_, clock_, options_);
  ASSERT_TRUE(loop.run({&first, &second}, [&] { return first.ticks == 5; }));
  EXPECT_EQ(broker_.timeouts_ms, (std::vector<std::uint32_t>{0, 0, 50, 50, 50}));
  EXPECT_EQ(first.offered, 2);
  EXPECT_EQ(second.offered, 0);
  first.takes = false;
  session_->ask(StatusRequest{});
  ASSERT_TRUE(loop.run({&first, &second}, [&] { return second.offered > 0; }));
  second.fails_at = second.ticks + 1;
  EXPECT_EQ(loop.run({&first, &second}, [] { return false; }).error().code, Code::io_error);
}

TEST_F(EventLoopTest, EachConnectionAsksOnceForThePartialsOfAStream) {
  broker_.knows_partials = true;
  session_ = broker_.open_session();
  session_->watch("results");
  std::vector<Envelope> answers;
  std::vector<Bell> bells;
  const auto poll_until_ready = [&] {
    while (!session_->ready()) ASSERT_TRUE(session_->poll(10, answers, bells));
  };
  for (std::size_t connection = 1; connection <= 3; ++connection) {
    poll_until_ready();
    EXPECT_EQ(broker_.questions.size(), connection);
    EXPECT_EQ(session_->unanswered(), 1U);
    broker_.knows_partials = connection < 3;
    broker_.restart(true);
    ASSERT_TRUE(session_->poll(10, answers, bells));
    ASSERT_FALSE(session_->ready());
  }
  poll_until_ready();
  EXPECT_EQ(broker_.questions.size(), 3U) << "this broker does not know the question";
  EXPECT_EQ(session_->unanswered(), 0U);
}

}  // namespace
}  // namespace millrace::client
