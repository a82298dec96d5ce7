// Several brokers on one store: whose leases are whose, and what one hears of the others.
#include <optional>

#include "tests/unit/ledger/faulty_store.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::int64_t long_us = 60'000'000;

class BrokersTest : public testing::TestWithParam<Kind> {
 protected:
  BrokersTest() {
    if (GetParam() == Kind::postgres) schema.emplace();
  }
  std::unique_ptr<Ledger> open(const std::string& broker) {
    if (!schema) return make_stored_ledger(make_memory_handle(memory, broker), {publish});
    PostgresLedgerOptions options;
    options.schema = schema->name();
    options.broker = broker;
    auto store = open_postgres_store(millrace::test::postgres_url(), std::move(options));
    EXPECT_TRUE(store) << store.error().text();
    return make_stored_ledger(*std::move(store), {publish});
  }
  template <class R>
  static R ask(Ledger& ledger, Operation operation) {
    const auto replies = ledger.apply(std::span(&operation, 1), start_us);
    EXPECT_TRUE(replies) << replies.error().text();
    EXPECT_TRUE(replies->front()) << replies->front().error().text();
    return std::get<R>(*replies->front());
  }
  static std::uint64_t beat(Ledger& ledger, std::int64_t alive_us = long_us) {
    return ask<BeatReply>(ledger, BeatBroker{alive_us}).others;
  }
  static LeaseId lease(Ledger& ledger, const std::string& id) {
    ask<SubmitReply>(ledger, job(id, "b"));
    return ask<ClaimReply>(ledger, claim(1)).jobs.at(0).lease;
  }
  // The leases that the broker may take back, and whether it may take this one.
  static bool finds(Ledger& ledger, LeaseId lease) {
    const auto all = ask<FindLapsedReply>(ledger, FindLapsed{0, {}, true}).leases;
    return std::ranges::any_of(all, [&](const LapsedLease& one) { return one.lease == lease; });
  }
  static std::size_t takes(Ledger& ledger, LeaseId lease) {
    GiveBack give{{lease}, Blame::none, "engine"};
    give.only_own = true;
    return ask<GiveBackReply>(ledger, give).returned.size();
  }
  std::string news(Ledger& ledger) {
    const auto reply = ask<NewsReply>(ledger, ReadNews{marks});
    marks = reply.marks;
    std::string out;
    for (const News& one : reply.news) {
      out += std::to_string(static_cast<int>(one.kind)) + " " + one.tenant + "/" + one.name + " " +
             std::to_string(one.number) + "\n";
    }
    return out;
  }

  const std::shared_ptr<MemoryStore> memory = make_memory_store({publish, ""});
  std::optional<PostgresSchema> schema;
  NewsMarks marks;
};

INSTANTIATE_TEST_SUITE_P(Ledgers, BrokersTest, testing::Values(Kind::memory, Kind::postgres),
                         kind_name);

TEST_P(BrokersTest, ABrokerCountsTheOthersThatLive) {
  const auto one = open("one"), also_one = open("one"), two = open("two"), nobody = open("");
  EXPECT_EQ(beat(*one), 0u);
  EXPECT_EQ(beat(*also_one), 0u);
  EXPECT_EQ(beat(*two), 1u);
  EXPECT_EQ(beat(*one), 1u);
  EXPECT_EQ(beat(*nobody), 0u);
  EXPECT_EQ(beat(*two, 0), 1u);  // it leaves
  EXPECT_EQ(beat(*one), 0u);
}

TEST_P(BrokersTest, LeasesOfABrokerThatLivesAreLeftToIt) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  beat(*two);
  const LeaseId held = lease(*one, "a");
  EXPECT_TRUE(finds(*one, held));
  EXPECT_FALSE(finds(*two, held));
  EXPECT_TRUE(ask<FindLapsedReply>(*two, FindLapsed{INT64_MAX, {"engine"}}).leases.empty());
  EXPECT_EQ(takes(*two, held), 0u);
  beat(*one, 0);
  EXPECT_TRUE(finds(*two, held));
  EXPECT_EQ(takes(*two, held), 1u);
}

TEST_P(BrokersTest, ALeaseFollowsTheBrokerThatRenewsIt) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  beat(*two);
  const LeaseId held = lease(*one, "a");
  EXPECT_TRUE(ask<RenewReply>(*two, Renew{"engine", {held}, start_us}).lost.empty());
  EXPECT_FALSE(finds(*one, held));
  EXPECT_EQ(takes(*one, held), 0u);
  EXPECT_TRUE(finds(*two, held));
  // Whoever brings the engine's end ends the job.
  EXPECT_EQ(ask<FinishReply>(*one, Finish{held, JobState::completed, "r", "engine"}).number, 1u);
}

TEST_P(BrokersTest, AnEngineMayReleaseALeaseAtAnyBroker) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  const LeaseId held = lease(*one, "a");
  const auto back = ask<GiveBackReply>(*two, GiveBack{{held}, Blame::none, "engine"});
  EXPECT_EQ(back.returned, std::vector<std::string>{"a"});
}

TEST_P(BrokersTest, ABrokerHearsWhatTheOthersCommitAndOnlyOnce) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  beat(*two);
  news(*two);
  const auto replies = one->apply(
      std::vector<Operation>{job("a", "b"), job("b", "b"), job("c", "b"), claim(2)}, start_us);
  ASSERT_TRUE(replies) << replies.error().text();
  EXPECT_EQ(news(*two), "1 default/ 3\n");
  EXPECT_EQ(news(*two), "");
  const auto leased = std::get<ClaimReply>(*replies->at(3)).jobs;
  ask<FinishReply>(*one, Finish{leased[0].lease, JobState::completed, "r", "engine"});
  EXPECT_EQ(news(*two), "0 default/results 1\n");
  // The lease was handed out by the one, and a client of the two cancels it.
  marks.clear();
  news(*one);
  ask<CancelReply>(*two, CancelJobs{tenant, {leased[1].job}, ""});
  EXPECT_EQ(news(*one), "3 default/engine " + std::to_string(leased[1].lease) + "\n");
}

