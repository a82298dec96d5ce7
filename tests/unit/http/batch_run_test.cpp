// One batch, with a broker and a disk in memory: whatever ends a run, the next one goes on, each
// line runs once, and has one line of results.
#include "http/batches/batch_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "client/lines/line_id.hpp"
#include "http/batches/upload.hpp"
#include "schemas/base/fault_env.hpp"
#include "schemas/base/utf8.hpp"
#include "tests/unit/client/fake_broker.hpp"

namespace millrace::http {
namespace {

constexpr std::uint64_t line_count = 40;
constexpr const char* tenant = "acme";

class BatchRunTest : public ::testing::Test {
 protected:
  BatchRunTest() { open(); }

  // Reads the folder as a new process does.
  void open() {
    auto batches = BatchStore::open(env_, "/http");
    ASSERT_TRUE(batches) << batches.error().text();
    batches_ = *std::move(batches);
    auto files = FileStore::open(env_, clock_, "/http", batches_->files_to_come());
    ASSERT_TRUE(files) << files.error().text();
    files_ = *std::move(files);
  }
  static std::string lines(std::uint64_t count) {
    std::string text;
    for (std::uint64_t i = 1; i <= count; ++i) {
      text += R"({"custom_id": "c)" + std::to_string(i) +
              R"(", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Say )" +
              std::to_string(i) + "\"}}\n";
    }
    return text;
  }
  std::string add_batch(const std::string& text) {
    Upload upload(*files_, clock_, tenant);
    EXPECT_TRUE(upload.take({.name = "purpose", .filename = {}, .bytes = "batch"}));
    EXPECT_TRUE(upload.take({.name = "file", .filename = "in", .bytes = text}));
    StoredBatch batch;
    batch.tenant = tenant;
    batch.output = FileStore::new_id();
    batch.errors = FileStore::new_id();
    batch.object.id = BatchStore::new_id();
    batch.object.endpoint = openai::Endpoint::completion;
    batch.object.input_file = upload.finish()->id;
    batch.object.window = "24h";
    batch.object.expires_s = clock_.wall_us() / 1'000'000 + 86'400;
    EXPECT_TRUE(batches_->add(batch));
    return batch.object.id;
  }
  // Runs the batch until it is over, or until an error.
  Status run(const std::string& id) {
    const BatchParts parts{env_, clock_, *files_, *batches_, {}};
    const auto session = broker_.open_session();
    client::EventLoop loop(*session, clock_, {});
    BatchRun run(parts, *session, id, true);
    return loop.run({&run}, [&] { return run.over(); });
  }
  std::string content(const std::string& id) {
    if (id.empty()) return {};
    const auto file = files_->open_data(id);
    EXPECT_TRUE(file) << file.error().text();
    std::string text(*(*file)->size(), '\0');
    EXPECT_TRUE((*file)->read_at(0, std::span(text)));
    return text;
  }
  // The numbers of the lines that a file of results answers, each of which it has once.
  std::set<std::uint64_t> answered(const std::string& batch, const std::string& file) {
    std::set<std::uint64_t> numbers;
    std::istringstream text(content(file));
    for (std::string line; std::getline(text, line);) {
      const std::string start = "{\"id\":\"" + batch + "-";
      EXPECT_TRUE(line.starts_with(start) && line.ends_with("}")) << line;
      const std::string rest = line.substr(start.size());
      const auto id = client::parse_line_id(rest.substr(0, rest.find('"')));
      EXPECT_TRUE(id) << line;
      EXPECT_TRUE(numbers.insert(id ? id->number : 0).second) << "twice: " << line;
    }
    return numbers;
  }
  void expect_whole(const std::string& id) {
    const auto batch = batches_->find(id);
    EXPECT_EQ(batch->object.status, openai::BatchStatus::completed);
    EXPECT_EQ(batch->object.completed, line_count);
    EXPECT_EQ(answered(id, batch->object.output_file).size(), line_count);
    EXPECT_TRUE(batch->object.error_file.empty());
    EXPECT_EQ(broker_.jobs.size(), line_count);
    EXPECT_TRUE(env_.list("/http/results")->empty());
  }

