// Ledgers that earlier versions wrote (tests/golden/ledgers), each opened by today's: its tables
// become those of a fresh ledger, it is sound, and all its jobs can be handed out and end.
#include <sqlite3.h>

#include <fstream>
#include <sstream>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/sqlite_schema.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "tests/golden/ledgers/fill_ledger.hpp"
#include "tests/unit/ledger/earlier_versions.hpp"

namespace millrace::broker::test {
namespace {

// No commit of this repository wrote version 7: version 8 came with it. The last one is written by
// the program itself.
constexpr int written[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, ledger_version};
static_assert(written[std::size(written) - 2] == ledger_version - 1,
              "tests/golden/ledgers/README.md tells how to make the ledger of the version before");

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  Rows out;
  const auto take = [](void* to, int columns, char** texts, char**) {
    auto& row = static_cast<Rows*>(to)->emplace_back();
    for (int i = 0; i < columns; ++i) row.emplace_back(texts[i] == nullptr ? "" : texts[i]);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), take, &out, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
  return out;
}

std::uint64_t number_of(const std::string& path, const std::string& sql) {
  const Rows rows = rows_of(path, sql);
  return rows.empty() ? 0 : std::stoull(rows[0].at(0));
}

// The statements that made the tables and indexes, without line breaks and runs of spaces. The time
// of a migration stands in some of them, as the default of a column, and is left out.
std::string schema_of(const std::string& path) {
  std::string out;
  for (const auto& row : rows_of(path, "SELECT name, sql FROM sqlite_master ORDER BY 1")) {
    std::istringstream words(row[1]);
    out += row[0] + ":";
    for (std::string word, last; words >> word; last = word) {
      const bool time = last == "DEFAULT" && word.size() > 12;
      out += time ? " TIME" + word.substr(word.find_last_of("0123456789") + 1) : " " + word;
    }
    out += "\n";
  }
  return out;
}

class WrittenLedger : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() == ledger_version) {
      const auto ledger = open(path_);
      ASSERT_NE(ledger, nullptr);
      const auto filled = filled::fill(*ledger);
      ASSERT_TRUE(filled) << filled.error().text();
      return;
    }
    const std::string dump =
        MILLRACE_SOURCE_DIR "/tests/golden/ledgers/v" + std::to_string(GetParam()) + ".sql";
    std::ostringstream text;
    text << std::ifstream(dump).rdbuf();
    ASSERT_FALSE(text.str().empty()) << dump;
    change(path_, text.str());
  }

  void expect_sound(std::uint64_t jobs) {
    const auto report = verify_ledger(folder_.file(""));
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ(report->version, ledger_version);
    EXPECT_EQ(report->jobs, jobs);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file(ledger_file);
};
INSTANTIATE_TEST_SUITE_P(OfVersion, WrittenLedger, testing::ValuesIn(written),
                         testing::PrintToStringParamName());

TEST_P(WrittenLedger, GetsTheTablesOfAFreshOne) {
  EXPECT_EQ(number_of(path_, "PRAGMA user_version"), static_cast<std::uint64_t>(GetParam()));
  const std::string fresh = folder_.file("fresh");
  ASSERT_NE(open(path_), nullptr);
  ASSERT_NE(open(fresh), nullptr);
  EXPECT_EQ(schema_of(path_), schema_of(fresh));
}

TEST_P(WrittenLedger, IsSoundAndKeepsWhatItHolds) {
  const auto table = [&](const std::string& name, const std::string& columns) {
    return rows_of(path_, "SELECT " + columns + " FROM " + name + " ORDER BY 1, 2, 3");
  };
  const auto kept = [&] {
    return std::vector<Rows>{
        table("jobs",
              "tenant, job, sequence, hash, custom_id, model, stream, batch, priority, "
              "deadline_us, submitted_us, state, attempts, failures, suspect_us, cancel, "
              "number, lease"),
        table("job_bodies", "tenant, sequence, checksum, body"),
        table("queue", "tenant, job, model, priority, sequence, deadline_us, suspect > 0"),
        table("leases", "lease, tenant, job, engine, until_us, alone"),
        table("streams", "tenant, stream, first, high"),
        table("entries", "tenant, stream, number, job, checksum, body"),
        table("cursors", "tenant, stream, cursor, number"),
        table("meta", "name, value, ''"),
        table("counters", "name, value, ''")};
  };
  const auto before = kept();
  ASSERT_NE(open(path_), nullptr);
  EXPECT_EQ(kept(), before);
  expect_sound(before[0].size());
}

