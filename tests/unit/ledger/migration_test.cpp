// The jobs of a ledger that an earlier version wrote are migrated without loss. A ledger that holds
// results as well is refused, because their form has changed.
#include <sqlite3.h>

#include <chrono>

#include "broker/ledger/sqlite_schema.hpp"
#include "tests/unit/ledger/earlier_versions.hpp"

namespace millrace::broker::test {
namespace {

TEST(SqliteMigration, AQueueOfVersion1IsHandedOutInItsOrder) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob urgent = job("urgent");
  urgent.priority = 0;
  SubmitJob any = job("any");
  any.model = "*";
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("a"), any, urgent, job("b")}, start_us));
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{claim(1)}, start_us));
  ledger.reset();
  change(path, back_to_version_1);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob picky = job("picky");
  picky.kv = "r5/r3";
  Claim with = claim(10);
  with.kv = {"r5/r3"};
  const auto replies = ledger->apply(
      std::vector<Operation>{picky, claim(10), with, Finish{1, JobState::completed, "r", ""}},
      start_us);
  ASSERT_TRUE(replies);
  std::vector<std::string> given;
  for (const auto& one : std::get<ClaimReply>(*(*replies)[1]).jobs) given.push_back(one.job);
  EXPECT_EQ(given, (std::vector<std::string>{"a", "any", "b"}));
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.at(0).job, "picky");
  EXPECT_TRUE((*replies)[3]) << "a lease from before the migration is still valid";
}

SubmitJob wish(const std::string& id, const std::string& kv) {
  SubmitJob op = job(id);
  op.body = "wants " + kv;
  return op;
}

std::vector<std::string> ids(const ClaimReply& reply) {
  std::vector<std::string> out;
  for (const auto& given : reply.jobs) out.push_back(given.job);
  return out;
}

// Version 1 stored a job's KV policy in its body only.
TEST(SqliteMigration, JobsOfVersion1KeepThePolicyTheyName) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto carry_out = [&](std::vector<Operation> operations) {
    auto replies = ledger->apply(operations, start_us);
    EXPECT_TRUE(replies);
    return replies ? *std::move(replies) : std::vector<Result<Reply>>{};
  };
  // Version 1 handed jobs to any engine: one is leased, one is a suspect, one has failed.
  (void)carry_out({wish("leased", "r5/r3"), wish("suspect", "r5/r3"), wish("failed", "r5/r3"),
                   wish("done", "r5/r3"), claim(4), GiveBack{{2}, Blame::died, ""},
                   Finish{3, JobState::failed, "r", ""}, Finish{4, JobState::completed, "r", ""},
                   TrimStream{tenant, "results", 3}, Retain{}, job("any"), wish("queued", "r5/r3"),
                   wish("other", "f16/f16"), wish("damaged", "r5/r3")});
  ledger.reset();
  change(path, back_to_version_1);
  change(path, "UPDATE job_bodies SET body = x'00' WHERE sequence = 8");

  const auto unread = try_open(path, {});
  ASSERT_FALSE(unread) << "what the jobs want must not be lost in silence";
  EXPECT_EQ(unread.error().code, Code::internal);
  ledger = open(path);  // the failed migration changed nothing
  ASSERT_NE(ledger, nullptr);
  Claim with = claim(10);
  with.kv = {"r5/r3"};
  Claim alone = with;
  alone.from = ClaimFrom::suspects;
  const auto replies =
      carry_out({GiveBack{{1}, Blame::none, ""}, RetryJobs{tenant, {"failed"}, "", 5}, claim(10),
                 claim(1, true), GetJob{tenant, "suspect"}, GetJob{tenant, "other"}, with, alone});
  ASSERT_EQ(replies.size(), 8u);
  EXPECT_EQ(ids(std::get<ClaimReply>(*replies[2])), (std::vector<std::string>{"any"}));
  EXPECT_EQ(std::get<ClaimReply>(*replies[2]).ended.at(0).job, "damaged");
  EXPECT_TRUE(std::get<ClaimReply>(*replies[3]).jobs.empty());
  EXPECT_EQ(std::get<GetJobReply>(*replies[4]).kv, "r5/r3");
  EXPECT_EQ(std::get<GetJobReply>(*replies[5]).kv, "f16/f16");
  EXPECT_EQ(ids(std::get<ClaimReply>(*replies[6])),
            (std::vector<std::string>{"leased", "failed", "queued"}));
  EXPECT_EQ(ids(std::get<ClaimReply>(*replies[7])), (std::vector<std::string>{"suspect"}));
}

// Version 2 read the labels from the body when the job ended.
TEST(SqliteMigration, JobsOfVersion2KeepTheirLabels) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob queued = job("queued"), leased = job("leased");
  queued.body = "says hello";
  leased.body = "says goodbye";
  leased.priority = 0;
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{queued, leased, claim(1)}, start_us));
  ledger.reset();
  change(path, back_to_version_2);

  ASSERT_EQ(try_open(path, {}).error().code, Code::internal);
  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies = ledger->apply(
      std::vector<Operation>{CancelJobs{tenant, {"queued"}, ""}, GiveBack{{1}, Blame::none, ""},
                             CancelJobs{tenant, {"leased"}, ""},
                             ReadStream{tenant, "results", "", 1, ""}},
      start_us);
  ASSERT_TRUE(replies);
  const auto& entries = std::get<ReadStreamReply>(*(*replies)[3]).entries;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_NE(entries[0].body.find("|hello|"), std::string::npos) << entries[0].body;
  EXPECT_NE(entries[1].body.find("|goodbye|"), std::string::npos) << entries[1].body;
}

