// What verify_ledger finds between the tables of a ledger: for each table, rows that are missing,
// rows that are too many, and rows that are wrong.
#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "tests/unit/ledger/earlier_versions.hpp"

namespace millrace::broker::test {
namespace {

// Jobs in each state, some of them in batches, one of which has ended; suspects, leases, a stream
// that was trimmed, and a cursor.
std::vector<Operation> filling() {
  SubmitJob late = job("late"), rare = job("rare", "open");
  late.not_before_us = start_us + 1'000'000;
  rare.model = "rare";
  return {job("done", "closed"),
          job("failed", "closed"),
          job("kept"),
          job("suspect"),
          claim(4),
          Finish{1, JobState::completed, "first", ""},
          Finish{2, JobState::failed, "second", ""},
          Finish{3, JobState::completed, "third", ""},
          GiveBack{{4}, Blame::died, ""},
          UpdateBatch{tenant, {"closed", true, {}}},
          job("leased", "open"),
          claim(1),
          job("a", "open"),
          job("b", "open"),
          job("cancelled"),
          late,
          rare,
          CancelJobs{tenant, {"cancelled"}, ""},
          MoveCursor{tenant, "results", "reader", 2},
          TrimStream{tenant, "results", 2},
          Retain{}};
}

std::string folder_with(const TemporaryFolder& folder, const std::string& damage) {
  const std::string path = folder.file(ledger_file);
  auto ledger = open(path);
  if (!ledger) return "";
  const auto replies = ledger->apply(filling(), start_us);
  EXPECT_TRUE(replies);
  if (replies) {
    for (const auto& reply : *replies) EXPECT_TRUE(reply) << reply.error().text();
  }
  ledger.reset();
  if (!damage.empty()) change(path, damage);
  return folder.file("");
}

struct Damage {
  const char* name;
  const char* sql;
  const char* says;
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.name;
}

constexpr const char* counts = "the counts of jobs do not match the jobs: ";
constexpr const char* ready = "the counts of ready jobs do not match the jobs: ";
constexpr const char* queue = "a job whose time has come is not in the queue: job a of";
constexpr const char* place = "a place in the queue is not that of a queued job: ";
constexpr const char* lease = "a lease is not that of a leased job: lease 5 of job leased of";
constexpr const char* end = "what is kept of its end, its start or its suspicion do not match: ";
constexpr const char* batch = "a batch has ended before its jobs or without its entry, or has not";
constexpr const char* result = "a job's result is not in its stream: job ";

constexpr Damage all_damage[] = {
    {"NoCounts", "DELETE FROM job_counts", counts},
    {"NoCountsOfABatch", "DELETE FROM job_counts WHERE batch = 'open'", counts},
    {"WrongCountsOfBatches", "UPDATE job_counts SET jobs = 9 WHERE batch <> ''", counts},
    {"WrongCountsOfATenant", "UPDATE job_counts SET jobs = 9 WHERE batch = ''", counts},
    {"CountsOfNoJobs", "INSERT INTO job_counts VALUES ('nobody', '', 0, 1)", counts},
    {"NoCountsOfReadyJobs", "DELETE FROM ready_counts", ready},
    {"WrongCountsOfReadyJobs", "UPDATE ready_counts SET jobs = 9 WHERE batch <> ''", ready},
    {"CountsOfNoReadyJobs", "INSERT INTO ready_counts VALUES ('default', '', 'm', '', 1)", ready},
    {"APauseThatTheCountsDoNotKnow", "UPDATE batches SET paused = 1 WHERE batch = 'open'", ready},
    {"NoBatches", "DELETE FROM batches", "a job belongs to a batch that does not exist: batch "},
    {"ABatchWithoutJobs",
     "INSERT INTO batches SELECT tenant, 'none', 1, 0, NULL, 0, x'', 0, '', 0 FROM batches LIMIT 1",
     "a batch has no jobs: batch none of tenant default"},
    {"ABatchThatEndedTooEarly",
     "UPDATE batches SET finished_us = 1, number = 1 WHERE batch = 'open'", batch},
    {"ABatchThatDidNotEnd",
     "UPDATE batches SET finished_us = NULL, number = 0 WHERE batch = 'closed'", batch},
    {"NoQueue", "DELETE FROM queue", queue},
    {"ASuspectInTheQueueOfOthers", "UPDATE queue SET suspect = 0", "is not in the queue: job sus"},
    {"AnotherPriority", "UPDATE queue SET priority = 0 WHERE job = 'a'", queue},
    {"AnotherDeadline", "UPDATE queue SET deadline_us = 1 WHERE job = 'a'", place},
    {"APlaceWithoutAJob",
     "INSERT INTO queue VALUES ('default', 0, 'model', '', 1, 99, 'none', NULL, 0)", place},
    {"APlaceOfAJobThatEnded",
     "INSERT INTO queue VALUES ('default', 0, 'model', '', 1, 99, 'done', NULL, 0)", place},
    {"APlaceOfAJobThatWaits",
     "INSERT INTO queue SELECT tenant, 0, model, kv, priority, sequence, job, NULL, 0 FROM jobs "
     "WHERE job = 'late'",
     place},
    {"NoLeases", "DELETE FROM leases", "a leased job and its lease do not match: job leased of"},
    {"ALeaseWithoutAJob", "INSERT INTO leases SELECT 3, tenant, 'none', '', 1, 0 FROM leases",
     "a lease is not that of a leased job: lease 3 of job none of"},
    {"ALeaseOfAJobThatEnded", "UPDATE leases SET job = 'done'", "lease 5 of job done of"},
    {"ALeaseWithoutATenant", "UPDATE leases SET tenant = 'nobody'", "of tenant nobody"},
    {"ALeasedJobWithAnother", "UPDATE jobs SET lease = 9 WHERE job = 'leased'", lease},
    {"ALeaseOfAQueuedJob", "UPDATE jobs SET lease = 5 WHERE job = 'a'", "its lease do not match: "},
    {"AnUnknownState", "UPDATE jobs SET state = 6 WHERE job = 'done'", end},
    {"AnEndWithoutATime", "UPDATE jobs SET ended_us = NULL WHERE job = 'done'", end},
    {"AnEndWithoutAResult", "UPDATE jobs SET number = 0 WHERE job = 'done'", end},
    {"AStartOfAJobThatEnded", "UPDATE jobs SET start_us = 1 WHERE job = 'done'", end},
    {"ASuspectAmongNone", "UPDATE jobs SET among = 0 WHERE job = 'suspect'", end},
    {"NoBodyOfAQueuedJob",
     "DELETE FROM job_bodies WHERE sequence = (SELECT sequence FROM jobs WHERE job = 'a')",
     "has no body: job a of"},
    {"NoBodyOfALeasedJob",
     "DELETE FROM job_bodies WHERE sequence = (SELECT sequence FROM jobs WHERE job = 'leased')",
     "has no body: job leased of"},
    {"NoBodyOfAFailedJob",
     "DELETE FROM job_bodies WHERE sequence = (SELECT sequence FROM jobs WHERE job = 'failed')",
     "has no body: job failed of"},
    {"ABodyOfAJobThatIsGone",
     "UPDATE job_counts SET jobs = jobs - 1 WHERE state = 3;"
     "DELETE FROM jobs WHERE job = 'failed'",
     "there are bodies that no job needs: tenant default"},
    {"AGapInAStream", "DELETE FROM entries WHERE number = 3 AND stream = 'results'",
     "a stream has gaps: stream results of tenant default"},
    {"NoStreams", "DELETE FROM streams", "results belong to no stream, or lie outside of it: "},
    {"AShorterStream", "UPDATE streams SET high = 3 WHERE stream = 'results'",
     "results belong to no stream, or lie outside of it: stream results of"},
    {"OtherBytesOfAStream", "UPDATE streams SET bytes = bytes + 1",
     "a stream's bytes are not those of its results: stream "},
    {"AFirstNumberPastTheEnd", "UPDATE streams SET first = high + 2",
     "a stream's first number lies outside of it: stream "},
    {"ACursorPastTheEnd", "UPDATE cursors SET number = 99",
     "a cursor belongs to no stream, or lies behind its end: cursor reader of stream results of"},
    {"ACursorOfNoStream", "UPDATE cursors SET stream = 'none'",
     "a cursor belongs to no stream, or lies behind its end: cursor reader of stream none of"},
    {"AResultOfAnotherJob", "UPDATE entries SET job = 'a' WHERE number = 3", result},
    {"AResultThatIsNotWrittenYet", "UPDATE jobs SET number = 99 WHERE job = 'done'", result},
    {"AResultOfTwoJobs", "UPDATE jobs SET number = 1 WHERE number = 2",
     "two jobs have one result: result 1 of stream results of tenant default"},
    {"AnOldPlace", "UPDATE counters SET value = 2 WHERE name = 'next_sequence'",
     "a counter lies behind what it has numbered: next_sequence"},
    {"AnOldLease", "UPDATE counters SET value = 5 WHERE name = 'next_lease'",
     "a counter lies behind what it has numbered: next_lease"},
    {"NoCounters", "DELETE FROM counters", "a counter lies behind what it has numbered: next_"},
    {"NoEpoch", "DELETE FROM meta WHERE name = 'epoch'", "the ledger has no epoch"},
};

class VerifyFinds : public testing::TestWithParam<Damage> {};
INSTANTIATE_TEST_SUITE_P(Each, VerifyFinds, testing::ValuesIn(all_damage),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(VerifyFinds, Damage) {
  const TemporaryFolder folder;
  const auto report = verify_ledger(folder_with(folder, GetParam().sql));
  ASSERT_FALSE(report) << "it is called sound";
  EXPECT_EQ(report.error().code, Code::ledger_corrupt);
  EXPECT_NE(report.error().message.find(GetParam().says), std::string::npos)
      << report.error().text();
}

TEST(Verify, ASoundLedgerIsSoundAndEachBrokenRuleIsTold) {
  const TemporaryFolder folder;
  const std::string place = folder_with(folder, "");
  const auto report = verify_ledger(place);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->jobs, 10u);
  EXPECT_EQ(report->results, 4u) << "one was trimmed, and one tells the end of a batch";
  EXPECT_EQ(report->streams, 2u);
  change(folder.file(ledger_file), "DELETE FROM job_counts; DELETE FROM leases");
  const auto broken = verify_ledger(place);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find(counts), std::string::npos);
  EXPECT_NE(broken.error().message.find("its lease do not match"), std::string::npos);
}

// What no reader of the tables sees, the ledger does.
TEST(DamagedLedger, DamagedMetadataOfABatchStopsIt) {
  const TemporaryFolder folder;
  const std::string path = folder_with(folder, "UPDATE batches SET metadata = x'00'") + ledger_file;
  const auto ledger = open(path);
  ASSERT_TRUE(ledger);
  const std::vector<Operation> close{UpdateBatch{tenant, {"open", true, {}}}};
  const auto replies = ledger->apply(close, start_us);
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, Code::ledger_corrupt);
  EXPECT_TRUE(replies.error().message.contains("the metadata of batch 'open' is damaged"))
      << replies.error().text();
}

}  // namespace
}  // namespace millrace::broker::test
