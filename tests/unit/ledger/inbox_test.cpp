// Which operations make the next batch, beside the batches in flight.
#include "broker/ledger/ledger_inbox.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class InboxTest : public testing::Test {
 protected:
  void push(std::uint64_t token, std::vector<Operation> operations) {
    inbox.push(token, std::move(operations), {});
  }
  LedgerBatch take(std::size_t operations = 100, std::uint64_t bytes = 1'000'000) {
    return inbox.take({operations, bytes});
  }
  // Tokens and places of a batch.
  static std::string told(const std::vector<Posted>& operations) {
    std::string out;
    for (const Posted& one : operations) {
      out += std::to_string(one.token) + "." + std::to_string(one.place) + " ";
    }
    return out;
  }
  static Operation end(const std::string& engine) {
    return Finish{1, JobState::completed, "result", engine};
  }
  static Operation ask(const std::string& engine) { return claim(1, false, engine); }

  LedgerInbox inbox;
};

TEST_F(InboxTest, ABatchTakesWhatWaitsInOrderUpToItsLimits) {
  push(1, {job("a"), job("b")});
  push(2, {job("c"), job("d")});
  EXPECT_EQ(inbox.operations(), 4u);
  EXPECT_EQ(told(take(3).operations), "1.0 1.1 2.0 ");
  EXPECT_EQ(inbox.operations(), 1u);
  push(3, {Append{tenant, "log", "", std::string(60, 'x')}});
  push(4, {Append{tenant, "log", "", std::string(60, 'x')}});
  EXPECT_EQ(told(take(100, 100).operations), "3.0 ") << "the rest of 2 waits for its beginning";
}

TEST_F(InboxTest, TheRestOfAPostWaitsForItsBeginning) {
  push(1, {job("a"), job("b"), job("c")});
  push(2, {job("d")});
  const LedgerBatch first = take(2);
  EXPECT_TRUE(inbox.ready());
  EXPECT_EQ(told(take(2).operations), "2.0 ");
  EXPECT_FALSE(inbox.ready());
  EXPECT_FALSE(inbox.empty());
  inbox.done(first);
  EXPECT_TRUE(inbox.ready());
  EXPECT_EQ(told(take(2).operations), "1.2 ");
  EXPECT_TRUE(inbox.empty());
}

TEST_F(InboxTest, OperationsOfOneEngineKeepTheirOrder) {
  push(1, {end("one"), end("one")});
  const LedgerBatch first = take();
  push(2, {ask("one")});
  push(3, {ask("two"), ask("one")});  // waits, and with it what follows for its engines
  push(4, {ask("two")});
  push(5, {end("three")});
  const LedgerBatch second = take();
  EXPECT_EQ(told(second.operations), "5.0 ");
  EXPECT_FALSE(inbox.ready());
  inbox.done(second);
  EXPECT_FALSE(inbox.ready());
  inbox.done(first);
  EXPECT_EQ(told(take().operations), "2.0 3.0 3.1 4.0 ");
}

TEST_F(InboxTest, WhatEnginesWaitForComesFirstAndTakesHalfOfABatch) {
  push(1, {job("a"), job("b"), job("c"), job("d")});
  push(2, {end("one"), end("one"), end("one")});
  push(3, {ask("two")});
  const LedgerBatch first = take(4);
  EXPECT_EQ(told(first.operations), "2.0 2.1 1.0 1.1 ");
  EXPECT_EQ(told(take(4).operations), "3.0 ") << "the others wait for their beginnings";
  inbox.done(first);
  EXPECT_EQ(told(take(4).operations), "2.2 1.2 1.3 ");
  EXPECT_TRUE(inbox.empty());
}

TEST_F(InboxTest, ReadsOfStreamsAreApartAndHoldUpNothing) {
  push(1, {reading("log"), job("a")});
  const LedgerBatch batch = take();
  EXPECT_EQ(told(batch.operations), "1.1 ");
  EXPECT_EQ(told(batch.reads), "1.0 ");
  push(2, {reading("log")});
  EXPECT_TRUE(inbox.ready());
  EXPECT_EQ(told(take().reads), "2.0 ");
}

TEST_F(InboxTest, BytesAreThoseOfTheBodiesThatWait) {
  push(1, {Append{tenant, "log", "", "12345"}, ask("one")});
  EXPECT_EQ(inbox.bytes(), 5u);
  take();
  EXPECT_EQ(inbox.bytes(), 0u);
  push(2, {});
  EXPECT_TRUE(inbox.empty());
}

}  // namespace
}  // namespace millrace::broker::test
