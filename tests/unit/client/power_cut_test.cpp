// Cuts the power at 200 points of a run's file work (lock, index, manifest, output, checkpoint),
// each time with other unsynced writes lost, kept or torn. Afterwards the same run must go on: the
// output holds what the checkpoint announced, and in the end every line exactly once and whole. The
// test must notice a planted fault, a checkpoint that is saved before the output is synced.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "client/lines/checkpoint.hpp"
#include "client/lines/line_id.hpp"
#include "client/run/run_folder.hpp"
#include "schemas/base/fault_env.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t line_count = 40;
constexpr std::uint64_t cuts = 200;

enum class Order : std::uint8_t { correct, checkpoint_first };

std::string output_line(std::uint64_t number) {
  return "{\"id\":\"" + line_id(number, number * 31) + "\",\"text\":\"" +
         std::string(number * 7, 'x') + "\",\"error\":null}\n";
}

// The run's paths must exist for its path checks; all writes go to the disk in memory.
class PowerCut : public ::testing::Test {
 protected:
  PowerCut() {
    for (std::uint64_t i = 0; i < line_count; ++i) {
      input_ += "line " + std::to_string(i) + "\n";
    }
    paths_ = {{folder_.write("in", input_)}, folder_ / "out"};
  }

  void put_input(FaultEnv& env) {
    const std::string parent = parent_directory(paths_.inputs[0]);
    ASSERT_TRUE(env.make_directories(parent));
    ASSERT_TRUE(write_file_atomically(env, paths_.inputs[0], input_));
  }

  // One session: opens the run, writes the results of the stream, where number n is line n, and
  // settles now and then. False if the power was cut.
  bool session(FaultEnv& env, Order order, std::mt19937_64& random, std::uint64_t& announced) {
    auto run = RunFolder::open(env, paths_, {{"--model", "m"}}, false);
    if (!run) {
      return false;
    }
    for (std::uint64_t number = 1; number <= announced; ++number) {
      if (!run->output().holds(number)) {
        lost_ = true;  // the ledger's cursor has passed the line, so it would never be written
      }
    }
    for (std::uint64_t number = run->checkpoint().number + 1; number <= line_count; ++number) {
      if (run->output().holds(number)) {
        continue;
      }
      if (!run->output().append(number, output_line(number), false)) {
        return false;
      }
      if (random() % 3 == 0 && !run->output().flush()) {
        return false;
      }
      if (random() % 5 == 0 || number == line_count) {
        if (!settle(env, *run, order, number)) {
          return false;
        }
        announced = number;
      }
    }
    return true;
  }

  bool settle(FaultEnv& env, RunFolder& run, Order order, std::uint64_t number) {
    if (order == Order::correct) {
      return run.settle("epoch", number).has_value();
    }
    if (!run.output().flush()) {
      return false;
    }
    const Checkpoint early{"epoch", number, run.output().size()};
    return save_checkpoint(env, run.path("checkpoint.json"), early) && run.output().sync();
  }

  // True if the output holds each line once and nothing else.
  static bool whole(FaultEnv& env, const std::string& path) {
    const auto text = read_file(env, path, limits::MiB);
    std::string expected;
    for (std::uint64_t number = 1; number <= line_count; ++number) {
      expected += output_line(number);
    }
    return text && *text == expected;
  }

  // Returns how many of `cuts` runs, with the power cut at ever later points, lost or spoiled a
  // line.
  std::uint64_t damaged_runs(Order order) {
    std::uint64_t damaged = 0;
    for (std::uint64_t cut = 1; cut <= cuts; ++cut) {
      FaultEnv env;
      put_input(env);
      std::mt19937_64 random(cut);
      std::uint64_t announced = 0;
      lost_ = false;
      env.cut_after(1 + cut % 97);
      bool refused = false;
      for (int i = 0; i < 4 && !session(env, order, random, announced) && !refused; ++i) {
        refused = !env.is_cut();
        env.restart(cut * 1000 + static_cast<std::uint64_t>(i));
        if (i < 2) {
          env.cut_after(1 + random() % 60);  // cuts the power again while the run goes on
        }
      }
      damaged += lost_ || refused || !whole(env, paths_.output) ? 1 : 0;
    }
    return damaged;
  }

  // Writes a whole run, with the engine of model m.
  void put_whole_run(FaultEnv& env, std::mt19937_64& random) {
    put_input(env);
    std::uint64_t announced = 0;
    ASSERT_TRUE(session(env, Order::correct, random, announced));
    ASSERT_TRUE(RunFolder::open(env, paths_, {{"--model", "m"}}, false)->meet_engine("m"));
  }

