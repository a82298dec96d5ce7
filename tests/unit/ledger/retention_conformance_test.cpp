// Every ledger must keep what its limits say, and no more, as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::int64_t second_us = 1'000'000;

class RetentionTest : public LedgerTest {
 protected:
  // Writes entries of ten bytes, one a second.
  void write(int n, const std::string& stream = "log") {
    for (int i = 0; i < n; ++i) {
      expect<FinishReply>(Append{tenant, stream, "j", std::string(10, 'x')});
      ledger.now_us += second_us;
    }
  }
  // A whole pass, in steps of a few rows.
  RetainReply retain(RetentionPolicy policy, std::uint32_t max_rows = 4) {
    RetainReply sum;
    Retain step{policy, {}, max_rows};
    while (true) {
      const auto reply = expect<RetainReply>(step);
      EXPECT_LE(reply.entries + reply.jobs, max_rows);
      sum.entries += reply.entries;
      sum.jobs += reply.jobs;
      sum.cursors += reply.cursors;
      if (!reply.more) return sum;
      step.after = reply.after;
    }
  }
  StreamInfo show(const std::string& stream = "log") {
    return expect<StreamReply>(GetStream{tenant, stream}).stream;
  }
  void move(const std::string& cursor, std::uint64_t to) {
    expect<MoveCursorReply>(MoveCursor{tenant, "log", cursor, to});
  }
  void end_one(const std::string& id, JobState state = JobState::completed,
               const std::string& batch = "") {
    submit(job(id, batch));
    finish(take(1).at(0).lease, state);
  }
  static RetentionPolicy age(int seconds) { return {{seconds * second_us, 0, 0}, 0}; }
  static RetentionPolicy bytes(std::uint64_t most) { return {{0, most, 0}, 0}; }
  static RetentionPolicy job_age(int seconds) { return {{}, seconds * second_us}; }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, RetentionTest, every_kind(), kind_name);

TEST_P(RetentionTest, WithoutLimitsEverythingIsKept) {
  write(9);
  end_one("a");
  ledger.now_us += 1'000'000 * second_us;
  const auto gone = retain({});
  EXPECT_EQ(gone.entries + gone.jobs + gone.cursors, 0u);
  EXPECT_EQ(read(1, "log").entries.size(), 9u);
  EXPECT_TRUE(submit(job("a")).known);
}

TEST_P(RetentionTest, EntriesGoByAge) {
  write(20);  // the last one is a second old now
  EXPECT_EQ(retain(age(8)).entries, 13u);
  EXPECT_EQ(show().first, 14u);
  EXPECT_EQ(show().bytes, 70u);
  const auto old = read(13, "log");
  EXPECT_TRUE(old.trimmed);
  EXPECT_EQ(old.first, 14u);
  EXPECT_EQ(read(14, "log").entries.size(), 7u);
  EXPECT_EQ(retain(age(8)).entries, 0u);
  ledger.now_us += 100 * second_us;
  EXPECT_EQ(retain(age(8)).entries, 7u) << "also the last one";
  write(1);
  EXPECT_EQ(read(21, "log").entries.at(0).number, 21u) << "the numbers go on";
}

TEST_P(RetentionTest, EntriesGoByBytes) {
  write(20);
  EXPECT_EQ(retain(bytes(55)).entries, 15u);
  EXPECT_EQ(show().first, 16u);
  EXPECT_EQ(show().bytes, 50u);
  EXPECT_EQ(read(16, "log").entries.size(), 5u);
  EXPECT_EQ(retain(bytes(5)).entries, 4u) << "the last entry stays, however large it is";
  EXPECT_EQ(read(20, "log").entries.size(), 1u);
}

