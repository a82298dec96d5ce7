// What stops the ledger thread, beside a commit that fails: a read, housekeeping, and a ledger that
// breaks its contract. A failure that may pass stops nothing.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "broker/ledger/ledger_thread.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

struct Faults {
  bool of_reads = false, of_counts = false;
  std::atomic<Code> of_idle = Code::internal;  // internal: none
  std::atomic<int> idles = 0;
};

class FailingLedger final : public Ledger {
 public:
  explicit FailingLedger(Faults& faults) : faults_(faults) {}
  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    if (faults_.of_reads && std::holds_alternative<ReadStream>(operations[0])) {
      return fail(Code::io_error, "the disk is gone");
    }
    auto replies = inner_->apply(operations, now_us);
    if (faults_.of_counts) replies->pop_back();
    return replies;
  }
  Status idle() override {
    ++faults_.idles;
    if (faults_.of_idle == Code::internal) return {};
    return fail(faults_.of_idle, "the disk is gone");
  }

 private:
  Faults& faults_;
  std::unique_ptr<Ledger> inner_ = make_memory_ledger(make_memory_store({publish, ""}));
};

class FailingThread : public testing::Test {
 protected:
  ~FailingThread() override { thread_.reset(); }
  void start() {
    thread_ = std::make_unique<LedgerThread>(
        std::make_unique<FailingLedger>(faults_),
        [this] {
          const std::lock_guard lock(mutex_);
          woken_.notify_all();
        },
        LedgerThreadOptions{.commit_wait_us = 0});
  }
  void wait(const std::function<bool()>& until) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, until);
  }
  // The answer to this operation, which is the only one under way.
  Result<Reply> ask(Operation operation) {
    if (const Status posted = thread_->post(1, std::move(operation)); !posted) {
      return fail(posted.error());
    }
    std::vector<Completion> got;
    wait([&] { return !(got = thread_->take()).empty(); });
    return std::move(got.front().reply);
  }

  Faults faults_;
  std::mutex mutex_;
  std::condition_variable woken_;
  std::unique_ptr<LedgerThread> thread_;
};

TEST_F(FailingThread, AReadThatFailsStopsTheLedger) {
  faults_.of_reads = true;
  start();
  ReadStream read;
  read.tenant = tenant;
  read.stream = "results";
  const auto reply = ask(read);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::io_error);
  ASSERT_TRUE(thread_->failure());
  EXPECT_EQ(ask(job("a")).error().code, Code::io_error) << "nothing is acknowledged any more";
}

TEST_F(FailingThread, ALedgerThatLeavesAnOperationUnansweredIsADefect) {
  faults_.of_counts = true;
  start();
  const auto reply = ask(job("a"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::internal);
  EXPECT_EQ(reply.error().message, "the ledger answered 0 of 1 operations");
  EXPECT_TRUE(thread_->failure());
}

TEST_F(FailingThread, HousekeepingThatFailsStopsTheLedgerAndWakesItsOwner) {
  faults_.of_idle = Code::io_error;
  start();
  (void)thread_->post(1, job("a"));
  wait([&] { return thread_->failure().has_value(); });
  EXPECT_EQ(thread_->failure()->code, Code::io_error);
}

TEST_F(FailingThread, HousekeepingThatMayBeTriedAgainStopsNothing) {
  faults_.of_idle = Code::ledger_unavailable;
  start();
  ASSERT_TRUE(ask(job("a")));
  while (faults_.idles == 0) std::this_thread::yield();
  EXPECT_TRUE(ask(job("b")));
  EXPECT_FALSE(thread_->failure());
}

}  // namespace
}  // namespace millrace::broker::test
