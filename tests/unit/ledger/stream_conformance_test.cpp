// Every ledger must handle streams as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class StreamTest : public LedgerTest {
 protected:
  // Writes entries 1 to n; the length of each body is its number.
  void write(std::uint64_t n) {
    for (std::uint64_t i = 1; i <= n; ++i) {
      expect<FinishReply>(
          Append{tenant, "log", numbered("j", static_cast<std::uint64_t>(i)), std::string(i, 'x')});
    }
  }
  ReadStream slice(std::uint64_t from) {
    ReadStream op;
    op.tenant = tenant;
    op.stream = "log";
    op.from = from;
    return op;
  }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, StreamTest, every_kind(), kind_name);

TEST_P(StreamTest, NumbersAreGapFreePerStream) {
  for (int i = 0; i < 6; ++i) {
    SubmitJob op = job(numbered("j", static_cast<std::uint64_t>(i)));
    op.stream = i % 2 == 0 ? "even" : "odd";
    submit(op);
  }
  for (const auto& claimed : take(6)) finish(claimed.lease);
  for (const char* stream : {"even", "odd"}) {
    const auto got = read(1, stream);
    EXPECT_EQ(got.first, 1u);
    EXPECT_EQ(got.high, 3u);
    ASSERT_EQ(got.entries.size(), 3u);
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(got.entries[i].number, i + 1);
  }
  EXPECT_EQ(look("j4").number, 3u);
  EXPECT_EQ(read(1, "even").entries[2].job, "j4");
}

TEST_P(StreamTest, OneEpochHoldsForTheWholeLog) {
  const std::string epoch = read(1, "nothing yet").epoch;
  EXPECT_FALSE(epoch.empty());
  EXPECT_EQ(expect<FinishReply>(Append{tenant, "log", "", "x"}).epoch, epoch);
  ReadStream op = slice(1);
  op.epoch = epoch;
  EXPECT_EQ(expect<ReadStreamReply>(op).epoch, epoch);
  op.epoch = "another";
  refuse(op, Code::epoch_changed, "another");
}

TEST_P(StreamTest, AStreamNobodyWroteToIsEmpty) {
  const auto got = read(1, "log");
  EXPECT_EQ(got.first, 1u);
  EXPECT_EQ(got.high, 0u);
  EXPECT_TRUE(got.entries.empty());
  EXPECT_FALSE(got.trimmed);
}

TEST_P(StreamTest, SlicesKeepTheirBounds) {
  write(10);
  ReadStream op = slice(4);
  op.max_entries = 3;
  auto got = expect<ReadStreamReply>(op);
  ASSERT_EQ(got.entries.size(), 3u);
  EXPECT_EQ(got.entries[0].number, 4u);
  EXPECT_EQ(got.entries[2].body, "xxxxxx");
  op.max_entries = 100;
  op.max_bytes = 4 + 5 + 6;
  EXPECT_EQ(expect<ReadStreamReply>(op).entries.size(), 3u);
  op.max_bytes = 14;
  EXPECT_EQ(expect<ReadStreamReply>(op).entries.size(), 2u);
  op.max_bytes = 1;
  EXPECT_EQ(expect<ReadStreamReply>(op).entries.size(), 1u) << "at least one entry";
  op.max_entries = 0;
  got = expect<ReadStreamReply>(op);
  EXPECT_TRUE(got.entries.empty());
  EXPECT_EQ(got.high, 10u);
  EXPECT_TRUE(read(11, "log").entries.empty()) << "caught up";
  EXPECT_TRUE(read(500, "log").entries.empty());
}

TEST_P(StreamTest, CursorsMoveForwardOnly) {
  write(5);
  const auto move = [&](std::uint64_t to) {
    return expect<MoveCursorReply>(MoveCursor{tenant, "log", "reader", to}).number;
  };
  ReadStream op = slice(0);
  op.cursor = "reader";
  EXPECT_EQ(expect<ReadStreamReply>(op).entries.at(0).number, 1u) << "a new cursor is at the start";
  EXPECT_EQ(move(3), 3u);
  EXPECT_EQ(move(2), 3u);
  EXPECT_EQ(expect<ReadStreamReply>(op).entries.at(0).number, 4u);
  EXPECT_EQ(move(5), 5u);
  EXPECT_TRUE(expect<ReadStreamReply>(op).entries.empty());
  refuse(MoveCursor{tenant, "log", "reader", 6}, Code::invalid_value, "6");
  refuse(MoveCursor{tenant, "none", "reader", 1}, Code::not_found, "'none'");
  EXPECT_EQ(move(0), 5u);
}

TEST_P(StreamTest, TrimmedNumbersAreReportedAndNotSkipped) {
  write(9);
  const auto trim = [&](std::uint64_t first) {
    return expect<StreamReply>(TrimStream{tenant, "log", first}).stream.first;
  };
  EXPECT_EQ(trim(5), 5u);
  EXPECT_EQ(trim(7), 7u);
  const auto old = read(6, "log");
  EXPECT_TRUE(old.trimmed);
  EXPECT_TRUE(old.entries.empty());
  EXPECT_EQ(old.first, 7u);
  EXPECT_EQ(read(7, "log").entries.size(), 3u);
  EXPECT_EQ(trim(2), 7u) << "never backwards";
  refuse(TrimStream{tenant, "log", 11}, Code::invalid_value, "11");
  refuse(TrimStream{tenant, "none", 1}, Code::not_found, "'none'");
  EXPECT_EQ(trim(10), 10u);
  EXPECT_EQ(expect<FinishReply>(Append{tenant, "log", "", "x"}).number, 10u)
      << "numbers continue after everything was trimmed";
}

TEST_P(StreamTest, TrimmedJobsStayKnown) {
  submit(job("a"));
  finish(take(1).at(0).lease);
  expect<StreamReply>(TrimStream{tenant, "results", 2});
  EXPECT_TRUE(submit(job("a")).known);
}

TEST_P(StreamTest, StreamsAreListedInOrder) {
  for (const char* stream : {"b", "a", "c", "a"}) {
    expect<FinishReply>(Append{tenant, stream, "", "x"});
  }
  expect<FinishReply>(Append{"other", "d", "", "x"});
  auto got = expect<ListStreamsReply>(ListStreams{tenant, "", 2});
  ASSERT_EQ(got.streams.size(), 2u);
  EXPECT_EQ(got.streams[0].stream, "a");
  EXPECT_EQ(got.streams[0].high, 2u);
  EXPECT_TRUE(got.more);
  got = expect<ListStreamsReply>(ListStreams{tenant, "b", 2});
  EXPECT_FALSE(got.more);
  ASSERT_EQ(got.streams.size(), 1u);
  EXPECT_EQ(got.streams[0].stream, "c");
}

TEST_P(StreamTest, BodiesMayHoldAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 70'000; ++i) bytes.push_back(static_cast<char>(i));
  SubmitJob op = job("a");
  op.body = bytes;
  submit(op);
  const ClaimedJob claimed = take(1).at(0);
  EXPECT_EQ(claimed.body, bytes);
  expect<FinishReply>(Finish{claimed.lease, JobState::completed, bytes, ""});
  EXPECT_EQ(read().entries.at(0).body, bytes);
}

}  // namespace
}  // namespace millrace::broker::test