TEST_P(RetentionTest, CursorsHoldEntriesUpToTwiceTheLimit) {
  write(20);
  move("slow", 8);
  move("fast", 17);
  EXPECT_EQ(retain(bytes(50)).entries, 10u) << "twice 50 bytes are left";
  EXPECT_EQ(show().first, 11u) << "the cursor holds no longer";
  move("slow", 13);
  EXPECT_EQ(retain(bytes(50)).entries, 3u) << "up to what the slow cursor has not passed";
  EXPECT_EQ(show().first, 14u);
  move("slow", 20);
  move("fast", 20);
  EXPECT_EQ(retain(bytes(50)).entries, 2u) << "what is within the limit is kept";
  EXPECT_EQ(show().first, 16u);
  // By age: the entries 16 to 20 are 5 to 1 seconds old.
  move("new", 0);
  EXPECT_EQ(retain(age(3)).entries, 0u);
  ledger.now_us += 2 * second_us;
  EXPECT_EQ(retain(age(3)).entries, 2u);
  expect<StreamReply>(RemoveCursor{tenant, "log", "new"});
  EXPECT_EQ(retain(age(3)).entries, 3u);
}

TEST_P(RetentionTest, CursorsExpireUnlessTheyAreMovedOrRenewed) {
  write(3);
  move("left", 1);
  move("kept", 1);
  RetentionPolicy policy = bytes(15);
  policy.streams.cursor_age_us = 60 * second_us;
  EXPECT_EQ(retain(policy).entries, 1u);
  ledger.now_us += 30 * second_us;
  move("kept", 1);
  ledger.now_us += 30 * second_us;
  EXPECT_EQ(retain(policy).cursors, 1u);
  const auto cursors = expect<ListCursorsReply>(ListCursors{tenant, "log"}).cursors;
  ASSERT_EQ(cursors.size(), 1u);
  EXPECT_EQ(cursors[0].cursor, "kept");
  EXPECT_EQ(cursors[0].number, 1u);
  EXPECT_EQ(cursors[0].moved_us, ledger.now_us - 30 * second_us);
  ledger.now_us += 60 * second_us;
  EXPECT_EQ(retain(policy).entries, 1u) << "an expired cursor holds nothing";
  EXPECT_EQ(show().cursors, 0u);
}

TEST_P(RetentionTest, AStreamsOwnLimitsComeBeforeTheDefaults) {
  write(10, "a");
  write(10, "b");
  expect<StreamReply>(KeepStream{tenant, "b", {.age_us = 0, .bytes = 0, .cursor_age_us = {}}});
  expect<StreamReply>(KeepStream{tenant, "c", {.age_us = {}, .bytes = 30, .cursor_age_us = {}}});
  write(10, "c");
  retain(bytes(50));
  EXPECT_EQ(show("a").first, 6u);
  EXPECT_EQ(show("b").first, 1u) << "0 is without limit";
  EXPECT_EQ(show("c").first, 8u);
  EXPECT_EQ(show("c").set.bytes, 30u);
  EXPECT_FALSE(show("c").set.age_us);
  expect<StreamReply>(KeepStream{tenant, "b", {}});
  retain(bytes(50));
  EXPECT_EQ(show("b").first, 6u);
}

TEST_P(RetentionTest, AStreamThatIsRemovedKeepsItsNumbers) {
  write(5);
  move("reader", 2);
  expect<StreamReply>(KeepStream{tenant, "log", {.age_us = 1, .bytes = {}, .cursor_age_us = {}}});
  expect<StreamReply>(RemoveStream{tenant, "log"});
  EXPECT_TRUE(read(3, "log").trimmed) << "at once";
  EXPECT_TRUE(expect<ListStreamsReply>(ListStreams{tenant, ""}).streams.empty());
  EXPECT_TRUE(expect<ListCursorsReply>(ListCursors{tenant, "log"}).cursors.empty());
  EXPECT_EQ(retain({}).entries, 5u) << "the entries go without any limit";
  EXPECT_EQ(show().bytes, 0u);
  EXPECT_EQ(show().set, StreamLimits{});
  write(1);
  EXPECT_EQ(read(6, "log").entries.at(0).number, 6u);
  EXPECT_EQ(expect<ListStreamsReply>(ListStreams{tenant, ""}).streams.size(), 1u);
}

TEST_P(RetentionTest, WhatDoesNotExistIsRefused) {
  write(1);
  refuse(GetStream{tenant, "none"}, Code::not_found, "'none'");
  refuse(TrimStream{tenant, "none", 1}, Code::not_found, "'none'");
  refuse(RemoveStream{tenant, "none"}, Code::not_found, "'none'");
  refuse(ListCursors{tenant, "none"}, Code::not_found, "'none'");
  refuse(RemoveCursor{tenant, "log", "none"}, Code::not_found, "'none'");
  refuse(GetStream{"other", "log"}, Code::not_found, "'log'");
}

