// What only the ledger in PostgreSQL has: how many statements a batch takes, its settings, versions
// and migrations, several brokers on one database, and connections that are lost.
#include <atomic>
#include <thread>

#include "broker/ledger/postgres_schema.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class PostgresTest : public testing::Test {
 protected:
  std::unique_ptr<Ledger> open() {
    auto store = open_postgres_store(url, {schema.name(), "", 30'000, traffic});
    EXPECT_TRUE(store) << store.error().text();
    return make_stored_ledger(*std::move(store), {publish});
  }
  PostgresRows sql(const std::string& statement) {
    EXPECT_TRUE(direct.connected() || direct.connect());
    auto rows = direct.ask(statement);
    EXPECT_TRUE(direct.status()) << direct.status().error().text();
    return rows;
  }
  void end_connections() {
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "backend_type = 'client backend'");
  }
  static std::vector<Operation> submits(std::uint64_t first, std::uint64_t jobs) {
    std::vector<Operation> out;
    for (std::uint64_t n = first; n < first + jobs; ++n) out.push_back(job(numbered("j", n), "b"));
    return out;
  }
  // What a batch takes.
  PostgresTraffic used_by(Ledger& ledger, const std::vector<Operation>& operations) {
    const PostgresTraffic before = *traffic;
    const auto replies = ledger.apply(operations, start_us);
    EXPECT_TRUE(replies) << replies.error().text();
    for (const auto& reply : *replies) EXPECT_TRUE(reply) << reply.error().text();
    return {traffic->statements - before.statements, traffic->round_trips - before.round_trips};
  }

  const std::string url = millrace::test::postgres_url();
  const PostgresSchema schema;
  const std::shared_ptr<PostgresTraffic> traffic = std::make_shared<PostgresTraffic>();
  PostgresConnection direct{url, schema.name()};
};

TEST_F(PostgresTest, ABatchTakesTheSameStatementsHoweverLargeItIs) {
  const auto ledger = open();
  used_by(*ledger, submits(0, 1));  // makes the tenant, the batch and the stream
  const PostgresTraffic few = used_by(*ledger, submits(1, 2));
  const PostgresTraffic many = used_by(*ledger, submits(3, 200));
  EXPECT_EQ(few.statements, many.statements);
  EXPECT_EQ(few.round_trips, many.round_trips);
  EXPECT_LE(many.round_trips, 3u);
  EXPECT_LE(many.statements, 20u);

  const auto claims = [&](std::uint32_t jobs) {
    const auto reply = ledger->apply(std::vector<Operation>{claim(jobs)}, start_us);
    std::vector<Operation> ends;
    for (const ClaimedJob& one : std::get<ClaimReply>(*reply->front()).jobs) {
      ends.push_back(Finish{one.lease, JobState::completed, "result", "engine"});
    }
    EXPECT_EQ(ends.size(), jobs);
    return ends;
  };
  const PostgresTraffic two = used_by(*ledger, claims(2));
  const PostgresTraffic hundred = used_by(*ledger, claims(100));
  EXPECT_EQ(two.statements, hundred.statements);
  EXPECT_LE(hundred.round_trips, 3u);
  EXPECT_LE(hundred.statements, 22u);
}

TEST_F(PostgresTest, DamagedMetadataOfABatchStopsTheLedger) {
  const auto ledger = open();
  used_by(*ledger, submits(0, 1));
  sql("UPDATE @.batches SET metadata = '\\x00'");
  const auto replies =
      ledger->apply(std::vector<Operation>{UpdateBatch{tenant, {"b", true, {}}}}, start_us);
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, Code::ledger_corrupt);
  EXPECT_TRUE(replies.error().message.contains("the metadata of batch 'b' is damaged"))
      << replies.error().text();
}

TEST_F(PostgresTest, SettingsUnderWhichAnAcknowledgedJobMayBeLostAreRefused) {
  const auto refused =
      open_postgres_store(url + "&options=-c%20synchronous_commit%3Doff", {schema.name()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ledger_settings);
  EXPECT_NE(refused.error().message.find("synchronous_commit"), std::string::npos);
  EXPECT_FALSE(refused.error().hint.empty());
  const PostgresState sound{postgres_version, "epoch", "on", "on", "remote_apply"};
  EXPECT_TRUE(check_state(sound, "here"));
  PostgresState bad = sound;
  bad.fsync = "off";
  EXPECT_EQ(check_state(bad, "here").error().code, Code::ledger_settings);
  bad = sound;
  bad.full_page_writes = "off";
  EXPECT_EQ(check_state(bad, "here").error().code, Code::ledger_settings);
}

TEST_F(PostgresTest, SettingsAreReadBackInEachTransaction) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->apply(submits(0, 1), start_us));
  sql("ALTER ROLE millrace SET synchronous_commit = off");
  end_connections();
  const auto lost = ledger->apply(submits(1, 1), start_us);
  const auto refused = ledger->apply(submits(1, 1), start_us);
  sql("ALTER ROLE millrace RESET synchronous_commit");
  ASSERT_FALSE(lost);
  EXPECT_TRUE(may_try_again(lost.error())) << lost.error().text();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ledger_settings) << refused.error().text();
}