  FaultEnv env_;
  ManualClock clock_;
  client::FakeBroker broker_{clock_};
  std::unique_ptr<BatchStore> batches_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(BatchRunTest, EveryLineHasItsResult) {
  const std::string id = add_batch(lines(line_count));
  const Status done = run(id);
  ASSERT_TRUE(done) << done.error().text();
  expect_whole(id);
  const auto file = files_->find(tenant, batches_->find(id)->object.output_file);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->object.purpose, "batch_output");
}

TEST_F(BatchRunTest, ThePowerFailsAnywhereAndItGoesOn) {
  std::uint64_t cut = 0, whole = 0;
  for (cut = 1; whole < 3; ++cut) {
    broker_.jobs.clear();
    broker_.entries.clear();
    const std::string id = add_batch(lines(line_count));
    env_.cut_after(cut);
    const bool ended = run(id).has_value();
    whole += ended ? 1 : 0;
    env_.restart(cut);
    open();
    if (!is_over(batches_->find(id)->object.status)) {
      const Status done = run(id);
      ASSERT_TRUE(done) << cut << ": " << done.error().text();
    }
    expect_whole(id);
    if (HasFailure()) FAIL() << "the power failed at operation " << cut;
  }
  EXPECT_GT(cut, 15u);  // the runs before it ended early
}

TEST_F(BatchRunTest, AFullDiskCostsTime) {
  const std::string id = add_batch(lines(line_count));
  env_.set_capacity(12'000);
  const Status full = run(id);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::disk_full);
  env_.set_capacity(UINT64_MAX);
  const Status done = run(id);
  ASSERT_TRUE(done) << done.error().text();
  expect_whole(id);
}

TEST_F(BatchRunTest, AnotherLedgerRunsWhatHasNoResult) {
  const std::string id = add_batch(lines(line_count));
  constexpr std::size_t ended = 10;
  broker_.ends_at_once = false;
  broker_.at_wait = [&] {
    if (broker_.entries.empty() && broker_.jobs.size() == line_count) {
      for (auto job = broker_.jobs.begin(); broker_.entries.size() < ended; ++job) {
        job->second = true;
        broker_.complete(job->first);
      }
    }
    const bool settled = env_.exists(batches_->work_path(id, "checkpoint")).value_or(false);
    if (settled) broker_.refuses_fetches = Error{Code::unauthorized, "no", {}, {}};
  };
  EXPECT_EQ(run(id).error().code, Code::unauthorized);
  broker_.at_wait = nullptr;
  broker_.refuses_fetches.reset();
  broker_.epoch = "f";
  broker_.jobs.clear();
  broker_.entries.clear();
  broker_.ends_at_once = true;
  EXPECT_EQ(run(id).error().code, Code::epoch_changed);
  ASSERT_TRUE(run(id));
  EXPECT_EQ(answered(id, batches_->find(id)->object.output_file).size(), line_count);
  EXPECT_EQ(broker_.jobs.size(), line_count - ended);
}

TEST_F(BatchRunTest, WrongLinesFailTheBatchBeforeAnythingRuns) {
  const std::string id = add_batch(lines(3) + lines(1) + "{\n");
  ASSERT_TRUE(run(id));
  const auto batch = batches_->find(id);
  EXPECT_EQ(batch->object.status, openai::BatchStatus::failed);
  ASSERT_EQ(batch->object.errors.size(), 2u);
  EXPECT_EQ(batch->object.errors[0].code, "duplicate_custom_id");
  EXPECT_EQ(batch->object.errors[0].line, 4u);
  EXPECT_EQ(batch->object.errors[1].code, "invalid_json_line");
  EXPECT_TRUE(broker_.jobs.empty());
}

TEST_F(BatchRunTest, ALineIsQuotedInPart) {
  std::string letters;
  for (int i = 0; i < 100'000; ++i) letters += "\xc3\xa9";
  const std::string start = R"({"custom_id": "c", "method": "POST", "url": "/v1/completions)";
  const std::string end = "\", \"body\": {\"prompt\": \"x\"}}\n";
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += start + letters + end;
    text += "{\"" + letters + "\": 1, \"" + letters + "\": 1}\n";
  }
  const std::string id = add_batch(text);
  ASSERT_TRUE(run(id));
  const auto errors = batches_->find(id)->object.errors;
  ASSERT_EQ(errors.size(), 40u);
  for (const auto& error : errors) {
    EXPECT_LE(error.message.size(), 503u);
    EXPECT_TRUE(utf8_valid(error.message));
  }
  open();
  EXPECT_EQ(batches_->find(id)->object.errors, errors);
}

