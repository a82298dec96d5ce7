// Tests the index from which a run knows whether its input is still the same.
#include "client/run/line_index.hpp"

#include <gtest/gtest.h>

#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

class LineIndexTest : public ::testing::Test {
 protected:
  std::unique_ptr<InputFiles> input(const std::string& content) {
    return std::move(*InputFiles::open(*env_, {folder_.write("in", content)}));
  }
  Code check(const std::string& content, const InputSummary& summary) {
    const Status status = check_line_index(*env_, *input(content), folder_ / "lines", summary);
    EXPECT_FALSE(status.has_value());
    return status ? Code::internal : status.error().code;
  }
  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(LineIndexTest, IndexTellsWhichLineChanged) {
  const std::string before = "a\n\nb\nc\n";
  const auto summary = write_line_index(*env_, *input(before), folder_ / "lines");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->lines, 3U);
  EXPECT_EQ(summary->last_number, 4U);
  EXPECT_TRUE(check_line_index(*env_, *input(before), folder_ / "lines", *summary));
  EXPECT_TRUE(check_line_index(*env_, *input("a\n\nb\nc"), folder_ / "lines", *summary));
  for (const char* changed : {"a\n\nX\nc\n", "a\n\nb\n", "a\n\nb\nc\nd\n", "a\nb\nc\n", ""}) {
    EXPECT_EQ(check(changed, *summary), Code::input_changed) << changed;
  }
}

TEST_F(LineIndexTest, ADamagedIndexIsNotReportedAsAChangedInput) {
  const auto summary = write_line_index(*env_, *input("a\nb\n"), folder_ / "lines");
  ASSERT_TRUE(summary.has_value());
  folder_.write("lines", "short");
  EXPECT_EQ(check("a\nb\n", *summary), Code::ledger_corrupt);
}

TEST_F(LineIndexTest, OfSeveralInputsTheChangedLineIsNamedWithItsFile) {
  const auto open = [this](const std::string& a, const std::string& b) {
    return std::move(
        *InputFiles::open(*env_, {folder_.write("a", a), folder_.write("b", b)}, {"a", "b"}));
  };
  const auto summary = write_line_index(*env_, *open("1\n2\n", "3\n4\n"), folder_ / "lines");
  ASSERT_TRUE(summary.has_value());
  const auto message = [&](const std::string& a, const std::string& b) {
    const Status same = check_line_index(*env_, *open(a, b), folder_ / "lines", *summary);
    return same ? "" : same.error().message;
  };
  EXPECT_EQ(message("1\n2\n", "3\n4\n"), "");
  EXPECT_EQ(message("1\nx\n", "3\n4\n"), "a line 2 has changed since the run began");
  EXPECT_EQ(message("1\n2\n", "3\nx\n"), "b line 2 has changed since the run began");
  EXPECT_EQ(message("1\n2\n", "3\n4\n5\n"), "b line 3 was added since the run began");
  EXPECT_EQ(message("1\n2\n", "3\n\n4\n"),
            "b line 2 was added, removed or emptied since the run began");
  EXPECT_EQ(message("1\n2\n", "3\n"),
            "the input ends before b line 2, which it had when the run began");
}

}  // namespace
}  // namespace millrace::client
