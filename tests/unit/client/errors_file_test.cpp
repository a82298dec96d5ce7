// Failed lines of a run that has a file of errors beside its output.
#include <gtest/gtest.h>

#include "client/lines/line_id.hpp"
#include "client/run/run_folder.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t everything = ~0ull;  // bytes of a file that are known to be on disk

std::string output_line(std::uint64_t number, const std::string& rest) {
  return "{\"id\":\"" + line_id(number, number * 31) + "\"," + rest + "\n";
}

class ErrorsFileTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(ErrorsFileTest, FailedLinesMayHaveAFileOfTheirOwn) {
  const std::string good = output_line(1, "\"error\":null}"), bad = output_line(2, "\"error\":{}}");
  {
    auto output = OutputFile::open(*env_, folder_ / "out", 6, everything, {folder_ / "bad"});
    ASSERT_TRUE(output->append(1, good, false));
    ASSERT_TRUE(output->append(2, bad, true));
    EXPECT_TRUE(output->dirty());
    ASSERT_TRUE(output->sync());
    EXPECT_FALSE(output->dirty());
    EXPECT_EQ(output->size(), good.size());
    EXPECT_EQ(output->errors_size(), bad.size());
  }
  EXPECT_EQ(folder_.read("out"), good);
  EXPECT_EQ(folder_.read("bad"), bad);
  // A torn end of either is cut, and what both hold counts.
  folder_.write("bad", bad + "{\"id\":\"3-");
  const auto again =
      OutputFile::open(*env_, folder_ / "out", 6, everything, {folder_ / "bad", everything});
  ASSERT_TRUE(again.has_value()) << again.error().text();
  EXPECT_EQ(again->lines(), 2U);
  EXPECT_EQ(again->failed_lines(), 1U);
  EXPECT_GT(again->cut_bytes(), 0U);
  EXPECT_EQ(folder_.read("bad"), bad);
  ASSERT_TRUE(OutputFile::drop_failed(*env_, folder_ / "out", {folder_ / "bad"}));
  EXPECT_EQ(folder_.read("out") + folder_.read("bad"), good);
}

TEST_F(ErrorsFileTest, IdsMayBeginWithANameOfTheirOwn) {
  const std::string ours = "{\"id\":\"batch-" + line_id(2, 7) + "\",\"error\":null}\n";
  folder_.write("out", ours);
  const auto output =
      OutputFile::open(*env_, folder_ / "out", 6, everything, {}, {.id_start = "batch-"});
  ASSERT_TRUE(output.has_value()) << output.error().text();
  EXPECT_TRUE(output->holds(2));
  for (const char* other : {"", "job-"}) {
    const auto refused =
        OutputFile::open(*env_, folder_ / "out", 6, everything, {}, {.id_start = other});
    EXPECT_EQ(refused.error().code, Code::conflict) << other;
  }
}

// A restart that does not begin brings both files back; one that begins drops both.
TEST_F(ErrorsFileTest, ARestartReplacesTheFileOfErrors) {
  folder_.write("in", "a\n");
  folder_.write("out", "earlier results\n");
  folder_.write("bad", "earlier errors\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out", folder_ / "bad"};
  EXPECT_EQ(RunFolder::open(*env_, paths, {}, false).error().code, Code::conflict);
  for (const bool meets : {false, true}) {
    auto run = RunFolder::open(*env_, paths, {}, true);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    EXPECT_EQ(folder_.read("out") + folder_.read("bad"), "");
    EXPECT_TRUE(meets ? run->meet_engine("f").has_value() : run->undo(UndoLog::remove));
    EXPECT_EQ(folder_.read("out"), meets ? "" : "earlier results\n");
    EXPECT_EQ(folder_.read("bad"), meets ? "" : "earlier errors\n");
    EXPECT_FALSE(env_->exists(folder_ / "bad.replaced").value());
  }
}