TEST_F(BatchRunTest, ARecordThatCannotBeReadIsLeftOut) {
  const std::string id = add_batch(lines(1));
  const std::string large = std::string(2 * limits::MiB, ' ') + "{}";
  ASSERT_TRUE(write_file_atomically(env_, "/http/batches/batch_large.json", large));
  open();
  EXPECT_TRUE(batches_->find(id));
  EXPECT_FALSE(batches_->find("batch_large"));
  EXPECT_TRUE(*env_.exists("/http/batches/batch_large.json"));
}

TEST_F(BatchRunTest, TheListIsReadWhileAnOldRecordIsRemoved) {
  const auto store = *BatchStore::open(env_, "/other", 2);
  StoredBatch batch;
  batch.tenant = tenant;
  batch.object.status = openai::BatchStatus::completed;
  std::size_t seen = 0;
  env_.set_hook([&](std::string_view operation, const std::string& /*path*/) -> Status {
    if (operation == "remove") seen = store->list(tenant).size();
    return {};
  });
  for (const char* id : {"batch_0", "batch_1", "batch_2"}) {
    batch.object.id = id;
    ASSERT_TRUE(store->add(batch));
  }
  env_.set_hook(nullptr);
  EXPECT_EQ(seen, 2u);
  EXPECT_FALSE(store->find("batch_0"));
  EXPECT_TRUE(store->find("batch_1"));
  EXPECT_EQ(env_.list("/other/batches")->size(), 2u);
}

TEST_F(BatchRunTest, ABatchWithoutItsInputFails) {
  const std::string id = add_batch(lines(3));
  ASSERT_TRUE(files_->remove(tenant, batches_->find(id)->object.input_file,
                             [](const std::string&) { return false; }));
  ASSERT_TRUE(run(id));
  const auto batch = batches_->find(id)->object;
  EXPECT_EQ(batch.status, openai::BatchStatus::failed);
  EXPECT_TRUE(batch.failed_s);
  ASSERT_EQ(batch.errors.size(), 1u);
  EXPECT_EQ(batch.errors[0].code, "not_found");
  EXPECT_EQ(batch.errors[0].param, "input_file_id");
}

TEST_F(BatchRunTest, ABatchThatLosesItsInputKeepsTheResultsItHas) {
  const std::string id = add_batch(lines(line_count));
  broker_.refuses_fetches = Error{Code::unauthorized, "no", {}, {}};
  EXPECT_EQ(run(id).error().code, Code::unauthorized);
  broker_.refuses_fetches.reset();
  const std::size_t ended = broker_.entries.size();
  ASSERT_TRUE(files_->remove(tenant, batches_->find(id)->object.input_file,
                             [](const std::string&) { return false; }));
  const Status done = run(id);
  ASSERT_TRUE(done) << done.error().text();
  const auto batch = batches_->find(id)->object;
  EXPECT_EQ(batch.status, openai::BatchStatus::failed);
  EXPECT_EQ(batch.errors.size(), 1u);
  EXPECT_EQ(batch.completed, ended);
  EXPECT_EQ(answered(id, batch.output_file).size(), ended);
}

TEST_F(BatchRunTest, NoLineOutlivesTheWindow) {
  const std::int64_t window_us = 86'400'000'000;
  const std::string far = std::to_string(clock_.wall_us() + 2 * window_us);
  const std::string near = std::to_string(clock_.wall_us() + window_us / 2);
  std::string text = lines(1);
  for (const auto& [name, deadline] : {std::pair("far", far), {"near", near}}) {
    text += std::string(R"({"custom_id": ")") + name + R"(", "deadline_us": )" + deadline +
            R"(, "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}})" + "\n";
  }
  const std::string id = add_batch(text);
  const std::int64_t end_us = batches_->find(id)->object.expires_s * 1'000'000;
  broker_.ends_at_once = false;
  broker_.at_wait = [&] {
    if (broker_.jobs.size() == 3 && clock_.wall_us() < end_us) {
      clock_.advance_us(end_us - clock_.wall_us());
    }
    for (const Message& question : broker_.questions) {
      const auto* cancel = std::get_if<Cancel>(&question);
      if (cancel == nullptr || cancel->batch != id || !broker_.entries.empty()) continue;
      for (auto& [job, ended] : broker_.jobs) {
        JobResult result;
        result.job = job;
        result.state = JobState::cancelled;
        broker_.publish(job, encode_result(result));
      }
    }
  };
  const Status done = run(id);
  ASSERT_TRUE(done) << done.error().text();
  std::vector<std::int64_t> deadlines;
  for (const Message& question : broker_.questions) {
    const auto* submit = std::get_if<Submit>(&question);
    if (submit == nullptr) continue;
    for (const Body& job : submit->jobs) {
      deadlines.push_back(decode_job(job)->job.deadline_us.value_or(0));
    }
  }
  EXPECT_EQ(deadlines, (std::vector<std::int64_t>{end_us, end_us, std::stoll(near)}));
  const auto batch = batches_->find(id)->object;
  EXPECT_EQ(batch.status, openai::BatchStatus::expired);
  EXPECT_EQ(answered(id, batch.error_file), (std::set<std::uint64_t>{1, 2, 3}));
  const std::string errors = content(batch.error_file);
  EXPECT_TRUE(errors.contains("\"expired\"")) << errors;
  EXPECT_FALSE(errors.contains("was cancelled")) << errors;
}

