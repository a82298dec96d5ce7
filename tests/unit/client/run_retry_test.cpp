// Tests the files of a run whose failed lines run again.
#include <gtest/gtest.h>

#include <filesystem>

#include "client/lines/line_id.hpp"
#include "client/run/run_folder.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

std::string retried_line(std::uint64_t number, const std::string& rest) {
  return "{\"id\":\"" + line_id(number, number * 31) + "\"," + rest + "\n";
}

class RunRetry : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(RunRetry, FailedLinesLeaveTheOutputWhateverTheirLength) {
  const std::string error = "\"error\":{}}", good = "\"error\":null}";
  const std::string large(3 * limits::MiB, 'x');
  folder_.write("out", retried_line(1, error) + retried_line(2, good) +
                           retried_line(3, large + error) + retried_line(4, large + good) +
                           retried_line(5, error) + retried_line(6, good) + retried_line(7, error));
  std::filesystem::permissions(
      folder_ / "out", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_TRUE(OutputFile::drop_failed(*env_, folder_ / "out"));
  EXPECT_EQ(folder_.read("out"),
            retried_line(2, good) + retried_line(4, large + good) + retried_line(6, good));
  EXPECT_EQ(std::filesystem::status(folder_ / "out").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.new"));
}

TEST_F(RunRetry, ARetryIsInTheManifestBeforeTheOutputLosesLines) {
  folder_.write("in", "a\nb\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  {
    auto run = RunFolder::open(*env_, paths, {}, false);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    ASSERT_TRUE(run->output().append(1, retried_line(1, "\"error\":{}}"), true));
    ASSERT_TRUE(run->output().append(2, retried_line(2, "\"error\":null}"), false));
    ASSERT_TRUE(run->settle("epoch", 2));
    ASSERT_TRUE(run->retry_failed());
    EXPECT_EQ(run->output().lines(), 1u);
    EXPECT_EQ(run->output().failed_lines(), 0u);
    EXPECT_FALSE(run->output().holds(1));
  }
  auto again = RunFolder::open(*env_, paths, {}, false);
  ASSERT_TRUE(again.has_value()) << again.error().text();
  EXPECT_EQ(again->manifest().retries, 1u);
  EXPECT_EQ(again->checkpoint(), (Checkpoint{"epoch", 2, again->output().size()}));
  EXPECT_TRUE(again->output().holds(2));
}

}  // namespace
}  // namespace millrace::client
