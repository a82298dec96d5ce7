#pragma once
// Creates a ledger of each kind, so that one suite checks the contract of all.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/memory_ledger.hpp"
#include "broker/ledger/postgres_ledger.hpp"
#include "broker/ledger/sqlite_testing.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "schemas/base/random_id.hpp"
#include "tests/unit/ledger/faulty_store.hpp"
#include "tests/unit/ledger/postgres_schemas.hpp"

namespace millrace::broker::test {

constexpr std::int64_t start_us = 1'700'000'000'000'000;
constexpr const char* tenant = "default";

// The Publish function of these tests: an engine's result as it came, or the facts of an end that
// the ledger decided. A job with the labels "damaged" fails.
inline Published publish(const EndingJob& job, const Outcome& outcome) {
  if (job.labels == "damaged") return {"damaged", JobState::failed};
  if (!outcome.reason) return {outcome.result, outcome.state, outcome.error};
  Body facts = job.job + "|" + job.custom_id + "|" + job.model + "|" + job.batch + "|" +
               job.labels + "|" + std::to_string(static_cast<int>(outcome.state)) + "|" +
               std::string(code_name(*outcome.reason)) + "|" + std::to_string(job.attempts) + "|" +
               std::to_string(outcome.ended_us);
  return {std::move(facts), outcome.state};
}

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / ("millrace-ledger-" + random_id())) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// sqlite_plain: the plain forms of the operations on sets, on the SQLite store.
// postgres_two_handles: two connections in turn, as of two brokers.
enum class Kind {
  memory,
  memory_two_handles,
  sqlite,
  sqlite_plain,
  sqlite_reopened,
  postgres,
  postgres_plain,
  postgres_two_handles
};
inline std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::memory:
      return "Memory";
    case Kind::memory_two_handles:
      return "MemoryTwoHandles";
    case Kind::sqlite:
      return "Sqlite";
    case Kind::sqlite_plain:
      return "SqlitePlain";
    case Kind::sqlite_reopened:
      return "SqliteReopened";
    case Kind::postgres:
      return "Postgres";
    case Kind::postgres_plain:
      return "PostgresPlain";
    case Kind::postgres_two_handles:
      return "PostgresTwoHandles";
  }
  return "";
}

inline auto every_kind() {
  return testing::Values(Kind::memory, Kind::memory_two_handles, Kind::sqlite, Kind::sqlite_plain,
                         Kind::sqlite_reopened, Kind::postgres_two_handles);
}

inline std::string kind_name(const testing::TestParamInfo<Kind>& of) {
  return name_of(of.param);
}

inline std::string numbered(std::string prefix, std::uint64_t number) {
  return prefix.append(std::to_string(number));
}

struct Limits {
  std::uint64_t fault_seed = 0;  // not 0: the store is unavailable now and then
  bool synced = true;            // false: commits do not wait for the disk
};

// Uses two handles in turn; closes and opens a reopened ledger before each commit; tries again what
// may be tried again.
class AnyLedger {
 public:
  explicit AnyLedger(Kind kind, Limits with = {})
      : kind_(kind), limits_(with), random_(with.fault_seed) {
    if (kind == Kind::memory || kind == Kind::memory_two_handles) {
      auto store = make_memory_store({publish, ""});
      handles_.push_back(on(make_memory_handle(store)));
      if (kind == Kind::memory_two_handles) handles_.push_back(on(make_memory_handle(store)));
    } else if (is_postgres()) {
      schema_.emplace();
      open_postgres();
      if (kind == Kind::postgres_two_handles) open_postgres();
    } else {
      handles_.resize(1);
      open();
    }
  }

  void open() {
    handles_[0].reset();
    SqliteLedgerOptions options;
    options.publish = publish;
    options.ballast_bytes = 0;
    DurabilitySettings settings;
    if (!limits_.synced) settings.synchronous = "OFF";
    auto opened = open_sqlite_store(folder_.file("ledger"), std::move(options), settings);
    ASSERT_TRUE(opened) << opened.error().text();
    handles_[0] = on(*std::move(opened));
  }

  void open_postgres() {
    auto opened = open_postgres_store(millrace::test::postgres_url(), {schema_->name()});
    ASSERT_TRUE(opened) << opened.error().text();
    handles_.push_back(on(*std::move(opened)));
  }

  std::vector<Result<Reply>> apply(const std::vector<Operation>& operations) {
    if (kind_ == Kind::sqlite_reopened) open();
    turn_ = (turn_ + 1) % handles_.size();
    draw();
    auto replies = handles_[turn_]->apply(operations, now_us);
    while (!replies && may_try_again(replies.error())) {
      draw();
      replies = handles_[turn_]->apply(operations, now_us);
    }
    EXPECT_TRUE(replies) << (replies ? "" : replies.error().text());
    if (!replies) return {};
    EXPECT_EQ(replies->size(), operations.size());
    EXPECT_TRUE(handles_[turn_]->idle());
    return *std::move(replies);
  }
  Result<Reply> apply_one(Operation operation) {
    auto replies = apply({std::move(operation)});
    if (replies.size() != 1) return fail(Code::internal, "no reply");
    return std::move(replies[0]);
  }

