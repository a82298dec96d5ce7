// The ledger thread: nothing completes before its commit, a commit takes all waiting operations,
// stream reads run between commits, failures stop everything.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "broker/ledger/ledger_thread.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

// A ledger whose commits wait at a gate, and which records the operations of each.
class GatedLedger final : public Ledger {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
    int entered = 0;
    std::vector<std::size_t> sizes;
    std::vector<std::uint64_t> read_bytes;
    std::optional<Error> failure;

    void set(bool to) {
      const std::lock_guard lock(mutex);
      open = to;
      changed.notify_all();
    }
    void wait_entered(int count) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return entered >= count; });
    }
  };

  explicit GatedLedger(
      std::shared_ptr<Gate> gate,
      std::unique_ptr<Ledger> inner = make_memory_ledger(make_memory_store({publish, ""})))
      : gate_(std::move(gate)), inner_(std::move(inner)) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    std::unique_lock lock(gate_->mutex);
    ++gate_->entered;
    const auto* read = std::get_if<ReadStream>(&operations[0]);
    if (read != nullptr) {
      gate_->read_bytes.push_back(read->max_bytes);
    } else {
      gate_->sizes.push_back(operations.size());
    }
    gate_->changed.notify_all();
    gate_->changed.wait(lock, [&] { return gate_->open; });
    if (gate_->failure) return fail(*gate_->failure);
    lock.unlock();
    return inner_->apply(operations, now_us);
  }
  Status idle() override { return {}; }

 private:
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<Ledger> inner_;
};

class LedgerThreadTest : public testing::Test {
 protected:
  LedgerThread& start(LedgerThreadOptions options = {}) {
    thread = std::make_unique<LedgerThread>(
        std::make_unique<GatedLedger>(gate),
        [this] {
          const std::lock_guard lock(mutex);
          woken.notify_all();
        },
        std::move(options));
    return *thread;
  }
  // Waits for this many completions, without a clock.
  std::vector<Completion> wait_for(std::size_t count) {
    std::vector<Completion> out;
    std::unique_lock lock(mutex);
    woken.wait(lock, [&] {
      for (auto& completion : thread->take()) out.push_back(std::move(completion));
      return out.size() >= count;
    });
    return out;
  }

  std::shared_ptr<GatedLedger::Gate> gate = std::make_shared<GatedLedger::Gate>();
  std::mutex mutex;
  std::condition_variable woken;
  std::unique_ptr<LedgerThread> thread;
};

TEST_F(LedgerThreadTest, CompletesInOrderWithTheTokens) {
  start();
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(thread->post(i, job(numbered("j", i))));
  const auto done = wait_for(50);
  ASSERT_EQ(done.size(), 50u);
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(done[i].token, i);
    EXPECT_TRUE(done[i].reply);
  }
}

TEST_F(LedgerThreadTest, NothingCompletesBeforeItsCommit) {
  gate->set(false);
  start();
  ASSERT_TRUE(thread->post(1, job("a")));
  gate->wait_entered(1);
  EXPECT_TRUE(thread->take().empty());
  gate->set(true);
  EXPECT_EQ(wait_for(1).size(), 1u);
}

TEST_F(LedgerThreadTest, WhatArrivesDuringACommitSharesTheNext) {
  gate->set(false);
  start({.commit_operations = 8, .commit_wait_us = 0});
  ASSERT_TRUE(thread->post(0, job("first")));
  gate->wait_entered(1);
  std::vector<Operation> many;
  for (std::uint64_t i = 0; i < 20; ++i) many.emplace_back(job(numbered("j", i)));
  ASSERT_TRUE(thread->post(1, std::move(many)));
  EXPECT_EQ(thread->statistics().waiting, 20u);
  gate->set(true);
  wait_for(21);
  EXPECT_EQ(gate->sizes, (std::vector<std::size_t>{1, 8, 8, 4}));
  const LedgerStatistics statistics = thread->statistics();
  EXPECT_EQ(statistics.commits, 4u);
  EXPECT_EQ(statistics.operations, 21u);
  EXPECT_EQ(statistics.commit.count, 4u);
  EXPECT_EQ(statistics.wait.count, 21u);
}