// The folder's run, which no engine joined, may be replaced. A file that it did not make may not.
TEST_F(ErrorsFileTest, AnUnusedRunIsReplacedButNoFileOfErrorsThatItDidNotMake) {
  folder_.write("in", "a\nb\n");
  folder_.write("precious", "one\ntwo\n");
  const auto open = [&](const std::string& errors, const std::string& device) {
    std::map<std::string, std::string> settings = {{"--device", device}};
    if (!errors.empty()) {
      settings["--errors"] = errors;  // as run.cpp writes it: relative to the output's folder
    }
    return RunFolder::open(
        *env_, {{folder_ / "in"}, folder_ / "out", errors.empty() ? "" : folder_ / errors},
        settings, false);
  };
  for (const char* earlier : {"", "bad"}) {
    ASSERT_TRUE(open(earlier, "nonsense").has_value());
    const auto refused = open("precious", "nonsense");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::conflict) << refused.error().text();
    EXPECT_EQ(folder_.read("precious"), "one\ntwo\n") << "the run had errors in: " << earlier;
  }
  {
    auto run = open("bad", "nonsense");
    ASSERT_TRUE(run.has_value()) << run.error().text();
    ASSERT_TRUE(run->output().append(1, output_line(1, "\"error\":{}}"), true));
    ASSERT_TRUE(run->settle("", 0));
    EXPECT_NE(folder_.read("bad"), "");
  }
  auto mended = open("bad", "cpu");
  ASSERT_TRUE(mended.has_value()) << mended.error().text();
  EXPECT_EQ(mended->output().lines(), 0U);
  EXPECT_EQ(folder_.read("bad"), "") << "its own file of errors begins anew";
}

// A killed restart undoes nothing: the next call does, and it may name another file of errors.
TEST_F(ErrorsFileTest, AKilledRestartIsUndoneWithTheFilesThatItNamed) {
  folder_.write("in", "a\n");
  folder_.write("out", "earlier results\n");
  folder_.write("bad", "earlier errors\n");
  folder_.write("precious", "one\ntwo\n");
  folder_.write("precious.replaced", "three\n");
  const auto open = [&](const std::string& errors, bool restart) {
    return RunFolder::open(
        *env_, {{folder_ / "in"}, folder_ / "out", errors.empty() ? "" : folder_ / errors}, {},
        restart);
  };
  for (const char* killed : {"", "bad", "fresh"}) {
    ASSERT_TRUE(open(killed, true).has_value());
    EXPECT_EQ(folder_.read("out"), "");
    EXPECT_EQ(open("precious", false).error().code, Code::conflict);
    EXPECT_EQ(folder_.read("out"), "earlier results\n") << killed;
    EXPECT_EQ(folder_.read("bad"), "earlier errors\n") << killed;
    EXPECT_EQ(folder_.read("precious"), "one\ntwo\n") << killed;
    EXPECT_FALSE(env_->exists(folder_ / "fresh").value()) << killed;
    EXPECT_FALSE(env_->exists(folder_ / "bad.replaced").value()) << killed;
  }
  // It may be killed while it removes the earlier run, too.
  ASSERT_TRUE(open("bad", true).has_value());
  ASSERT_TRUE(env_->rename(folder_ / "out.millrace/replaced", folder_ / "out.millrace/dropped"));
  static_cast<void>(open("precious", false));
  EXPECT_FALSE(env_->exists(folder_ / "bad.replaced").value());
  EXPECT_EQ(folder_.read("precious.replaced"), "three\n");
}

TEST_F(ErrorsFileTest, ARestartKeepsWhoMayReadTheFiles) {
  namespace fs = std::filesystem;
  const auto mine = fs::perms::owner_read | fs::perms::owner_write;
  folder_.write("in", "a\n");
  for (const char* file : {"out", "bad"}) {
    fs::permissions(folder_.write(file, "earlier\n"), mine);
  }
  ASSERT_TRUE(RunFolder::open(*env_, {{folder_ / "in"}, folder_ / "out", folder_ / "bad"}, {}, true)
                  .has_value());
  for (const char* file : {"out", "bad"}) {
    EXPECT_EQ(folder_.read(file), "");
    EXPECT_EQ(fs::status(folder_ / file).permissions(), mine) << file;
  }
}

// --restart is refused where the results are printed, so no hint may name it.
TEST_F(ErrorsFileTest, APrintedRunSaysHowToWriteItsErrorsAgain) {
  folder_.write("in", "a\n");
  folder_.write("bad", "earlier errors\n");
  RunPaths paths{{folder_ / "in"}, folder_ / "out", folder_ / "bad"};
  paths.print = [](std::string_view) { return Status(); };
  const auto refused = RunFolder::open(*env_, paths, {}, false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::conflict);
  EXPECT_EQ(refused.error().hint.find("--restart"), std::string::npos) << refused.error().hint;
  EXPECT_NE(refused.error().hint.find("remove it"), std::string::npos) << refused.error().hint;
  EXPECT_EQ(folder_.read("bad"), "earlier errors\n");
}

}  // namespace
}  // namespace millrace::client