TEST_P(RetentionTest, TheBrokersOwnStreamsAreKeptWholeAndNotListed) {
  write(5, "$own");
  write(5);
  ledger.now_us += 100 * second_us;
  EXPECT_EQ(retain(age(1)).entries, 5u);
  EXPECT_EQ(read(1, "$own").entries.size(), 5u);
  EXPECT_TRUE(expect<ListStreamsReply>(ListStreams{tenant, ""}).streams.empty());
  refuse(TrimStream{tenant, "$own", 2}, Code::invalid_value, "'$own'");
  refuse(RemoveStream{tenant, "$own"}, Code::invalid_value, "'$own'");
  refuse(KeepStream{tenant, "$own", {}}, Code::invalid_value, "'$own'");
}

TEST_P(RetentionTest, AStreamHoldsOnlySoManyCursors) {
  write(1);
  std::vector<Operation> moves;
  for (std::uint32_t i = 0; i < limits::cursors_per_stream; ++i) {
    moves.push_back(MoveCursor{tenant, "log", numbered("c", i), 1});
  }
  for (const auto& reply : ledger.apply(moves)) EXPECT_TRUE(reply);
  refuse(MoveCursor{tenant, "log", "one more", 1}, Code::limit_exceeded, "1000");
  move("c7", 1);
  expect<StreamReply>(RemoveCursor{tenant, "log", "c7"});
  move("one more", 1);
}

TEST_P(RetentionTest, EndedJobsAndTheirBatchesGoByAge) {
  end_one("a", JobState::completed, "batch");
  ledger.now_us += 10 * second_us;
  end_one("b", JobState::failed, "batch");
  submit(job("queued", "other"));
  EXPECT_EQ(retain(job_age(10)).jobs, 1u);
  refuse(GetJob{tenant, "a"}, Code::not_found);
  EXPECT_TRUE(submit(job("b", "batch")).known);
  EXPECT_EQ(count("batch").counts, (JobCounts{0, 0, 0, 1, 0, 0}));
  ledger.now_us += 100 * second_us;
  EXPECT_EQ(retain(job_age(10)).jobs, 1u) << "a job that waits has no age";
  EXPECT_EQ(count("batch").counts, JobCounts{});
  EXPECT_EQ(count().counts, (JobCounts{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read().entries.size(), 2u) << "results have an age of their own";
  EXPECT_FALSE(submit(job("a", "batch")).known) << "a forgotten id is a new job";
}

TEST_P(RetentionTest, ARetriedJobIsNotForgottenWhileItRuns) {
  end_one("a", JobState::failed);
  ledger.now_us += 100 * second_us;
  expect<RetryReply>(RetryJobs{tenant, {"a"}, ""});
  EXPECT_EQ(retain(job_age(10)).jobs, 0u);
  EXPECT_EQ(take(1).at(0).body, "body of a");
  EXPECT_EQ(retain(job_age(10)).jobs, 0u);
}

TEST_P(RetentionTest, OneStepDeletesOnlySoMuch) {
  std::vector<Operation> work;
  for (std::uint64_t i = 0; i < 40; ++i) work.push_back(job(numbered("j", i)));
  ledger.apply(work);
  for (const auto& claimed : take(40)) finish(claimed.lease);
  write(40);
  ledger.now_us += 100 * second_us;
  RetentionPolicy policy = age(1);
  policy.job_age_us = second_us;
  const auto step = expect<RetainReply>(Retain{policy, {}, 10});
  EXPECT_TRUE(step.more);
  EXPECT_EQ(step.jobs, 5u);
  EXPECT_EQ(step.entries, 5u) << "neither waits for the other";
  const auto rest = retain(policy, 10);
  EXPECT_EQ(rest.jobs, 35u);
  EXPECT_EQ(rest.entries, 75u);
}

}  // namespace
}  // namespace millrace::broker::test