TEST_F(LedgerThreadTest, ALoneOperationIsNotKeptWaiting) {
  start({.commit_wait_percent = UINT32_MAX, .commit_wait_us = 3'600'000'000});
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(thread->post(i, job(numbered("j", i))));
    EXPECT_EQ(wait_for(1).at(0).token, i);
  }
  EXPECT_EQ(gate->sizes, (std::vector<std::size_t>{1, 1, 1}));
}

TEST_F(LedgerThreadTest, WaitsForAsManyOperationsAsSharedTheLastCommit) {
  gate->set(false);
  start({.commit_wait_percent = UINT32_MAX, .commit_wait_us = 3'600'000'000});
  ASSERT_TRUE(thread->post(0, job("first")));
  gate->wait_entered(1);
  for (std::uint64_t i = 1; i < 5; ++i) ASSERT_TRUE(thread->post(i, job(numbered("j", i))));
  gate->set(true);
  wait_for(5);
  for (std::uint64_t i = 5; i < 9; ++i) ASSERT_TRUE(thread->post(i, job(numbered("j", i))));
  wait_for(4);
  EXPECT_EQ(gate->sizes, (std::vector<std::size_t>{1, 4, 4}));
}

TEST_F(LedgerThreadTest, ACommitIsBoundedInBytes) {
  gate->set(false);
  start({.commit_bytes = 100, .commit_wait_us = 0});
  ASSERT_TRUE(thread->post(0, job("first")));
  gate->wait_entered(1);
  for (const std::size_t size : {60, 60, 500, 10}) {
    ASSERT_TRUE(thread->post(1, Append{tenant, "log", "", std::string(size, 'x')}));
  }
  gate->set(true);
  wait_for(5);
  EXPECT_EQ(gate->sizes, (std::vector<std::size_t>{1, 1, 1, 1, 1}));
}

TEST_F(LedgerThreadTest, TheInboxIsBounded) {
  gate->set(false);
  start({.commit_wait_us = 0, .inbox_operations = 3, .inbox_bytes = 1000});
  ASSERT_TRUE(thread->post(0, job("first")));
  gate->wait_entered(1);
  ASSERT_TRUE(thread->post(1, job("a")));
  const Status bytes = thread->post(2, Append{tenant, "log", "", std::string(1000, 'x')});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::overloaded);
  EXPECT_EQ(bytes.error().retry_ms, limits::retry_commit_ms);
  EXPECT_FALSE(thread->post(2, std::vector<Operation>{job("b"), job("c"), job("d")}));
  EXPECT_TRUE(thread->post(2, std::vector<Operation>{job("b"), job("c")}));
  EXPECT_FALSE(thread->post(3, job("d")));
  gate->set(true);
  EXPECT_EQ(wait_for(4).size(), 4u) << "a refused message must leave nothing in the inbox";
}

TEST_F(LedgerThreadTest, AReplayIsReadInSlicesBetweenCommits) {
  start({.commit_wait_us = 0, .read_slice_bytes = 100});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(thread->post(0, Append{tenant, "log", "", std::string(60, 'x')}));
  }
  wait_for(10);
  ReadStream read = reading("log");
  ASSERT_TRUE(thread->post(7, read));
  auto done = wait_for(1);
  ASSERT_TRUE(done[0].reply);
  const auto& whole = std::get<ReadStreamReply>(*done[0].reply);
  ASSERT_EQ(whole.entries.size(), 10u);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(whole.entries[i].number, i + 1);
  EXPECT_EQ(gate->read_bytes.size(), 10u);
  EXPECT_EQ(gate->read_bytes[0], 100u);
  read.max_bytes = 200;  // three entries and a bit
  ASSERT_TRUE(thread->post(8, read));
  done = wait_for(1);
  EXPECT_EQ(std::get<ReadStreamReply>(*done[0].reply).entries.size(), 3u);
  read.max_bytes = 10'000;
  read.max_entries = 4;
  ASSERT_TRUE(thread->post(9, read));
  done = wait_for(1);
  EXPECT_EQ(std::get<ReadStreamReply>(*done[0].reply).entries.size(), 4u);
  read.from = 11;
  ASSERT_TRUE(thread->post(10, read));
  done = wait_for(1);
  EXPECT_TRUE(std::get<ReadStreamReply>(*done[0].reply).entries.empty());
}

TEST_F(LedgerThreadTest, ACommitDoesNotWaitForAReplayToEnd) {
  start({.commit_wait_us = 0, .read_slice_bytes = 1});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(thread->post(0, Append{tenant, "log", "", "xx"}));
  wait_for(5);
  gate->set(false);
  const int before = static_cast<int>(thread->statistics().commits);
  ASSERT_TRUE(thread->post(1, reading("log")));
  gate->wait_entered(before + 1);  // the first slice waits at the gate
  ASSERT_TRUE(thread->post(2, job("a")));
  gate->set(true);
  const auto done = wait_for(2);
  EXPECT_EQ(done[0].token, 2u);
  EXPECT_EQ(done[1].token, 1u);
}

TEST_F(LedgerThreadTest, ReadsWaitWhileNobodyTakesThem) {
  start({.commit_wait_us = 0, .outbox_bytes = 100});
  ASSERT_TRUE(thread->post(0, Append{tenant, "log", "", std::string(100, 'x')}));
  wait_for(1);
  ASSERT_TRUE(thread->post(1, reading("log")));
  {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->read_bytes.size() == 1; });
  }
  // The first read fills the outbox; an operation posted after the second read overtakes it.
  ASSERT_TRUE(thread->post(2, std::vector<Operation>{reading("log"), job("a")}));
  gate->wait_entered(3);
  std::vector<std::uint64_t> tokens;
  while (tokens.size() < 3) {
    for (const auto& completion : wait_for(1)) tokens.push_back(completion.token);
  }
  EXPECT_EQ(tokens.size(), 3u);
  EXPECT_EQ(gate->read_bytes.size(), 2u);
}

