// The page of a broker's metrics, and the survey that fills it.
#include "broker/server/broker_metrics.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "broker/core/results.hpp"
#include "broker/ledger/memory_ledger.hpp"
#include "broker/server/measuring.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

std::unique_ptr<Ledger> ledger() {
  MemoryStoreOptions options;
  options.publish = published_end;
  return make_memory_ledger(make_memory_store(std::move(options)));
}

SubmitJob job(const std::string& id, const std::string& tenant, const std::string& batch = {}) {
  SubmitJob out;
  out.tenant = tenant;
  out.id = out.hash = id;
  out.model = "m";
  out.stream = "results";
  out.batch = batch;
  out.body = "body";
  return out;
}

LedgerMeasures survey_of(Ledger& ledger, std::int64_t now_us) {
  Survey survey;
  for (std::optional<LedgerRequest> request = survey.begin(); request;) {
    EXPECT_TRUE(Survey::owns(request->ticket));
    EXPECT_TRUE(survey.running());
    request = survey.completed({request->ticket, *ledger.apply(request->operations, now_us)});
  }
  EXPECT_FALSE(survey.running());
  return *survey.take();
}

TEST(Survey, FindsJobsBatchesStreamsAndCursorsOfEachTenant) {
  const auto held = ledger();
  Claim claim;
  claim.tenant = "a";
  claim.engine = "e";
  claim.model = "m";
  claim.max_jobs = 1;
  claim.until_us = 1'000'000'000;
  const std::vector<Operation> first{job("1", "a"), claim};
  const auto replies = *held->apply(first, 1'000'000);
  const LeaseId lease = std::get<ClaimReply>(*replies[1]).jobs.at(0).lease;
  const std::vector<Operation> second{
      Finish{lease, JobState::completed, encode_generation({}), "e"},
      MoveCursor{"a", "results", "reader", 1}, job("2", "a", "batch")};
  ASSERT_TRUE(held->apply(second, 2'000'000).has_value());
  const std::vector<Operation> third{job("3", "a"), job("1", "b")};
  ASSERT_TRUE(held->apply(third, 3'000'000).has_value());

  const LedgerMeasures found = survey_of(*held, 5'000'000);
  EXPECT_EQ(found.tenants, 2u);
  ASSERT_EQ(found.listed.size(), 2u);
  const TenantMeasures& a = found.listed[0];
  EXPECT_EQ(a.tenant, "a");
  EXPECT_EQ(a.jobs, (JobCounts{2, 0, 1, 0, 0, 0}));
  EXPECT_EQ(a.oldest_us, 2'000'000);
  EXPECT_EQ(a.batches, (BatchCounts{1, 0, 0, 0}));
  ASSERT_EQ(a.streams.size(), 1u);
  EXPECT_EQ(a.streams[0].stream.stream, "results");
  EXPECT_EQ(a.streams[0].stream.high, 1u);
  ASSERT_EQ(a.streams[0].cursors.size(), 1u);
  EXPECT_EQ(a.streams[0].cursors[0].number, 1u);
  EXPECT_EQ(found.listed[1].oldest_us, 3'000'000);
  EXPECT_TRUE(found.listed[1].streams.empty());
}

TEST(Survey, OfAnEmptyLedgerFindsNothing) {
  const auto held = ledger();
  const LedgerMeasures found = survey_of(*held, 1);
  EXPECT_EQ(found.tenants, 0u);
}

TEST(Survey, CountsPausedJobsAsNobodyElsesDelay) {
  const auto held = ledger();
  const std::vector<Operation> operations{job("1", "a"), Pause{"a", "", "m"}};
  ASSERT_TRUE(held->apply(operations, 1'000'000).has_value());
  const LedgerMeasures found = survey_of(*held, 2'000'000);
  EXPECT_EQ(found.listed.at(0).jobs.queued, 1u);
  EXPECT_FALSE(found.listed[0].oldest_us.has_value());
}

