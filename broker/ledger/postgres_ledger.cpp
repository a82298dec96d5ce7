#include "broker/ledger/postgres_ledger.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "broker/ledger/news.hpp"
#include "broker/ledger/postgres_records.hpp"
#include "broker/ledger/postgres_schema.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

// Notes what an operation is about.
class Expecting {
 public:
  explicit Expecting(ExpectedRecords& to) : to_(to) {}

  void operator()(const SubmitJob& op) {
    tenant(op.tenant);
    to_.jobs.emplace(op.tenant, op.id);
    if (!op.batch.empty()) to_.batches.emplace(op.tenant, op.batch);
    to_.streams.emplace(op.tenant, op.stream);
  }
  void operator()(const ClaimShared& op) {
    for (const TenantShare& share : op.shares) tenant(share.tenant);
  }
  void operator()(const ListTenants&) { to_.every_tenant = true; }
  void operator()(const Retain&) { to_.every_tenant = true; }
  template <class Op>
  void operator()(const Op& op) {
    if constexpr (requires { op.tenant; }) tenant(op.tenant);
    if constexpr (requires { op.lease; }) to_.leases.push_back(op.lease);
    if constexpr (requires { op.leases; }) {
      to_.leases.insert(to_.leases.end(), op.leases.begin(), op.leases.end());
    }
    if constexpr (requires { op.tenant, op.jobs; }) {
      for (const std::string& job : op.jobs) to_.jobs.emplace(op.tenant, job);
    }
    if constexpr (requires { op.tenant, op.stream; }) to_.streams.emplace(op.tenant, op.stream);
  }

 private:
  void tenant(const std::string& name) {
    to_.tenants.insert(name);
    to_.batches.emplace(name, "");
  }
  ExpectedRecords& to_;
};

class PostgresStore final : public LedgerStore {
 public:
  PostgresStore(const std::string& url, PostgresLedgerOptions options)
      : connection_(url, options.schema),
        records_(connection_, options.broker),
        traffic_(std::move(options.traffic)),
        broker_(std::move(options.broker)),
        idle_ms_(std::to_string(options.idle_ms)),
        handle_(random_id()) {}

  Status open();

  Records& records() override { return records_; }
  void expect(std::span<const Operation> operations) override;
  Status begin(bool writes) override;
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    records_.tell(handle_, batch_, news_of(operations, replies));
  }
  Status commit() override;
  Status roll_back() override;
  Result<bool> took_place() override;
  std::uint64_t sync_us() const override { return commit_us_; }
  void give_up_soon() override {
    connection_.give_up_after(std::chrono::milliseconds(limits::ledger_silence_ms));
  }

 private:
  PostgresConnection connection_;
  PostgresRecords records_;
  const std::shared_ptr<PostgresTraffic> traffic_;
  const std::string broker_, idle_ms_, handle_;
  std::int64_t batch_ = 0;  // of this handle's last transaction
  ExpectedRecords expected_;
  std::string epoch_;
  bool writing_ = false;
  std::uint64_t commit_us_ = 0;  // of the last commit
};

Status PostgresStore::open() {
  MILLRACE_TRY(connection_.connect());
  MILLRACE_TRY(migrate_postgres(connection_));
  // Outside of a transaction, where a standby refuses it with a code that says why.
  connection_.ask("INSERT INTO @.handles (handle, batch, seen_us, broker) VALUES ($1, 0, 0, $2)",
                  handle_, broker_);
  MILLRACE_TRY(connection_.status());
  MILLRACE_TRY(begin(true));  // which reads the settings back
  return commit();
}

void PostgresStore::expect(std::span<const Operation> operations) {
  expected_ = {};
  for (const Operation& operation : operations) std::visit(Expecting(expected_), operation);
}

Status PostgresStore::begin(bool writes) {
  if (!connection_.connected()) MILLRACE_TRY(connection_.connect());
  writing_ = writes;
  commit_us_ = 0;
  connection_.send(writes ? "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
                          : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  connection_.send(state_question, idle_ms_, broker_);
  // Before any change, so that the row is locked for as long as the server may still commit.
  if (writes) {
    connection_.send(
        "INSERT INTO @.handles (handle, batch, seen_us, broker) VALUES ($1, $2, (extract(epoch "
        "FROM "
        "clock_timestamp()) * 1000000)::bigint, $3) ON CONFLICT (handle) DO UPDATE SET "
        "batch = excluded.batch, seen_us = excluded.seen_us",
        handle_, ++batch_, broker_);
  }
  records_.begin(epoch_, writes);
  records_.send_expected(expected_);
  auto answers = connection_.settle();
  Status sound = connection_.status();
  PostgresState state;
  if (sound) state = read_state(answers[1]);
  if (sound) sound = check_state(state, connection_.place());
  if (sound && !epoch_.empty() && state.epoch != epoch_) {
    sound = fail(Code::ledger_corrupt,
                 connection_.place() + ": another ledger stands in this database now",
                 "start the broker again");
  }
  if (!sound) {
    (void)roll_back();
    return sound;
  }
  epoch_ = state.epoch;
  records_.others_live(state.others_live);
  answers.erase(answers.begin(), answers.begin() + (writes ? 3 : 2));
  records_.take_expected(expected_, std::move(answers));
  expected_ = {};
  return {};
}

Status PostgresStore::commit() {
  const auto start = std::chrono::steady_clock::now();
  if (writing_) records_.flush();
  connection_.ask("COMMIT");
  if (traffic_) *traffic_ = {connection_.statements(), connection_.round_trips()};
  MILLRACE_TRY(connection_.status());
  records_.forget();
  const auto took = std::chrono::steady_clock::now() - start;
  commit_us_ = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  return {};
}

Status PostgresStore::roll_back() {
  records_.roll_back();
  connection_.recover();
  return {};
}

Result<bool> PostgresStore::took_place() {
  if (!connection_.connected()) MILLRACE_TRY(connection_.connect());
  connection_.send("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  const auto rows =
      connection_.ask("SELECT batch FROM @.handles WHERE handle = $1 FOR UPDATE", handle_);
  connection_.ask("COMMIT");
  const Status asked = connection_.status();
  connection_.recover();
  MILLRACE_TRY(asked);
  return rows.size() == 1 && rows.integer(0, 0) == batch_;
}

}  // namespace

Result<std::unique_ptr<LedgerStore>> open_postgres_store(const std::string& url,
                                                         PostgresLedgerOptions options) {
  auto store = std::make_unique<PostgresStore>(url, std::move(options));
  MILLRACE_TRY(store->open());
  return store;
}

}  // namespace millrace::broker