TEST(SqliteMigration, JobsOfVersion5GetTheirCost) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob dear = job("dear"), cheap = job("cheap");
  dear.body = "costs 900";
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{dear, cheap}, start_us));
  ledger.reset();
  change(path, back_to_version_5);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies = ledger->apply(std::vector<Operation>{claim(2)}, start_us);
  ASSERT_TRUE(replies);
  const auto& jobs = std::get<ClaimReply>(*replies->front()).jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].cost_tokens, 900u);
  EXPECT_EQ(jobs[1].cost_tokens, 1u);
}

// Version 4 ran every suspect alone.
TEST(SqliteMigration, SuspectsOfVersion4RunAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  std::vector<Operation> operations;
  for (int i = 0; i < 8; ++i)
    operations.push_back(job(numbered("j", static_cast<std::uint64_t>(i))));
  operations.push_back(claim(8));
  operations.push_back(GiveBack{{1, 2, 3, 4, 5, 6, 7, 8}, Blame::died, ""});
  ASSERT_TRUE(ledger->apply(operations, start_us));
  ledger.reset();
  change(path, back_to_version_4);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies =
      ledger->apply(std::vector<Operation>{claim(8, true), GiveBack{{9}, Blame::died, ""},
                                           GetJob{tenant, "j0"}, Count{tenant, ""}},
                    start_us);
  ASSERT_TRUE(replies);
  const auto& given = std::get<ClaimReply>(*(*replies)[0]).jobs;
  ASSERT_EQ(given.size(), 1u);
  EXPECT_TRUE(given[0].alone);
  EXPECT_EQ(std::get<GetJobReply>(*(*replies)[2]).failures, 1u);
  const auto& suspects = std::get<CountReply>(*(*replies)[3]).suspects;
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_TRUE(suspects[0].alone);
  EXPECT_EQ(suspects[0].jobs, 8u);
}

std::string pragma(const std::string& path, const std::string& name) {
  sqlite3* db = nullptr;
  std::string out;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_exec(
      db, ("PRAGMA " + name).c_str(),
      [](void* to, int, char** columns, char**) {
        *static_cast<std::string*>(to) = columns[0];
        return 0;
      },
      &out, nullptr);
  sqlite3_close(db);
  return out;
}

// Earlier versions wrote the settings in a result in another form.
TEST(SqliteMigration, ALedgerOfAnEarlierVersionWithResultsIsRefusedUnchanged) {
  const std::vector<std::pair<std::string, const char*>> earlier{{"1", back_to_version_1},
                                                                 {"2", back_to_version_2}};
  for (const auto& [version, back] : earlier) {
    SCOPED_TRACE(version);
    const TemporaryFolder folder;
    const std::string path = folder.file("ledger");
    auto ledger = open(path);
    ASSERT_NE(ledger, nullptr);
    ASSERT_TRUE(ledger->apply(
        std::vector<Operation>{job("a"), claim(1), Finish{1, JobState::completed, "r", ""}},
        start_us));
    ledger.reset();
    change(path, back);
    const auto refused = try_open(path, read_columns);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::ledger_older);
    EXPECT_NE(refused.error().message.find("has version " + version), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find(path), std::string::npos);
    EXPECT_FALSE(refused.error().hint.empty());
    EXPECT_EQ(pragma(path, "user_version"), version)
        << "the program that wrote it can still open it";
    change(path, "DELETE FROM entries");
    EXPECT_NE(open(path), nullptr) << "without results it is migrated";
    EXPECT_EQ(pragma(path, "user_version"), std::to_string(ledger_version));
  }
}

// Version 3 did not know when a job ended, an entry was written or a cursor moved.
TEST(SqliteMigration, TheAgeOfWhatVersion3WroteCountsFromTheMigration) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const std::int64_t day_us = 86'400'000'000;
  ASSERT_TRUE(
      ledger->apply(std::vector<Operation>{job("done"), job("failed"), job("queued"), claim(2),
                                           Finish{1, JobState::completed, "0123456789", ""},
                                           Finish{2, JobState::failed, "01234", ""},
                                           MoveCursor{tenant, "results", "reader", 2}},
                    start_us));
  ledger.reset();
  change(path, back_to_version_3);
  ASSERT_EQ(pragma(path, "auto_vacuum"), "0");

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const RetentionPolicy day{{day_us, 0, day_us}, day_us};
  const auto apply = [&](std::int64_t at_us) {
    auto replies = ledger->apply(
        std::vector<Operation>{GetStream{tenant, "results"}, Retain{day}, Count{tenant, ""}},
        at_us);
    EXPECT_TRUE(replies);
    return *std::move(replies);
  };
  auto replies = apply(now_us);
  EXPECT_EQ(std::get<StreamReply>(*replies[0]).stream.bytes, 15u);
  EXPECT_EQ(std::get<RetainReply>(*replies[1]).entries, 0u) << "it is not old all at once";
  EXPECT_EQ(std::get<RetainReply>(*replies[1]).cursors, 0u);
  EXPECT_EQ(std::get<CountReply>(*replies[2]).counts, (JobCounts{1, 0, 1, 1, 0, 0}));
  replies = apply(now_us + 2 * day_us);
  EXPECT_EQ(std::get<RetainReply>(*replies[1]).entries, 2u);
  EXPECT_EQ(std::get<RetainReply>(*replies[1]).jobs, 2u);
  EXPECT_EQ(std::get<RetainReply>(*replies[1]).cursors, 1u);
  EXPECT_EQ(std::get<CountReply>(*replies[2]).counts, (JobCounts{1, 0, 0, 0, 0, 0}));
  ledger.reset();
  EXPECT_EQ(pragma(path, "auto_vacuum"), "2") << "the file can shrink";
}

}  // namespace
}  // namespace millrace::broker::test