  // Makes a whole run, and a restart that a power cut interrupts at operation `cut`, and once more
  // during the recovery. Afterwards one of the two runs must be there, whole.
  void restart_cut_at(std::uint64_t cut, bool finish) {
    SCOPED_TRACE(cut);
    FaultEnv env;
    std::mt19937_64 random(cut);
    put_whole_run(env, random);
    const auto open = [&](const char* model, bool restart) {
      return RunFolder::open(env, paths_, {{"--model", model}}, restart);
    };
    env.cut_after(cut);
    auto restarted = open("n", true);
    reached_ = !restarted || !(finish ? restarted->finish() : restarted->meet_engine("n"));
    env.restart(cut);
    env.cut_after(1 + random() % 12);
    static_cast<void>(open("n", false));
    env.restart(cut + 1);
    if (const auto anew = open("n", false)) {
      EXPECT_EQ(anew->manifest().fingerprint, finish ? "" : "n");
      EXPECT_TRUE(read_file(env, paths_.output, limits::MiB) == "" &&
                  anew->checkpoint() == Checkpoint{});
      EXPECT_FALSE(anew->replaces());
      ++replaced_;
    } else {
      const auto old = open("m", false);
      ASSERT_TRUE(old.has_value()) << old.error().text() << anew.error().text();
      EXPECT_TRUE(whole(env, paths_.output));
      EXPECT_EQ(old->checkpoint().number, line_count);
      ++kept_;
    }
    EXPECT_FALSE(*env.exists(paths_.output + ".replaced"));
  }

  // Makes a whole run, and a restart in which operation `at` fails once. A restart that could not
  // begin has changed nothing; one that an engine has joined is the run.
  void restart_fails_at(std::uint64_t at) {
    SCOPED_TRACE(at);
    FaultEnv env;
    std::mt19937_64 random(at);
    put_whole_run(env, random);
    std::uint64_t left = at;
    env.set_hook([&left](std::string_view, const std::string&) -> Status {
      if (left == 0) return {};
      --left;
      if (left > 0) return {};
      return fail(Code::disk_full, "no room");
    });
    bool met = false;
    if (auto run = RunFolder::open(env, paths_, {{"--model", "n"}}, true)) {
      met = run->meet_engine("n") || !run->undo(UndoLog::keep);
    }
    reached_ = left == 0;
    ++(met ? replaced_ : kept_);
    EXPECT_EQ(whole(env, paths_.output), !met);
    env.set_hook({});
    const char* model = met ? "n" : "m";
    const auto anew = RunFolder::open(env, paths_, {{"--model", model}}, false);
    ASSERT_TRUE(anew.has_value()) << anew.error().text();
    EXPECT_EQ(anew->manifest().fingerprint, model);
    EXPECT_EQ(anew->checkpoint().number, met ? 0 : line_count);
    EXPECT_FALSE(*env.exists(paths_.output + ".replaced"));
  }

  bool reached_ = true;  // the last cut took place
  std::uint64_t kept_ = 0, replaced_ = 0;
  TemporaryFolder folder_;
  std::string input_;
  RunPaths paths_;
  bool lost_ = false;
};

TEST_F(PowerCut, EveryLineIsWrittenOnceWhateverIsLost) {
  EXPECT_EQ(damaged_runs(Order::correct), 0U);
}

TEST_F(PowerCut, ARestartDropsTheEarlierRunOnlyWhenAnEngineHasJoinedOrItIsDone) {
  for (const bool finish : {false, true}) {
    SCOPED_TRACE(finish);
    reached_ = true;
    kept_ = replaced_ = 0;
    for (std::uint64_t cut = 1; reached_; ++cut) {
      restart_cut_at(cut, finish);
      ASSERT_LT(cut, 200u);
    }
    EXPECT_GT(kept_, 10u);
    EXPECT_GT(replaced_, 3u);
  }
}

TEST_F(PowerCut, ARestartThatFailsBeforeAnEngineJoinsRestoresTheEarlierRunAtOnce) {
  for (std::uint64_t at = 1; reached_; ++at) {
    restart_fails_at(at);
    ASSERT_LT(at, 200u);
  }
  EXPECT_GT(kept_, 10u);
  EXPECT_GT(replaced_, 3u);
}

TEST_F(PowerCut, ACheckpointAheadOfTheSyncIsNoticed) {
  EXPECT_GT(damaged_runs(Order::checkpoint_first), 0U);
}

}  // namespace
}  // namespace millrace::client