TEST_F(PostgresTest, ALedgerOfANewerVersionIsRefused) {
  open();
  sql("UPDATE @.meta SET version = 99");
  const auto refused = open_postgres_store(url, {schema.name()});
  sql("UPDATE @.meta SET version = " + std::to_string(postgres_version));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ledger_newer);
}

TEST_F(PostgresTest, ABrokerThatFallsSilentInATransactionHoldsNobodyUp) {
  auto silent = open_postgres_store(url, {schema.name(), "", 50});
  ASSERT_TRUE(silent) << silent.error().text();
  const auto batch = submits(0, 1);
  const auto other = open();
  ASSERT_TRUE(other->apply(submits(1, 1), start_us));
  (*silent)->expect(batch);
  ASSERT_TRUE((*silent)->begin(true));  // which locks the tenant
  const auto replies = other->apply(submits(2, 1), start_us);
  EXPECT_TRUE(replies) << replies.error().text();
  const Status late = (*silent)->commit();
  ASSERT_FALSE(late);
  EXPECT_TRUE(may_try_again(late.error())) << late.error().text();
  EXPECT_TRUE((*silent)->roll_back());
}

TEST_F(PostgresTest, BrokersThatStartTogetherMakeOneLedger) {
  const std::string name = "together_" + random_id();
  std::atomic<int> opened = 0;
  std::vector<std::thread> brokers;
  for (int i = 0; i < 6; ++i) {
    brokers.emplace_back([&] {
      const auto store = open_postgres_store(url, {name});
      EXPECT_TRUE(store) << store.error().text();
      if (store) ++opened;
    });
  }
  for (std::thread& broker : brokers) broker.join();
  EXPECT_EQ(opened, 6);
}

TEST_F(PostgresTest, WhatCannotBeReachedSaysWhyAndWhatToDo) {
  struct Case {
    std::string url;
    Code code;
    const char* says;
  };
  sql("DROP ROLE IF EXISTS busy, locked");
  sql("CREATE ROLE busy LOGIN CONNECTION LIMIT 0");
  sql("CREATE ROLE locked NOLOGIN");
  const std::vector<Case> cases{
      {url + "&user=busy", Code::ledger_unavailable, "too many connections for role"},
      {url + "&user=locked", Code::unauthorized, "not permitted to log in"},
      {"postgresql:///passwords?host=/nowhere", Code::ledger_unavailable, "No such file"},
      {"postgresql:///x?host=/nowhere", Code::ledger_unavailable, "No such file"},
      {url + "&dbname=missing", Code::not_found, "does not exist"},
      {url + "&user=stranger", Code::unauthorized, "does not exist"},
      {"postgresql://me:secret@127.0.0.1:1/x", Code::ledger_unavailable, "refused"}};
  for (const Case& one : cases) {
    const auto store = open_postgres_store(one.url);
    ASSERT_FALSE(store) << one.url;
    EXPECT_EQ(code_name(store.error().code), code_name(one.code)) << store.error().text();
    EXPECT_NE(store.error().message.find(one.says), std::string::npos) << store.error().text();
    EXPECT_FALSE(store.error().hint.empty());
    EXPECT_EQ(store.error().text().find("secret"), std::string::npos);
  }
}

TEST(PostgresUrl, OneThatCannotBeReadIsRefusedWithoutItsPassword) {
  for (const char* one : {"postgresql://me:secret%zz@host/x", "postgresql://me:secret@[::1/x",
                          "postgresql://me:secret@[::1]y/x", "postgresql://h/x?password=secret%"}) {
    const auto place = postgres_place(one);
    ASSERT_FALSE(place) << one;
    EXPECT_EQ(code_name(place.error().code), code_name(Code::usage));
    EXPECT_EQ(place.error().text().find("secret"), std::string::npos) << place.error().text();
  }
}