TEST_F(LedgerThreadTest, AFailedCommitStopsTheLedger) {
  gate->set(false);
  start({.commit_operations = 1, .commit_wait_us = 0});
  ASSERT_TRUE(thread->post(1, job("a")));
  gate->wait_entered(1);
  ASSERT_TRUE(thread->post(2, job("b")));
  ASSERT_TRUE(thread->post(3, reading("log")));
  gate->failure = Error{Code::io_error, "the disk is gone", ""};
  gate->set(true);
  for (const auto& completion : wait_for(3)) {
    ASSERT_FALSE(completion.reply);
    EXPECT_EQ(completion.reply.error().code, Code::io_error);
  }
  ASSERT_TRUE(thread->failure());
  EXPECT_EQ(thread->failure()->message, "the disk is gone");
  EXPECT_EQ(gate->sizes.size(), 1u) << "nothing is tried after a failure";
  const Status refused = thread->post(4, job("c"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::io_error);
}

TEST_F(LedgerThreadTest, StoppingCarriesOutAllPostedOperations) {
  start({.commit_operations = 3});
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(thread->post(i, job(numbered("j", i))));
  ASSERT_TRUE(thread->post(10, reading("results")));
  thread->stop();
  thread->stop();
  EXPECT_EQ(thread->take().size(), 11u);
  const Status refused = thread->post(11, job("late"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::draining);
}

class SeveralHandles : public LedgerThreadTest {
 protected:
  void start_handles(std::size_t count, LedgerThreadOptions options = {.commit_wait_us = 0}) {
    std::vector<std::unique_ptr<Ledger>> handles;
    const auto store = make_memory_store({publish, ""});
    for (std::size_t i = 0; i < count; ++i) {
      handles.push_back(std::make_unique<GatedLedger>(gate, make_memory_ledger(store)));
    }
    thread = std::make_unique<LedgerThread>(
        std::move(handles),
        [this] {
          const std::lock_guard lock(mutex);
          woken.notify_all();
        },
        std::move(options));
  }
};

TEST_F(SeveralHandles, KeepAsManyBatchesInFlight) {
  gate->set(false);
  start_handles(2);
  ASSERT_TRUE(thread->post(1, job("a")));
  gate->wait_entered(1);
  ASSERT_TRUE(thread->post(2, job("b")));
  gate->wait_entered(2);  // the first is not committed yet
  ASSERT_TRUE(thread->post(3, job("c")));
  EXPECT_EQ(thread->statistics().waiting, 1u);
  gate->set(true);
  EXPECT_EQ(wait_for(3).size(), 3u);
}

TEST_F(SeveralHandles, AnEnginesNextClaimWaitsForItsEnds) {
  start_handles(3);
  ASSERT_TRUE(thread->post(1, std::vector<Operation>{job("a"), job("b"), claim(1)}));
  wait_for(3);
  gate->set(false);
  ASSERT_TRUE(thread->post(2, Finish{1, JobState::completed, "r", "engine"}));
  gate->wait_entered(2);
  ASSERT_TRUE(thread->post(3, claim(1)));
  ASSERT_TRUE(thread->post(4, job("c")));
  gate->wait_entered(3);
  gate->set(true);
  std::vector<Completion> done = wait_for(3);
  const auto place = [&](std::uint64_t token) {
    return std::ranges::find(done, token, &Completion::token) - done.begin();
  };
  EXPECT_LT(place(2), place(3));
  EXPECT_TRUE(done[static_cast<std::size_t>(place(2))].reply);
}

TEST_F(SeveralHandles, EverythingIsCarriedOutOnceWithItsPlace) {
  start_handles(4, {.commit_operations = 7, .commit_wait_us = 0, .read_slice_bytes = 10});
  std::map<std::uint64_t, std::set<std::uint32_t>> seen;
  for (std::uint64_t token = 1; token <= 100; ++token) {
    std::vector<Operation> post;
    for (std::uint64_t i = 0; i < 20; ++i) {
      post.emplace_back(Append{tenant, "log", "", numbered("entry ", 100 * token + i)});
    }
    ASSERT_TRUE(thread->post(token, std::move(post)));
    if (token % 10 != 0) continue;
    ASSERT_TRUE(thread->post(1000 + token, reading("log")));
  }
  thread->stop();
  for (const auto& completion : thread->take()) {
    ASSERT_TRUE(completion.reply);
    EXPECT_TRUE(seen[completion.token].insert(completion.place).second);
  }
  EXPECT_EQ(seen.size(), 110u);
  for (const auto& [token, places] : seen) EXPECT_EQ(places.size(), token < 1000 ? 20u : 1u);
  EXPECT_EQ(thread->statistics().operations, 2010u);
}

TEST(LatencyHistogram, QuantilesAreUpperEdges) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile_us(0.5), 0u);
  for (std::uint64_t us = 1; us <= 100; ++us) histogram.add(us);
  EXPECT_EQ(histogram.count, 100u);
  EXPECT_EQ(histogram.quantile_us(0.02), 3u) << "small values are exact";
  EXPECT_EQ(histogram.quantile_us(0.5), 55u) << "51 lies in 48 to 55";
  EXPECT_EQ(histogram.quantile_us(0.99), 100u);
  EXPECT_EQ(histogram.max_us, 100u);
}

TEST(LatencyHistogram, CountsWhatLiesBelowAPowerOfTwo) {
  LatencyHistogram histogram;
  for (std::uint64_t us = 1; us <= 100; ++us) histogram.add(us);
  EXPECT_EQ(histogram.below(1), 0u);
  EXPECT_EQ(histogram.below(2), 1u);
  EXPECT_EQ(histogram.below(4), 3u);
  EXPECT_EQ(histogram.below(64), 63u);
  EXPECT_EQ(histogram.below(128), 100u);
  EXPECT_EQ(histogram.below(std::uint64_t{1} << 62), 100u);
}

}  // namespace
}  // namespace millrace::broker::test