TEST_P(BrokersTest, NobodyTellsNewsWhileNobodyListens) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  lease(*one, "a");
  beat(*two);
  EXPECT_EQ(news(*two), "");
  lease(*one, "b");
  EXPECT_EQ(news(*two), "1 default/ 1\n");
  EXPECT_EQ(news(*one), "");
}

TEST_P(BrokersTest, ReadersOfTheStreamOfBatchesHearOfTheirEnds) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  beat(*two);
  const LeaseId held = lease(*one, "a");
  ChangeBatch close;
  close.batch = "b";
  close.close = true;
  ask<UpdateBatchReply>(*one, UpdateBatch{tenant, close});
  news(*two);
  ask<FinishReply>(*one, Finish{held, JobState::completed, "r", "engine"});
  EXPECT_EQ(news(*two), "0 default/batches 1\n0 default/results 1\n");
}

TEST_P(BrokersTest, WhatWasRefusedIsNotTold) {
  const auto one = open("one"), two = open("two");
  beat(*one);
  beat(*two);
  lease(*one, "a");
  news(*two);
  SubmitJob other = job("a", "b");
  other.hash = "another";
  const auto replies = one->apply(std::vector<Operation>{other}, start_us);
  ASSERT_TRUE(replies);
  EXPECT_FALSE(replies->front());
  EXPECT_EQ(news(*two), "");
}

class MemoryBrokersTest : public testing::Test {
 protected:
  static Result<Reply> ask(Ledger& ledger, const Operation& operation) {
    auto replies = ledger.apply(std::span(&operation, 1), start_us);
    EXPECT_TRUE(replies) << replies.error().text();
    return *std::move(replies->front());
  }
  static std::size_t leases_for(Ledger& ledger) {
    return std::get<FindLapsedReply>(*ask(ledger, FindLapsed{0, {}, true})).leases.size();
  }

  ManualClock clock;
  const std::shared_ptr<MemoryStore> store = make_memory_store({publish, "", &clock});
  const std::unique_ptr<Ledger> two =
      make_stored_ledger(make_memory_handle(store, "two"), {publish});
};

// A transaction in memory is taken back step by step, also what it did to leases and brokers.
TEST_F(MemoryBrokersTest, ATransactionThatIsRolledBackLeavesNothing) {
  const auto plan = std::make_shared<FaultPlan>();
  const auto failing = make_stored_ledger(
      std::make_unique<FaultyStore>(make_memory_handle(store, "one"), plan), {publish});
  EXPECT_TRUE(ask(*two, BeatBroker{long_us}));
  EXPECT_TRUE(ask(*two, job("a", "b")));
  const LeaseId held = std::get<ClaimReply>(*ask(*two, claim(1))).jobs.at(0).lease;
  const std::vector<Operation> batch{BeatBroker{long_us}, job("b", "b"),
                                     Renew{"engine", {held}, start_us}};
  for (int i = 0; i < 3; ++i) {
    plan->next = Fault::conflict;
    EXPECT_FALSE(failing->apply(batch, start_us));
  }
  EXPECT_EQ(std::get<BeatReply>(*ask(*two, BeatBroker{long_us})).others, 0u);
  EXPECT_EQ(leases_for(*two), 1u);
  EXPECT_TRUE(std::get<NewsReply>(*ask(*two, ReadNews{})).news.empty());
  EXPECT_TRUE(failing->apply(batch, start_us));
  EXPECT_EQ(std::get<BeatReply>(*ask(*two, BeatBroker{long_us})).others, 1u);
  EXPECT_EQ(leases_for(*two), 0u);
  EXPECT_EQ(std::get<NewsReply>(*ask(*two, ReadNews{})).news.size(), 1u);
}

// By the store's clock, whatever that of a broker says.
TEST_F(MemoryBrokersTest, ABrokerThatMissesItsHeartbeatsLosesItsLeases) {
  const auto one = make_stored_ledger(make_memory_handle(store, "one"), {publish});
  EXPECT_TRUE(ask(*one, BeatBroker{1'000}));
  EXPECT_TRUE(ask(*one, job("a", "b")));
  EXPECT_TRUE(ask(*one, claim(1)));
  clock.advance_us(999);
  EXPECT_EQ(leases_for(*two), 0u);
  clock.advance_us(1);
  EXPECT_EQ(leases_for(*two), 1u);
}

TEST_F(MemoryBrokersTest, NewsAreKeptForAWhile) {
  const auto one = make_stored_ledger(make_memory_handle(store, "one"), {publish});
  EXPECT_TRUE(ask(*one, BeatBroker{2 * news_kept_us}));
  EXPECT_TRUE(ask(*two, BeatBroker{2 * news_kept_us}));
  EXPECT_TRUE(ask(*one, job("a", "b")));
  const auto news = [&] { return std::get<NewsReply>(*ask(*two, ReadNews{})).news.size(); };
  clock.advance_us(news_kept_us);
  EXPECT_TRUE(ask(*one, BeatBroker{long_us}));
  EXPECT_EQ(news(), 1u);
  clock.advance_us(1);
  EXPECT_EQ(news(), 1u);
  EXPECT_TRUE(ask(*one, BeatBroker{long_us}));
  EXPECT_EQ(news(), 0u);
}

}  // namespace
}  // namespace millrace::broker::test