TEST(Survey, ListsOnlySoManyTenants) {
  const auto held = ledger();
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < Tally::tenants_named + 5; ++i) {
    operations.emplace_back(job("1", "tenant-" + std::to_string(i)));
  }
  ASSERT_TRUE(held->apply(operations, 1).has_value());
  const LedgerMeasures found = survey_of(*held, 2);
  EXPECT_EQ(found.tenants, operations.size());
  EXPECT_EQ(found.listed.size(), Tally::tenants_named);
}

TEST(Measuring, AnswersAllWhoAskBeforeTheSurveyBegan) {
  const auto held = ledger();
  Measuring measuring;
  EXPECT_FALSE(measuring.begin().has_value());
  int answers = 0;
  const auto count = [&](const Result<Measures>& measures) {
    ASSERT_TRUE(measures.has_value());
    EXPECT_EQ(measures->now_us, 7);
    ++answers;
  };
  measuring.want(count);
  measuring.want(count);
  auto request = measuring.begin();
  measuring.want(count);  // it waits for the next survey
  EXPECT_FALSE(measuring.begin().has_value());
  const auto rest = [] {
    Measures measures;
    measures.now_us = 7;
    return measures;
  };
  while (request) {
    request = measuring.completed({request->ticket, *held->apply(request->operations, 1)}, rest);
  }
  EXPECT_EQ(answers, 2);
  EXPECT_TRUE(measuring.begin().has_value());
}

TEST(Measuring, TellsThatTheLedgerHasRefused) {
  const auto held = ledger();
  ASSERT_TRUE(held->apply(std::vector<Operation>{job("1", "a")}, 1).has_value());
  Measuring measuring;
  const auto rest = [] { return Measures(); };
  const Error broken{Code::io_error, "the disk does not answer", {}};
  for (int good = 0; good < 2; ++good) {  // requests that are answered before the broken one
    std::vector<Code> codes;
    measuring.want([&](const Result<Measures>& measures) {
      codes.push_back(measures ? Code::internal : measures.error().code);
    });
    auto request = measuring.begin();
    for (int i = 0; i < good && request; ++i) {
      request = measuring.completed({request->ticket, *held->apply(request->operations, 1)}, rest);
    }
    ASSERT_TRUE(request.has_value());
    std::vector<Result<Reply>> replies(request->operations.size(), fail(broken));
    EXPECT_FALSE(measuring.completed({request->ticket, std::move(replies)}, rest).has_value());
    EXPECT_EQ(codes, std::vector{Code::io_error});
  }
  int answers = 0;
  measuring.want([&](const Result<Measures>& measures) {
    if (measures) ++answers;
  });
  for (auto request = measuring.begin(); request;) {
    request = measuring.completed({request->ticket, *held->apply(request->operations, 1)}, rest);
  }
  EXPECT_EQ(answers, 1);  // the next page has everything again
}

TEST(Measuring, TellsAllThatTheBrokerHasEnded) {
  Measuring measuring;
  std::vector<Code> codes;
  const auto take = [&](const Result<Measures>& measures) {
    ASSERT_FALSE(measures.has_value());
    codes.push_back(measures.error().code);
  };
  measuring.want(take);
  ASSERT_TRUE(measuring.begin().has_value());
  measuring.want(take);
  measuring.refuse({Code::draining, "the broker has ended", {}});
  EXPECT_EQ(codes, (std::vector{Code::draining, Code::draining}));
}

Measures full_measures() {
  Measures out;
  out.now_us = 10'000'000;
  TenantTally& tally = out.tally.of("a");
  tally.submitted = 3;
  tally.failed[Code::context_exceeded] = 2;
  tally.rejected[Code::unknown_model] = 1;
  tally.queue_time.add(1'500'000);
  TenantMeasures& held = out.held.listed.emplace_back();
  held.tenant = "a";
  held.jobs.queued = 5;
  held.oldest_us = 4'000'000;
  held.waiting = {{"m", 5, 700}};
  out.leased_tokens["m"] = 90;
  StreamInfo stream;
  stream.stream = "results";
  stream.high = 9;
  held.streams.push_back({stream, {{"reader", 4, 0}}});
  out.store = StoreMeasures{1, 2, 3};
  out.ledger.batch.add(1);
  out.ledger.batch.add(4);
  return out;
}

