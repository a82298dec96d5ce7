// What the core counts of jobs, by tenant.
#include <gtest/gtest.h>

#include "schemas/keys/grants.hpp"
#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Tally, CountsWhatBecomesOfJobs) {
  World w;
  w.join_engine("e", 8);
  w.submit(job_bodies(4));
  w.submit({job_body("j0"), "no job"});
  w.advance_ms(1'000);
  const auto leases = w.leases("e");
  ASSERT_EQ(leases.size(), 4u);
  Ends ends;
  ends.ends = {completed(leases[0].lease), completed(leases[1].lease), failed_end(leases[2].lease)};
  w.say(World::engine("e"), std::move(ends));
  w.say(World::client("c"), Cancel{{leases[3].job}, {}}, 8);
  w.say(World::engine("e"), Ends{{cancelled_end(leases[3].lease)}});
  w.say(World::client("c"), Retry{{leases[2].job}, {}}, 9);

  const auto& tenants = w.broker().tally().tenants();
  ASSERT_EQ(tenants.size(), 1u);
  const TenantTally& tally = tenants.at(default_tenant);
  EXPECT_EQ(tally.submitted, 4u);
  EXPECT_EQ(tally.known, 1u);
  EXPECT_EQ(tally.rejected, (std::map<Code, std::uint64_t>{{Code::malformed_frame, 1}}));
  EXPECT_EQ(tally.completed, 2u);
  EXPECT_EQ(tally.failed, (std::map<Code, std::uint64_t>{{Code::context_exceeded, 1}}));
  EXPECT_EQ(tally.cancelled, 1u);
  EXPECT_EQ(tally.retried, 1u);
  EXPECT_EQ(tally.handed_out, 5u);  // the retried job begins anew
  EXPECT_EQ(tally.queue_time.count, 5u);
}

TEST(Tally, CountsHowLongJobsWaitForTheirFirstHandOut) {
  World w;
  w.submit({job_body("j", "*")});  // for any model: no engine has joined yet
  w.advance_ms(5'000);
  w.join_engine("e", 1);
  ASSERT_EQ(w.leases("e").size(), 1u);
  const LatencyHistogram& waited = w.broker().tally().tenants().at(default_tenant).queue_time;
  EXPECT_EQ(waited.count, 1u);
  EXPECT_EQ(waited.sum_us, 5'000'000u);
}

TEST(Tally, CountsErrorsAfterWhichAJobRunsAgain) {
  World w;
  w.join_engine("e", 1);
  w.submit(job_bodies(1));
  const auto leases = w.leases("e");
  ASSERT_EQ(leases.size(), 1u);
  const JobEnd end{leases[0].lease, JobState::failed, {}, Error{Code::out_of_memory, "none", {}}};
  w.say(World::engine("e"), Ends{{end}});
  const TenantTally& tally = w.broker().tally().tenants().at(default_tenant);
  EXPECT_EQ(tally.run_again, 1u);
  EXPECT_TRUE(tally.failed.empty());
}

TEST(Tally, CountsLeasesThatLapse) {
  CoreConfig config;
  World w(config);
  w.join_engine("e", 2);
  w.submit(job_bodies(2));
  ASSERT_EQ(w.leases("e").size(), 2u);
  w.advance_ms(3 * std::int64_t{config.lease_ms});
  EXPECT_EQ(w.broker().counters().lapsed, 2u);
}

TEST(Tally, NamesOnlySoManyTenants) {
  Tally tally;
  for (std::size_t i = 0; i < Tally::tenants_named + 5; ++i) {
    ++tally.of("tenant-" + std::to_string(i)).submitted;
  }
  ++tally.of("tenant-0").submitted;
  ASSERT_EQ(tally.tenants().size(), Tally::tenants_named + 1);
  EXPECT_EQ(tally.tenants().at(Tally::other_tenants).submitted, 5u);
  EXPECT_EQ(tally.tenants().at("tenant-0").submitted, 2u);
  EXPECT_FALSE(check_tenant(Tally::other_tenants).has_value());
}

}  // namespace
}  // namespace millrace::broker::testing
