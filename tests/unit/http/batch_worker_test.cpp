// The thread that takes a tenant's batches on their way, without a broker: what it does before
// anything is submitted, and when it ends.
#include "http/batches/batch_worker.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "http/batches/upload.hpp"
#include "schemas/base/fault_env.hpp"

namespace millrace::http {
namespace {

constexpr const char* worker_tenant = "acme";

class BatchWorkerTest : public ::testing::Test {
 protected:
  std::string add_batch(const std::string& input) {
    StoredBatch batch;
    batch.tenant = worker_tenant;
    batch.created_us = ++made_;
    batch.object.id = BatchStore::new_id();
    batch.object.endpoint = openai::Endpoint::completion;
    batch.object.input_file = input;
    EXPECT_TRUE(batches_->add(batch));
    return batch.object.id;
  }
  std::string add_file(const std::string& text) {
    Upload upload(*files_, clock_, worker_tenant);
    EXPECT_TRUE(upload.take({.name = "purpose", .filename = {}, .bytes = "batch"}));
    EXPECT_TRUE(upload.take({.name = "file", .filename = "in", .bytes = text}));
    return upload.finish()->id;
  }
  // As a face does with each request.
  void attend() {
    if (worker_ && worker_->wake()) return;
    auto started = BatchWorker::start(
        parts_,
        {.endpoint = "ipc:///nobody", .key = {}, .tenant = worker_tenant, .may_remove = false});
    ASSERT_TRUE(started) << started.error().text();
    worker_ = *std::move(started);
  }
  bool is_over(const std::string& id) { return openai::is_over(batches_->find(id)->object.status); }

  FaultEnv env_;
  SystemClock clock_;
  std::unique_ptr<BatchStore> batches_ = *BatchStore::open(env_, "/http");
  std::unique_ptr<FileStore> files_ = *FileStore::open(env_, clock_, "/http", {});
  const BatchParts parts_{env_, clock_, *files_, *batches_, {}};
  std::unique_ptr<BatchWorker> worker_;
  std::int64_t made_ = 0;
};

// A worker ends when no batch is left, which is when the next one may come. Batches without an
// input end by themselves.
TEST_F(BatchWorkerTest, NoBatchWaitsForAWorkerThatHasEnded) {
  for (int i = 0; i < 10; ++i) {
    const std::string id = add_batch("file-none");
    attend();
    while (!is_over(id)) std::this_thread::yield();
    EXPECT_EQ(batches_->find(id)->object.status, openai::BatchStatus::failed);
  }
  while (worker_->wake()) std::this_thread::yield();  // it ends
}

TEST_F(BatchWorkerTest, OneBatchIsCheckedAtATime) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += R"({"custom_id": ")" + std::to_string(i) +
            R"(", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}})" + "\n";
  }
  const std::string large = add_batch(add_file(text + "{\n"));
  const std::string small = add_batch(add_file("{\n"));
  attend();
  while (!is_over(small)) std::this_thread::yield();
  EXPECT_TRUE(is_over(large));
}

TEST_F(BatchWorkerTest, ABatchHasSoManyLines) {
  std::string text;
  for (int i = 0; i < 4; ++i) {
    text += R"({"custom_id": ")" + std::to_string(i) +
            R"(", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}})" + "\n";
  }
  const std::string file = add_file(text);
  for (const std::uint64_t most : {3, 4}) {
    BatchCheck check(*files_->open_data(file), openai::Endpoint::completion, most);
    while (*check.step()) {
    }
    ASSERT_EQ(check.errors().size(), 4 - most);
    EXPECT_EQ(check.lines(), most);
    if (most == 4) continue;
    EXPECT_EQ(check.errors()[0].code, "limit_exceeded");
    EXPECT_EQ(check.errors()[0].line, 4u);
  }
}

}  // namespace
}  // namespace millrace::http
