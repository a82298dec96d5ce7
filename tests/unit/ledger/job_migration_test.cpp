// What later versions know of jobs and batches begins in a sound state for those of earlier ones.
#include "tests/unit/ledger/earlier_versions.hpp"

namespace millrace::broker::test {
namespace {

// Version 11 did not know where the results of a batch begin.
TEST(SqliteMigration, TheResultsOfABatchOfVersion11BeginAnywhere) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("a", "old")}, start_us));
  ledger.reset();
  change(path, back_to_version_11);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies = ledger->apply(
      std::vector<Operation>{job("b", "old"), job("c", "new"), ListBatches{tenant, {}}}, start_us);
  ASSERT_TRUE(replies);
  const auto& batches = std::get<ListBatchesReply>(*(*replies)[2]).answer.batches;
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].batch, "new");
  EXPECT_TRUE(batches[0].stream == "results" && batches[0].first == 1);
  EXPECT_EQ(batches[1].batch, "old");
  EXPECT_TRUE(batches[1].stream.empty() && batches[1].first == 0);
}

// Version 10 counted all queued jobs alike.
TEST(SqliteMigration, TheReadyJobsOfVersion10AreCounted) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob later = job("later", "b1"), other = job("other", "b2");
  later.not_before_us = start_us + 100;
  other.model = "other";
  ASSERT_TRUE(
      ledger->apply(std::vector<Operation>{job("suspect"), claim(1), GiveBack{{1}, Blame::died, ""},
                                           later, other, job("a", "b1"), job("b", "b1"),
                                           job("c", "b2"), job("d"), Pause{tenant, "b2", ""}},
                    start_us));
  ledger.reset();
  change(path, back_to_version_10);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies = ledger->apply(
      std::vector<Operation>{ListTenants{}, Resume{tenant, "b2", ""}, Pause{tenant, "b1", ""}},
      start_us);
  ASSERT_TRUE(replies);
  EXPECT_EQ(std::get<ListTenantsReply>(*(*replies)[0]).tenants.at(0).ready, 3u) << "a, b and d";
  EXPECT_EQ(std::get<PauseReply>(*(*replies)[1]).ready, 5u);
  EXPECT_EQ(std::get<PauseReply>(*(*replies)[2]).ready, 3u) << "other, c and d";
}

// Version 9 did not know what prompts begin with.
TEST(SqliteMigration, TheQueueOfVersion9IsHandedOutInItsOrder) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob a = job("a"), b = job("b"), c = job("c"), d = job("d");
  a.prefix = c.prefix = 1;
  b.prefix = d.prefix = 2;
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{a, b}, start_us));
  ledger.reset();
  change(path, back_to_version_9);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  Claim of_two = claim(3);
  of_two.prefixes.own = {2};
  const auto replies = ledger->apply(std::vector<Operation>{c, d, of_two}, start_us);
  ASSERT_TRUE(replies);
  std::vector<std::string> given;
  for (const auto& one : std::get<ClaimReply>(*(*replies)[2]).jobs) given.push_back(one.job);
  EXPECT_EQ(given, (std::vector<std::string>{"a", "b", "d"}));
}

// In version 8 nothing could be paused.
TEST(SqliteMigration, NothingOfVersion8IsPaused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("a", "b1"), job("b", "b2")}, start_us));
  ledger.reset();
  change(path, back_to_version_8);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  auto replies = ledger->apply(
      std::vector<Operation>{Count{tenant, "b1"}, Pause{tenant, "b1", ""}, claim(5)}, start_us);
  ASSERT_TRUE(replies);
  EXPECT_FALSE(std::get<CountReply>(*(*replies)[0]).paused);
  ASSERT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.size(), 1u);
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs[0].job, "b");
  ledger.reset();
  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  replies =
      ledger->apply(std::vector<Operation>{claim(5), Resume{tenant, "b1", ""}, claim(5)}, start_us);
  ASSERT_TRUE(replies);
  EXPECT_TRUE(std::get<ClaimReply>(*(*replies)[0]).jobs.empty()) << "a pause outlives a restart";
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.size(), 1u);
}

// In version 7 a batch was a name that jobs had.
TEST(SqliteMigration, BatchesOfVersion7AreOpen) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("a", "b1"), job("n")}, start_us));
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("b", "b1"), job("c", "b2")}, start_us + 5));
  ledger.reset();
  change(path, back_to_version_7);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const auto replies = ledger->apply(
      std::vector<Operation>{ListBatches{tenant, {}}, UpdateBatch{tenant, {"b2", true, {}}},
                             CancelJobs{tenant, {"c"}, ""}},
      start_us + 9);
  ASSERT_TRUE(replies);
  const auto& listed = std::get<ListBatchesReply>(*(*replies)[0]).answer.batches;
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].batch, "b1");
  EXPECT_EQ(listed[0].created_us, start_us);
  EXPECT_EQ(listed[0].counts.queued, 2u);
  EXPECT_FALSE(listed[0].closed);
  EXPECT_EQ(std::get<CancelReply>(*(*replies)[2]).numbers.at(0).batch_number, 1u);
}

// Version 6 kept the error of a failed job in its entry alone.
TEST(SqliteMigration, FailedJobsOfVersion6AreListedAndRetried) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  const Error error{Code::invalid_token, "what", "why"};
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("failed"), job("waits"), claim(1),
                                                   Finish{1, JobState::failed, "r", "", error}},
                            start_us));
  ledger.reset();
  change(path, back_to_version_6);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  ListJobs failed{tenant, {}};
  failed.wanted.state = JobState::failed;
  const auto replies = ledger->apply(
      std::vector<Operation>{failed, RetryJobs{tenant, {"failed"}, ""}, claim(5)}, start_us);
  ASSERT_TRUE(replies);
  const auto& listed = std::get<ListJobsReply>(*(*replies)[0]).answer.jobs;
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].job, "failed");
  EXPECT_FALSE(listed[0].error) << "its entry tells it";
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.size(), 2u);
}

}  // namespace
}  // namespace millrace::broker::test