  std::int64_t now_us = start_us;
  const FaultPlan& faults() const { return *plan_; }

 private:
  std::unique_ptr<Ledger> on(std::unique_ptr<LedgerStore> store) {
    if (kind_ == Kind::sqlite_plain || kind_ == Kind::postgres_plain)
      store = std::make_unique<PlainStore>(std::move(store));
    if (limits_.fault_seed != 0) store = std::make_unique<FaultyStore>(std::move(store), plan_);
    return make_stored_ledger(std::move(store), {publish});
  }
  bool is_postgres() const {
    return kind_ == Kind::postgres || kind_ == Kind::postgres_plain ||
           kind_ == Kind::postgres_two_handles;
  }
  void draw() {
    if (limits_.fault_seed != 0) plan_->draw(random_, 1, 2);
  }

  Kind kind_;
  Limits limits_;
  TemporaryFolder folder_;
  std::optional<PostgresSchema> schema_;
  std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Ledger>> handles_;
  std::size_t turn_ = 0;
};

inline SubmitJob job(const std::string& id, const std::string& batch = "") {
  SubmitJob op;
  op.tenant = tenant;
  op.id = id;
  op.hash = "hash of " + id;
  op.body = "body of " + id;
  op.labels = "labels of " + id;
  op.custom_id = "label of " + id;
  op.model = "model";
  op.stream = "results";
  op.batch = batch;
  return op;
}
inline Claim claim(std::uint32_t max_jobs, bool suspect = false,
                   const std::string& engine = "engine") {
  return {tenant,
          engine,
          "model",
          max_jobs,
          start_us + 1'000'000'000,
          suspect ? ClaimFrom::suspects : ClaimFrom::jobs};
}

inline ReadStream reading(const std::string& stream, const std::string& epoch = "") {
  ReadStream op;
  op.tenant = tenant;
  op.stream = stream;
  op.epoch = epoch;
  return op;
}

// A fixture whose helpers expect success and return the reply with its type.
class LedgerTest : public testing::TestWithParam<Kind> {
 protected:
  template <class T>
  T expect(Operation operation) {
    auto reply = ledger.apply_one(std::move(operation));
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().text());
    if (!reply || !std::holds_alternative<T>(*reply)) {
      ADD_FAILURE() << "not the expected reply";
      return T{};
    }
    return std::get<T>(*std::move(reply));
  }
  void refuse(Operation operation, Code code, const std::string& says = "") {
    const auto reply = ledger.apply_one(std::move(operation));
    ASSERT_FALSE(reply) << "expected " << code_name(code);
    EXPECT_EQ(code_name(reply.error().code), code_name(code)) << reply.error().text();
    EXPECT_NE(reply.error().message.find(says), std::string::npos) << reply.error().text();
  }

  SubmitReply submit(const SubmitJob& op) { return expect<SubmitReply>(op); }
  std::vector<ClaimedJob> take(std::uint32_t n, bool suspect = false,
                               const std::string& engine = "engine") {
    return expect<ClaimReply>(claim(n, suspect, engine)).jobs;
  }
  FinishReply finish(LeaseId lease, JobState state = JobState::completed) {
    return expect<FinishReply>(Finish{lease, state, "result " + std::to_string(lease), ""});
  }
  GiveBackReply give_back(std::vector<LeaseId> leases, Blame blame = Blame::none) {
    return expect<GiveBackReply>(GiveBack{std::move(leases), blame, ""});
  }
  GetJobReply look(const std::string& id) { return expect<GetJobReply>(GetJob{tenant, id}); }
  CountReply count(const std::string& batch = "") {
    return expect<CountReply>(Count{tenant, batch});
  }
  std::uint64_t suspects() {
    std::uint64_t jobs = 0;
    for (const auto& queue : count().suspects) jobs += queue.jobs;
    return jobs;
  }
  ReadStreamReply read(std::uint64_t from = 1, const std::string& stream = "results") {
    ReadStream op;
    op.tenant = tenant;
    op.stream = stream;
    op.from = from;
    return expect<ReadStreamReply>(op);
  }
  static std::vector<std::string> ids(const std::vector<ClaimedJob>& jobs) {
    std::vector<std::string> out;
    for (const auto& claimed : jobs) out.push_back(claimed.job);
    return out;
  }

  AnyLedger ledger{GetParam()};
};

}  // namespace millrace::broker::test