// Ends all jobs, those of all tenants, models, policies and batches.
class Finishing {
 public:
  explicit Finishing(Ledger& ledger) : ledger_(ledger) {}

  std::uint64_t run() {
    std::vector<LeaseId> leases;
    const auto found = ask<FindLapsedReply>(FindLapsed{0, {}, true});
    for (const auto& lease : found.leases) leases.push_back(lease.lease);
    (void)ask<GiveBackReply>(GiveBack{leases, Blame::none, ""});
    for (const std::string who : {"default", "other"}) {
      (void)ask<RetryReply>(RetryJobs{who, {"failed-1", "failed-2"}, ""});
      for (const char* model : {"", "rare"}) (void)ask<PauseReply>(Resume{who, "", model});
      (void)ask<PauseReply>(Resume{who, "paused", ""});
      (void)ask<StartReply>(StartJobs{who});
      while (end_some(who) > 0) {
      }
    }
    return ended_;
  }
  template <class T>
  T ask(const Operation& operation) {
    const auto replies = ledger_.apply(std::vector<Operation>{operation}, now);
    EXPECT_TRUE(replies);
    if (!replies || !replies->front()) return T{};
    return std::get<T>(*replies->front());
  }

 private:
  static constexpr std::int64_t now = filled::filled_us + 120'000'000;

  std::size_t end_some(const std::string& who) {
    std::size_t given = 0;
    for (const ClaimFrom from : {ClaimFrom::jobs, ClaimFrom::suspects}) {
      for (const char* model : {"model", "rare"}) {
        Claim claims{who, "late", model, 100, now + 1'000'000, from};
        claims.kv = {"r5/r3"};
        for (const ClaimedJob& job : ask<ClaimReply>(claims).jobs) {
          EXPECT_EQ(job.cost_tokens, job.job == "costs" ? 900u : 1u) << job.job;
          const auto end = ask<FinishReply>(Finish{job.lease, JobState::completed, "late", "late"});
          EXPECT_GT(end.number, 0u) << job.job;
          ++given;
        }
      }
    }
    ended_ += given;
    return given;
  }

  Ledger& ledger_;
  std::uint64_t ended_ = 0;
};

TEST_P(WrittenLedger, LetsAllItsJobsEnd) {
  const auto jobs = [&](const std::string& which) {
    return number_of(path_, "SELECT count(*) FROM jobs WHERE " + which);
  };
  const std::uint64_t all = jobs("1"), open_jobs = jobs("state IN (0, 1, 3)");
  const std::uint64_t to_cancel = jobs("state = 1 AND cancel"), cancelled = jobs("state = 4");
  ASSERT_GT(jobs("state = 0"), 0u);
  ASSERT_GT(jobs("state = 1"), 0u);
  ASSERT_GT(to_cancel, 0u);
  ASSERT_EQ(jobs("state = 3"), 2u);
  {
    const auto ledger = open(path_);
    ASSERT_NE(ledger, nullptr);
    Finishing finishing(*ledger);
    EXPECT_EQ(finishing.run(), open_jobs - to_cancel);
    JobCounts counts = finishing.ask<CountReply>(Count{"default", ""}).counts;
    const auto others = finishing.ask<CountReply>(Count{"other", ""}).counts;
    EXPECT_EQ(others, (JobCounts{0, 0, 2, 0, 0, 0}));
    EXPECT_EQ(counts, (JobCounts{0, 0, all - cancelled - to_cancel - 1 - others.completed, 0,
                                 cancelled + to_cancel, 1}));
    const auto of_batch = finishing.ask<CountReply>(Count{"default", "open"}).counts;
    EXPECT_EQ(of_batch, (JobCounts{0, 0, 5, 0, 0, 0}));
    for (const auto& one : finishing.ask<ListTenantsReply>(ListTenants{}).tenants) {
      EXPECT_EQ(one.ready, 0u) << one.tenant;
      EXPECT_TRUE(one.suspects.empty()) << one.tenant;
    }
  }
  expect_sound(all);
}

}  // namespace
}  // namespace millrace::broker::test
