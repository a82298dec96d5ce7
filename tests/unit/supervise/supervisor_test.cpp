// The supervisor with real processes in the place of the engine: shell scripts that say something
// and end. Time is the test's own, so pauses between starts are not waited for.
#include "engine/supervise/supervisor.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "schemas/base/fault_env.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::supervise {
namespace {

constexpr auto patience = std::chrono::seconds(60);  // more mean that a process hangs

class SupervisorTest : public ::testing::Test {
 protected:
  Supervisor supervise(const std::string& script, bool log_stays = true,
                       Patience patience = Patience::run) {
    SupervisorOptions options;
    options.program = "/bin/sh";
    options.arguments = {"-c", script};
    options.log_path = log_stays ? log_path_ : "";
    options.hopeless_starts = 3;
    options.patience = patience;
    SupervisorHooks hooks;
    hooks.died = [this] { ++deaths_; };
    hooks.trouble = [this](const std::string& event, const Error& error) {
      events_.push_back(event);
      last_ = error;
    };
    log_ = env_->open(log_path_, OpenMode::replace).value();
    hooks.output = [this](const std::string& text) { return log_->append(text); };
    return {std::move(options), clock_, std::move(hooks)};
  }
  // Ticks until the supervisor gives up, or `until` holds. Time passes, so that restarts are due.
  Status tick(Supervisor& supervisor, const std::function<bool()>& until) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!until()) {
      if (std::chrono::steady_clock::now() > end) return fail(Code::internal, "nothing happens");
      MILLRACE_TRY(supervisor.tick());
      clock_.advance_us(1'000'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }
  // The error with which the supervisor gives up.
  Error end_of(Supervisor& supervisor) {
    if (const Status started = supervisor.start(); !started) return started.error();
    const Status status = tick(supervisor, [] { return false; });
    return status ? Error{} : status.error();
  }
  std::string words(const std::string& line) {
    return "echo 'millrace-engine: " + line + "' >&2; ";
  }

  client::TemporaryFolder folder_;
  std::string log_path_ = folder_ / "engine.log";
  std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<File> log_;
  ManualClock clock_;
  std::vector<std::string> events_;
  Error last_;
  int deaths_ = 0;
};

TEST_F(SupervisorTest, WhatTheEngineRefusesIsTheRunsError) {
  Supervisor supervisor = supervise("echo loading; " + words("no_device: there is no device 7") +
                                    "echo '  millrace doctor lists them' >&2; exit 3");
  const Error error = end_of(supervisor);
  EXPECT_EQ(error.code, Code::no_device);
  EXPECT_EQ(error.message, "there is no device 7");
  EXPECT_EQ(error.hint, "millrace doctor lists them") << "the log would tell no more";
  EXPECT_EQ(folder_.read("engine.log"),
            "loading\nmillrace-engine: no_device: there is no device 7\n"
            "  millrace doctor lists them\n");
  EXPECT_EQ(deaths_, 1);
}

TEST_F(SupervisorTest, AfterAFailureOfTheEngineTheLogIsWorthReading) {
  const std::string script = words("device_error: the device is lost") + "exit 1";
  Supervisor supervisor = supervise(script);
  const Error error = end_of(supervisor);
  EXPECT_EQ(error.code, Code::device_error);
  EXPECT_EQ(error.hint, "its whole log is in " + log_path_);
  Supervisor brief = supervise(script, /*log_stays=*/false);
  EXPECT_EQ(end_of(brief).hint, "") << "a log that goes with the run is not named";
}

TEST_F(SupervisorTest, LastWordsThatAreNoErrorAreQuoted) {
  Supervisor supervisor = supervise("for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; done; exit 4");
  const Error error = end_of(supervisor);
  EXPECT_EQ(error.code, Code::engine_failed);
  EXPECT_EQ(error.message,
            "the engine ended with exit status 4 before it could take work; its last words:\n"
            "line 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10");
  Supervisor unknown = supervise(words("no_such_code: x") + "exit 4");
  EXPECT_EQ(end_of(unknown).code, Code::engine_failed);
  Supervisor silent = supervise("exit 4");
  EXPECT_TRUE(end_of(silent).message.ends_with("its last words:\nit said nothing"));
}

TEST_F(SupervisorTest, AnEngineThatIsStartedAgainIsQuotedWithOneLine) {
  Supervisor supervisor = supervise("for i in 1 2 3; do echo line $i; done; exit 5");
  ASSERT_TRUE(supervisor.start());
  supervisor.joined();
  const Status status = tick(supervisor, [] { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(last_.message, "the engine ended with exit status 5; its last words: line 3 (more in " +
                               log_path_ + ")");
}

TEST_F(SupervisorTest, TheErrorOfAnEngineIsQuotedAndNotTheLinesAfterIt) {
  Supervisor supervisor = supervise(
      "echo 'millrace-engine 1: device_error: the device is lost'; echo '  update the driver'; "
      "echo 'a step failed'; echo '  a note'; exit 1");
  ASSERT_TRUE(supervisor.start());
  supervisor.joined();
  ASSERT_TRUE(tick(supervisor, [this] { return !last_.message.empty(); }));
  EXPECT_EQ(last_.message,
            "the engine ended with exit status 1; its last words: device_error: the device is lost "
            "(more in " +
                log_path_ + ")");
}

TEST_F(SupervisorTest, AStartThatASignalEndsNamesTheCacheOfTheDriver) {
  Supervisor supervisor = supervise("kill -SEGV $$");
  const Error error = end_of(supervisor);
  EXPECT_EQ(error.code, Code::engine_failed);
  EXPECT_NE(error.message.find("signal 11"), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("its whole log is in"), std::string::npos);
  EXPECT_NE(error.hint.find("driver_cache"), std::string::npos);
}

TEST_F(SupervisorTest, AnEngineThatHasJoinedIsStartedAgainUntilThatIsHopeless) {
  Supervisor supervisor = supervise("echo bye; exit 5");
  ASSERT_TRUE(supervisor.start());
  supervisor.joined();
  const Status status = tick(supervisor, [] { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::engine_failed);
  EXPECT_NE(status.error().message.find("exit status 5, again and again"), std::string::npos);
  // The first had joined; the third in a row that has not is the last.
  EXPECT_EQ(supervisor.starts(), 4U);
  EXPECT_EQ(deaths_, 4);
  EXPECT_EQ(events_, std::vector<std::string>(3, "engine_died"));
  EXPECT_EQ(last_.code, Code::engine_died);
}

TEST_F(SupervisorTest, AHungEngineIsKilledAndStartedAgain) {
  Supervisor supervisor = supervise("trap '' TERM; while :; do sleep 1; done");
  ASSERT_TRUE(supervisor.start());
  supervisor.joined();
  ASSERT_TRUE(supervisor.tick());
  supervisor.hung();
  ASSERT_TRUE(tick(supervisor, [&] { return supervisor.starts() == 2; }));
  EXPECT_EQ(events_, (std::vector<std::string>{"engine_hung", "engine_died"}));
  EXPECT_NE(last_.message.find("signal 9"), std::string::npos) << last_.message;
  supervisor.stop();
  EXPECT_EQ(deaths_, 1) << "a stop is no death";
}

TEST_F(SupervisorTest, ALogThatCannotBeWrittenStopsNothing) {
  auto disk = std::make_unique<FaultEnv>();
  ASSERT_TRUE(disk->make_directories("/run"));
  disk->set_capacity(0);
  env_ = std::move(disk);
  log_path_ = "/run/engine.log";
  Supervisor supervisor = supervise("echo out of ideas; exit 4");
  const Error error = end_of(supervisor);
  EXPECT_EQ(error.code, Code::engine_failed);
  EXPECT_NE(error.message.find("[the log could not be written: "), std::string::npos);
  EXPECT_TRUE(error.message.ends_with("out of ideas")) << error.message;
}

// A service goes on for as long as it takes, and an exit status of 0 is the end of a drain.
TEST_F(SupervisorTest, AServiceStartsAnEngineAgainThatTheBrokerHasTakenBefore) {
  Supervisor supervisor = supervise("echo bye; exit 3", true, Patience::service);
  ASSERT_TRUE(supervisor.start());
  supervisor.joined();
  ASSERT_TRUE(tick(supervisor, [&] { return supervisor.starts() == 20; }));
  EXPECT_FALSE(supervisor.over());
}

TEST_F(SupervisorTest, AServiceStartsAgainWhatCrashesAndGivesUpWhatIsRefused) {
  Supervisor crashing = supervise("kill -SEGV $$", true, Patience::service);
  ASSERT_TRUE(crashing.start());
  ASSERT_TRUE(tick(crashing, [&] { return crashing.starts() == 10; }));
  Supervisor lost =
      supervise(words("device_error: the device is lost") + "exit 3", true, Patience::service);
  ASSERT_TRUE(lost.start());
  ASSERT_TRUE(tick(lost, [&] { return lost.starts() == 10; }));
  Supervisor refused =
      supervise(words("no_device: there is none") + "exit 3", true, Patience::service);
  EXPECT_EQ(end_of(refused).code, Code::no_device);
  EXPECT_EQ(refused.starts(), 1U);
  EXPECT_TRUE(refused.over());
}

TEST_F(SupervisorTest, AnEngineThatHasDrainedIsNotStartedAgain) {
  Supervisor supervisor = supervise("exit 0", true, Patience::service);
  ASSERT_TRUE(supervisor.start());
  ASSERT_TRUE(tick(supervisor, [&] { return supervisor.over(); }));
  EXPECT_EQ(supervisor.starts(), 1U);
  EXPECT_EQ(events_, std::vector<std::string>());
}

TEST_F(SupervisorTest, ADrainEndsAPauseAndTellsWhatEndsBadly) {
  Supervisor supervisor = supervise("exit 5", true, Patience::service);
  ASSERT_TRUE(supervisor.start());
  ASSERT_TRUE(tick(supervisor, [&] { return !events_.empty(); }));
  supervisor.drain();  // it waits for its restart
  EXPECT_TRUE(supervisor.over());
  Supervisor bad = supervise("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", true,
                             Patience::service);
  ASSERT_TRUE(bad.start());
  ASSERT_TRUE(tick(bad, [&] { return folder_.read("engine.log").starts_with("up"); }));
  bad.drain();
  const Status status = tick(bad, [] { return false; });
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("exit status 7 when it was told to leave"),
            std::string::npos);
}

TEST(ChildProcess, AProgramThatCannotBeStartedSaysWhy) {
  const client::TemporaryFolder folder;
  ChildProcess child;
  const Status absent = child.start(folder / "engine", {});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::not_found);
  EXPECT_NE(absent.error().hint.find("--engine"), std::string::npos);
  const Status plain_file = child.start(folder.write("text", "no program"), {});
  ASSERT_FALSE(plain_file);
  EXPECT_EQ(plain_file.error().code, Code::io_error);
  EXPECT_FALSE(child.running());
  EXPECT_FALSE(child.reap());
}

TEST(ChildProcess, ItsDestructorEndsEvenAProcessThatIgnoresSigterm) {
  pid_t pid = 0;
  {
    ChildProcess child;
    ASSERT_TRUE(child.start("/bin/sh", {"-c", "trap '' TERM; echo $$; while :; do sleep 1; done"}));
    std::string text;
    while (!text.ends_with('\n')) text += child.read_output();
    pid = std::stoi(text);
    ASSERT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace millrace::supervise
