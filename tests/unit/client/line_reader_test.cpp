#include "client/lines/line_reader.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "schemas/base/hash.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

struct Seen {
  std::uint64_t number;
  std::string text;
  bool too_long;
  std::uint64_t bytes;
  std::uint64_t hash;
};

std::vector<Seen> read_all(const std::string& content, std::uint64_t limit) {
  const TemporaryFolder folder;
  const auto env = posix_env();
  auto file = env->open(folder.write("in", content), OpenMode::read);
  LineReader reader(**file, limit);
  InputLine line;
  std::vector<Seen> seen;
  while (true) {
    const auto more = reader.next(line);
    EXPECT_TRUE(more.has_value());
    if (!more || !*more) {
      return seen;
    }
    seen.push_back({line.number, std::string(line.text), line.too_long, line.bytes, line.hash});
  }
}

TEST(LineReader, NumbersCountBlankLinesAndTheLastNeedsNoNewline) {
  const auto seen = read_all("a\n\n \t\r\nb\r\nlast", 100);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].number, 1U);
  EXPECT_EQ(seen[1].number, 4U);
  EXPECT_EQ(seen[1].text, "b");
  EXPECT_EQ(seen[2].number, 5U);
  EXPECT_EQ(seen[2].text, "last");
}

TEST(LineReader, EmptyAndBlankFilesHoldNothing) {
  EXPECT_TRUE(read_all("", 100).empty());
  EXPECT_TRUE(read_all("\n\n  \n", 100).empty());
}

TEST(LineReader, SkipsAByteOrderMark) {
  const auto seen = read_all("\xEF\xBB\xBF{}\n", 100);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].text, "{}");
}

TEST(LineReader, LongLineIsReportedWithItsSizeAndTheNextOneIsRead) {
  const std::string long_line(3 * limits::MiB, 'x');
  const auto seen = read_all("a\n" + long_line + "\r\nb\n", limits::MiB);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_TRUE(seen[1].too_long);
  EXPECT_TRUE(seen[1].text.empty());
  EXPECT_EQ(seen[1].bytes, long_line.size());
  EXPECT_EQ(seen[1].number, 2U);
  EXPECT_EQ(seen[2].text, "b");
  EXPECT_EQ(seen[2].number, 3U);
}

TEST(LineReader, LongLinesHashIsThatOfItsBytesWhereverReadsFall) {
  for (const std::size_t size : {101UL, 256 * 1024UL, 256 * 1024UL + 1, 600'000UL}) {
    const std::string text(size, 'y');
    const auto middle = read_all(text + "\nb", 100);
    const auto last = read_all("\n" + text, 100);
    ASSERT_EQ(middle.size(), 2U);
    ASSERT_EQ(last.size(), 1U);
    EXPECT_EQ(middle[0].hash, hash128(text).low) << size;
    EXPECT_EQ(last[0].hash, hash128(text).low) << size;
    EXPECT_EQ(last[0].bytes, size);
  }
}

TEST(LineReader, ALineOfExactlyTheLimitIsRead) {
  const auto seen = read_all(std::string(100, 'z') + "\n" + std::string(101, 'z'), 100);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_FALSE(seen[0].too_long);
  EXPECT_TRUE(seen[1].too_long);
}

TEST(LineReader, ManyLinesAcrossReads) {
  std::string content;
  for (int i = 0; i < 50'000; ++i) {
    content += "line " + std::to_string(i) + "\n";
  }
  const auto seen = read_all(content, 100);
  ASSERT_EQ(seen.size(), 50'000U);
  EXPECT_EQ(seen[49'999].text, "line 49999");
  EXPECT_EQ(seen[49'999].hash, hash64("line 49999"));
}

}  // namespace
}  // namespace millrace::client