TEST(BrokerMetrics, ShowValuesWithTheirLabels) {
  const std::string page = metrics_page(full_measures());
  for (const char* const line : {
           "millrace_jobs{tenant=\"a\",state=\"queued\"} 5\n",
           "millrace_jobs_submitted_total{tenant=\"a\"} 3\n",
           "millrace_jobs_failed_total{tenant=\"a\",reason=\"context_exceeded\"} 2\n",
           "millrace_jobs_rejected_total{tenant=\"a\",reason=\"unknown_model\"} 1\n",
           "millrace_queue_oldest_age_seconds{tenant=\"a\"} 6\n",
           "millrace_queue_jobs{tenant=\"a\",model_name=\"m\"} 5\n",
           "millrace_queue_tokens{tenant=\"a\",model_name=\"m\"} 700\n",
           "millrace_leased_tokens{model_name=\"m\"} 90\n",
           "millrace_queue_time_seconds_count{tenant=\"a\"} 1\n",
           "millrace_queue_time_seconds_sum{tenant=\"a\"} 1.5\n",
           "millrace_queue_time_seconds_bucket{tenant=\"a\",le=\"1.048576\"} 0\n",
           "millrace_queue_time_seconds_bucket{tenant=\"a\",le=\"4.194304\"} 1\n",
           "millrace_queue_time_seconds_bucket{tenant=\"a\",le=\"+Inf\"} 1\n",
           "millrace_store_commit_ops_bucket{le=\"1\"} 1\n",
           "millrace_store_commit_ops_bucket{le=\"3\"} 1\n",
           "millrace_store_commit_ops_bucket{le=\"7\"} 2\n",
           "millrace_cursor_lag{tenant=\"a\",stream=\"results\",consumer=\"reader\"} 5\n",
           "millrace_store_wal_bytes 2\n",
           "# TYPE millrace_jobs_submitted_total counter\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
}

TEST(BrokerMetrics, ShowNoCountersOfTenantsThatAreCountedAmongTheOthers) {
  Measures measures;
  for (std::size_t i = 1; i < Tally::tenants_named; ++i) {
    measures.tally.of("counted-" + std::to_string(i)).submitted = 1;
  }
  for (const char* const tenant : {"first", "second"}) {
    measures.held.listed.emplace_back().tenant = tenant;
  }
  const std::string page = metrics_page(measures);
  EXPECT_NE(page.find("millrace_jobs_submitted_total{tenant=\"first\"} 0\n"), std::string::npos);
  EXPECT_EQ(page.find("millrace_jobs_submitted_total{tenant=\"second\"}"), std::string::npos);
  EXPECT_NE(page.find("millrace_jobs{tenant=\"second\""), std::string::npos);
  ++measures.tally.of("first").submitted;
  ++measures.tally.of("second").submitted;
  EXPECT_EQ(measures.tally.room(), 0u);
  EXPECT_EQ(metrics_page(measures).find("millrace_jobs_submitted_total{tenant=\"second\"}"),
            std::string::npos);
}

// Every metric of the list has a value on a page of a broker that has seen something.
TEST(BrokerMetrics, AllHaveValues) {
  const std::string page = metrics_page(full_measures());
  for (const metrics::Metric* const metric : broker_metrics()) {
    const std::string described = std::string("# TYPE ") + metric->name + " " +
                                  std::string(metrics::kind_name(metric->kind)) + "\n" +
                                  metric->name;
    EXPECT_NE(page.find(described), std::string::npos) << described;
  }
}

}  // namespace
}  // namespace millrace::broker