// A broker whose stream has lost its first result, and which has ended all jobs of the batch. Its
// answer to the submits comes after an empty one to the fetch; `then` runs in between.
class TrimmedBatchTest : public BatchRunTest {
 protected:
  openai::BatchObject run_trimmed(const std::function<void()>& then) {
    const std::string id = add_batch(lines(line_count));
    broker_.ends_at_once = false;
    broker_.refuses_fetches = Error{Code::unauthorized, "no", {}, {}};
    EXPECT_EQ(run(id).error().code, Code::unauthorized);
    broker_.refuses_fetches.reset();
    for (auto& [job, ended] : broker_.jobs) ended = true;
    broker_.publish("other", client::no_result);
    broker_.first = 2;
    broker_.rings = false;
    broker_.questions.clear();
    std::vector<std::string> kept;
    bool passed_on = false;
    broker_.at_wait = [&] {
      const auto of_submit = [](const std::string& frame) {
        return std::holds_alternative<Submitted>(decode_envelope(frame)->message);
      };
      std::size_t fetches = 0;
      for (const Message& question : broker_.questions) {
        fetches += std::holds_alternative<Fetch>(question) ? 1 : 0;
      }
      if (passed_on) return;
      std::ranges::copy_if(broker_.frames, std::back_inserter(kept), of_submit);
      std::erase_if(broker_.frames, of_submit);
      if (fetches < 2 || !broker_.frames.empty()) return;
      passed_on = true;  // the second fetch has had its answer, which was empty
      then();
      broker_.frames = kept;
    };
    const Status done = run(id);
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_TRUE(passed_on);
    broker_.at_wait = nullptr;
    return batches_->find(id)->object;
  }
};

TEST_F(TrimmedBatchTest, AResultThatComesAfterAnEmptyAnswerIsNotLost) {
  const auto batch = run_trimmed([&] {
    for (const auto& [job, ended] : broker_.jobs) broker_.complete(job);
  });
  EXPECT_EQ(batch.completed, line_count);
  EXPECT_EQ(answered(batch.id, batch.output_file).size(), line_count);
  EXPECT_TRUE(batch.error_file.empty());
}

TEST_F(TrimmedBatchTest, AResultThatTheStreamHasNoMoreIsAnError) {
  const auto batch = run_trimmed([] {});
  EXPECT_EQ(batch.failed, line_count);
  EXPECT_EQ(answered(batch.id, batch.error_file).size(), line_count);
  EXPECT_TRUE(content(batch.error_file).contains("trimmed"));
}

TEST_F(BatchRunTest, WhatIsWrongInARequestIsItsLinesError) {
  const std::string bad =
      R"({"custom_id": "bad", "method": "POST", "url": "/v1/completions", "body": {"prompt": 1}})";
  const std::string id = add_batch(lines(3) + bad + "\n");
  ASSERT_TRUE(run(id));
  const auto batch = batches_->find(id);
  EXPECT_EQ(batch->object.completed, 3u);
  EXPECT_EQ(batch->object.failed, 1u);
  EXPECT_EQ(answered(id, batch->object.error_file), (std::set<std::uint64_t>{4}));
}

}  // namespace
}  // namespace millrace::http