TEST_F(PostgresTest, ABrokerGoesOnWhenItsConnectionIsLost) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->apply(submits(0, 3), start_us));
  end_connections();
  const auto lost = ledger->apply(submits(3, 3), start_us);
  ASSERT_FALSE(lost);
  EXPECT_TRUE(may_try_again(lost.error())) << lost.error().text();
  const auto again = ledger->apply(submits(3, 3), start_us);
  ASSERT_TRUE(again) << again.error().text();
  for (const auto& reply : *again) EXPECT_FALSE(std::get<SubmitReply>(*reply).known);
}

// Brokers that take the same locks in the same order wait for each other and do not deadlock.
TEST_F(PostgresTest, AnOperationOnAllTenantsTakesItsLocksInOrderWithTheOthers) {
  const auto ledger = open();
  SubmitJob of_first = job("one"), of_last = job("two");
  of_first.tenant = "a";
  of_last.tenant = "z";
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{of_first, of_last}, start_us));
  const std::string holder = std::to_string(sql("SELECT pg_backend_pid()::bigint").integer(0, 0));
  PostgresConnection other{url, schema.name()};
  ASSERT_TRUE(other.connect());
  sql("BEGIN");
  sql("SELECT tenant FROM @.tenants WHERE tenant = 'a' FOR UPDATE");
  std::atomic<bool> over = false;
  std::thread waits([&] {
    of_last.id = "three";
    const auto replies = ledger->apply(std::vector<Operation>{of_last, ListTenants{}}, start_us);
    EXPECT_TRUE(replies) << replies.error().text();
    over = true;
  });
  const auto blocked = [&] {
    const auto rows = other.ask("SELECT 1 FROM pg_stat_activity WHERE " + holder +
                                " = ANY(pg_blocking_pids(pid))");
    return rows.size() > 0;
  };
  while (!over && !blocked()) std::this_thread::yield();
  EXPECT_FALSE(over) << "it took no lock of the first tenant";
  // It waits for the first tenant, and does not hold the last one meanwhile.
  const auto free =
      other.ask("SELECT tenant FROM @.tenants WHERE tenant = 'z' FOR UPDATE SKIP LOCKED");
  EXPECT_EQ(free.size(), 1);
  sql("COMMIT");
  waits.join();
}

// Each job is taken once, ends once, and the stream has no gap, whoever did it.
TEST_F(PostgresTest, SeveralBrokersWorkOnOneLedger) {
  constexpr std::uint64_t brokers = 4, jobs = 60;
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> ended = 0;
  for (std::uint64_t i = 0; i < brokers; ++i) {
    auto store = open_postgres_store(url, {schema.name()});
    ASSERT_TRUE(store) << store.error().text();
    threads.emplace_back([&, i, ledger = make_stored_ledger(*std::move(store), {publish})] {
      const std::string engine = numbered("engine", i);
      const auto apply = [&](const std::vector<Operation>& operations) {
        auto replies = ledger->apply(operations, start_us);
        while (!replies && may_try_again(replies.error())) {
          replies = ledger->apply(operations, start_us);
        }
        EXPECT_TRUE(replies) << replies.error().text();
        return *std::move(replies);
      };
      // Half of the ids are submitted by two brokers.
      for (std::uint64_t n = 0; n < jobs; n += 10) apply(submits(i / 2 * jobs + n, 10));
      while (ended < brokers / 2 * jobs) {
        const auto claimed = apply({claim(7, false, engine)});
        std::vector<Operation> ends;
        for (const ClaimedJob& one : std::get<ClaimReply>(*claimed.front()).jobs) {
          ends.push_back(Finish{one.lease, JobState::completed, "result", engine});
        }
        if (ends.empty()) continue;
        for (const auto& reply : apply(ends)) {
          EXPECT_TRUE(reply) << reply.error().text();
          ++ended;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto ledger = open();
  const auto replies = ledger->apply(
      std::vector<Operation>{reading("results"), Count{tenant, "b"}, Count{tenant, ""}}, start_us);
  const auto& read = std::get<ReadStreamReply>(*replies->at(0));
  EXPECT_EQ(read.high, brokers / 2 * jobs);
  std::set<std::string> ids;
  for (const Entry& entry : read.entries) ids.insert(entry.job);
  EXPECT_EQ(ids.size(), brokers / 2 * jobs);
  EXPECT_EQ(std::get<CountReply>(*replies->at(1)).counts, (JobCounts{0, 0, 120, 0, 0, 0}));
  EXPECT_EQ(std::get<CountReply>(*replies->at(2)).counts, (JobCounts{0, 0, 120, 0, 0, 0}));
}

}  // namespace
}  // namespace millrace::broker::test
