// A session that has joined a broker: hello, leases, ends, heartbeats, credit, cancels, suspects.
#include <set>

#include "tests/unit/worker/session_fixture.hpp"

namespace millrace::worker {
namespace {

TEST_F(SessionTest, HelloTellsWhatTheEngineIs) {
  const auto hello = sent_of<Hello>();
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_EQ(hello[0].role, Role::engine);
  EXPECT_EQ(hello[0].name, "e");
  EXPECT_EQ(hello[0].instance, "i1");
  EXPECT_EQ(hello[0].engine.facts.model, "tiny");
  EXPECT_EQ(hello[0].engine.facts.fingerprint, "f00d");
  EXPECT_EQ(hello[0].engine.kv_policies, std::vector<std::string>{"f16"});
  EXPECT_EQ(hello[0].engine.facts.context_tokens, 100u);
}

TEST_F(SessionTest, HelloIsRepeatedWithBackOff) {
  std::vector<std::int64_t> at_ms;
  for (std::int64_t ms = 0; ms < 70'000; ms += 100, wait_ms(100))
    if (!sent_of<Hello>().empty()) at_ms.push_back(ms);
  EXPECT_EQ(at_ms,
            (std::vector<std::int64_t>{0, 1'000, 3'000, 7'000, 15'000, 30'000, 45'000, 60'000}));
}

TEST_F(SessionTest, ALeaseIsRunAndItsEndCarriesTheResult) {
  join();
  lease({5});
  ASSERT_EQ(executor_.started(), Leased{5});
  EXPECT_EQ(std::get<std::string>(executor_.task(0).request.prompt), "prompt of c5");
  EXPECT_EQ(executor_.task(0).priority, 1u);
  executor_.end(5);
  const auto ends = sent_of<Ends>();
  ASSERT_EQ(leases_of(ends), Leased{5});
  EXPECT_EQ(ends[0].ends[0].state, JobState::completed);
  EXPECT_FALSE(ends[0].ends[0].error);
  EXPECT_EQ(text_of(ends[0].ends[0]), "answer 5");
}

TEST_F(SessionTest, HeartbeatsTellWhichBeginningsTheExecutorHolds) {
  join();
  Leases leases;
  leases.leases.push_back(make_lease(5));
  leases.leases[0].prefix = 77;
  say(leases);
  session_.pump();
  ASSERT_EQ(executor_.started(), Leased{5});
  EXPECT_EQ(executor_.task(0).prefix, 77u);
  executor_.known = {77, 12};
  (void)sent_of<Heartbeat>();
  wait_ms(5'000);
  const auto beats = sent_of<Heartbeat>();
  ASSERT_FALSE(beats.empty());
  EXPECT_EQ(beats.back().prefixes, (std::vector<std::uint64_t>{77, 12}));
}

TEST_F(SessionTest, AJobWithoutSeedGetsOneFromItsContent) {
  join();
  lease({1, 2});
  Leases again;
  again.leases.push_back(make_lease(3, "c1"));  // the same job as 1
  say(again);
  session_.pump();
  ASSERT_EQ(executor_.started().size(), 3u);
  const auto seed = [&](std::size_t i) { return executor_.task(i).request.sampling.seed; };
  ASSERT_TRUE(seed(0));
  EXPECT_EQ(seed(0), seed(2));
  EXPECT_NE(seed(0), seed(1));
}

TEST_F(SessionTest, EndsAreSentUntilCommitted) {
  join();
  lease({1, 2});
  executor_.end(1);
  executor_.end(2);
  EXPECT_EQ(ends_sent(), (Leased{1, 2}));
  EXPECT_EQ(ends_sent(), Leased{});  // no answer yet, but it is too early to send again
  for (int i = 0; i < 5; ++i) {
    wait_ms(1'000);
    answer();
    EXPECT_EQ(ends_sent(), Leased{});
  }
  say(Committed{{1}, {}});
  Leased again;
  for (int i = 0; i < 8; ++i) {
    wait_ms(1'000);
    answer();
    for (const LeaseId id : ends_sent()) again.push_back(id);
  }
  EXPECT_EQ(again, Leased{2});
  say(Committed{{2}, {}});
  EXPECT_TRUE(session_.book().empty());
}

TEST_F(SessionTest, AStaleResultIsForgotten) {
  join();
  lease({1});
  executor_.end(1);
  EXPECT_EQ(ends_sent(), Leased{1});
  say(Committed{{}, {1}});
  EXPECT_TRUE(session_.book().empty());
}

TEST_F(SessionTest, HeartbeatsListAllLeasesAndHonestSteps) {
  join();
  lease({1, 2, 3});
  executor_.end(2);
  EXPECT_EQ(ends_sent(), Leased{2});
  executor_.now = {41, 500, 2};
  wait_ms(1'000);
  auto beat = sent_of<Heartbeat>();
  ASSERT_EQ(beat.size(), 1u);
  EXPECT_EQ(beat[0].leases, (Leased{1, 2, 3}));
  EXPECT_EQ(beat[0].steps, 41u);
  EXPECT_EQ(beat[0].tokens, 500u);
  EXPECT_EQ(beat[0].rows, 2u);
  EXPECT_EQ(beat[0].credit, 6u);
  answer();
  wait_ms(1'000);  // a long step: heartbeats go on, the step count does not change
  beat = sent_of<Heartbeat>();
  ASSERT_EQ(beat.size(), 1u);
  EXPECT_EQ(beat[0].steps, 41u);
}

TEST_F(SessionTest, HeartbeatsTellHowFullTheEngineIs) {
  join();
  lease({1, 2, 3});
  executor_.waits = {2, 3};
  ExecutorCounts& counted = executor_.counted;
  counted.max_rows = 64;
  counted.kv_used_tokens = 4'096;
  counted.kv_pool_tokens = 65'536;
  counted.kv_used_bytes = 94'371'840;
  counted.kv_pool_bytes = 1'509'949'440;
  counted.prefix_tokens = 12'288;
  counted.prompt_tokens = 50'000;
  counted.cached_tokens = 40'000;
  counted.generated_tokens = 9'000;
  wait_ms(1'000);
  const auto beats = sent_of<Heartbeat>();
  ASSERT_EQ(beats.size(), 1u);
  EXPECT_EQ(beats[0].load, (EngineLoad{64, 2, 4'096, 65'536, 94'371'840, 1'509'949'440, 12'288,
                                       50'000, 40'000, 9'000}));
}

TEST_F(SessionTest, CreditFollowsWhatIsHeld) {
  join();
  lease({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(sent_of<Ready>().empty());
  executor_.end(1);
  executor_.end(2);
  const auto ready = sent_of<Ready>();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].credit, 2u);
  EXPECT_TRUE(sent_of<Ready>().empty());  // once
}

TEST_F(SessionTest, TooManyUnconfirmedResultsStopTheCredit) {
  auto o = options();
  o.unconfirmed_most = 2;
  Session session(o, executor_, clock_);
  session.pump();
  session.received(encode(Envelope{1, Welcome{}}));
  Leases leases{{make_lease(1), make_lease(2)}};
  session.received(encode(Envelope{0, leases}));
  session.pump();
  executor_.end(1);
  executor_.end(2);
  wait_ms(1'000);
  session.pump();
  std::optional<std::uint32_t> credit;
  for (; session.next_frame() != nullptr; session.frame_sent()) {
    const auto e = decode_envelope(*session.next_frame());
    if (const auto* beat = std::get_if<Heartbeat>(&e->message)) credit = beat->credit;
  }
  EXPECT_EQ(credit, 0u);
}

TEST_F(SessionTest, AJobThatCannotBeReadFailsByName) {
  join();
  Lease broken = make_lease(1);
  broken.body = "\x80";  // an empty map
  Lease foreign = make_lease(2);
  Job job;
  job.model = "other";
  job.custom_id = "mine";
  job.request.prompt = std::string("x");
  foreign.body = encode_job(job);
  say(Leases{{broken, foreign}});
  const auto ends = sent_of<Ends>();
  ASSERT_EQ(leases_of(ends), (Leased{1, 2}));
  EXPECT_TRUE(executor_.started().empty());
  const JobEnd &first = ends[0].ends[0], &second = ends[0].ends[1];
  EXPECT_EQ(first.state, JobState::failed);
  EXPECT_EQ(first.error->code, Code::missing_field);
  EXPECT_EQ(second.error->code, Code::unknown_model);
  EXPECT_FALSE(second.error->hint.empty());
}

TEST_F(SessionTest, AnErrorOfTheEngineFailsTheJob) {
  join();
  lease({1});
  executor_.end(1, Error{Code::context_exceeded, "too long", "shorten it"});
  const auto ends = sent_of<Ends>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].ends[0].state, JobState::failed);
  EXPECT_EQ(*ends[0].ends[0].error, (Error{Code::context_exceeded, "too long", "shorten it"}));
}

TEST_F(SessionTest, CancelEndsWhatRunsAndWhatWaits) {
  join();
  lease({1}, true);  // alone: the next one waits
  lease({2});
  EXPECT_EQ(executor_.started(), Leased{1});
  answer({{}, {1, 2, 99}, false});
  EXPECT_EQ(executor_.cancelled, Leased{1});
  auto ends = sent_of<Ends>();
  ASSERT_EQ(leases_of(ends), Leased{2});
  EXPECT_EQ(ends[0].ends[0].state, JobState::cancelled);
  executor_.end(1, true);
  ends = sent_of<Ends>();
  ASSERT_EQ(leases_of(ends), Leased{1});
  EXPECT_EQ(ends[0].ends[0].state, JobState::cancelled);
  EXPECT_EQ(text_of(ends[0].ends[0]), "answer 1");
}

TEST_F(SessionTest, LostLeasesAreStoppedAndTheirEndsNotSent) {
  join();
  lease({1, 2});
  executor_.end(2);
  EXPECT_EQ(ends_sent(), Leased{2});
  answer({{1, 2}, {}, false});
  EXPECT_EQ(executor_.cancelled, Leased{1});
  executor_.end(1, true);
  wait_ms(20'000);
  EXPECT_EQ(ends_sent(), Leased{});
  EXPECT_TRUE(session_.book().empty());
  EXPECT_EQ(session_.book().running(), 0u);
}

TEST_F(SessionTest, PartialsGoOutBeforeTheEndThatCameWithThem) {
  join();
  lease({1, 2});
  executor_.partials = {{1, {0, 3, {7}, "so", "", {}}}, {9, {0, 0, {7}, "no lease", "", {}}}};
  executor_.end(1);
  const auto all = sent();
  ASSERT_EQ(all.size(), 2u);
  const auto* partials = std::get_if<Partials>(&all[0].message);
  ASSERT_NE(partials, nullptr);
  ASSERT_EQ(partials->entries.size(), 1u);
  EXPECT_EQ(partials->entries[0].lease, 1u);
  EXPECT_EQ(partials->entries[0].partial.text, "so");
  EXPECT_TRUE(std::holds_alternative<Ends>(all[1].message));
  executor_.partials = {{1, {0, 4, {7}, "late", "", {}}}};  // the end has been sent already
  EXPECT_TRUE(sent_of<Partials>().empty());
}

TEST_F(SessionTest, PartialsAreDroppedWhileTheBrokerIsAway) {
  join();
  lease({1});
  say(Goodbye{});
  executor_.partials = {{1, {0, 0, {7}, "unheard", "", {}}}};
  EXPECT_TRUE(sent_of<Partials>().empty());
  EXPECT_TRUE(executor_.partials.empty());
  EXPECT_EQ(session_.book().running(), 1u);
}

TEST_F(SessionTest, HeartbeatsTellWhichLeasesWait) {
  join();
  lease({1, 2, 3});
  lease({4}, true);  // waits in the book
  executor_.waits = {2, 3, 99};
  executor_.end(1);
  EXPECT_EQ(ends_sent(), Leased{1});
  wait_ms(limits::heartbeat_ms);
  const auto beats = sent_of<Heartbeat>();
  ASSERT_EQ(beats.size(), 1u);
  std::set<LeaseId> waiting(beats[0].waiting.begin(), beats[0].waiting.end());
  EXPECT_EQ(waiting, (std::set<LeaseId>{1, 2, 3, 4})) << "1 has ended, 99 is unknown";
}

TEST_F(SessionTest, ABrokerThatCanTakeItHearsWhatHasBegun) {
  join();
  lease({1});
  executor_.begun = {1};
  EXPECT_TRUE(sent_of<Begun>().empty()) << "this broker does not know the message";
  say(Goodbye{});
  wait_ms(1'000);
  const auto hello = sent();
  Welcome answer;
  answer.broker = "b2";
  answer.capabilities = {"begun"};
  say(answer, hello.back().id);
  (void)sent();
  executor_.begun = {1};
  executor_.end(1);
  const auto all = sent();
  ASSERT_EQ(only<Begun>(all).size(), 1u);
  EXPECT_EQ(only<Begun>(all)[0].leases, Leased{1});
  EXPECT_TRUE(std::holds_alternative<Begun>(all.front().message)) << "before the end";
}

TEST_F(SessionTest, ASuspectRunsAlone) {
  join();
  lease({1, 2});
  lease({3}, true);
  lease({4, 5});
  EXPECT_EQ(executor_.started(), (Leased{1, 2}));
  executor_.end(1);
  session_.pump();
  EXPECT_EQ(executor_.started(), (Leased{1, 2}));
  executor_.end(2);
  session_.pump();
  EXPECT_EQ(executor_.started(), (Leased{1, 2, 3}));
  executor_.end(3);
  session_.pump();
  EXPECT_EQ(executor_.started(), (Leased{1, 2, 3, 4, 5}));
}

TEST_F(SessionTest, ALostSuspectStillKeepsOthersWaitingUntilItStops) {
  join();
  lease({1}, true);
  lease({2});
  answer({{1}, {}, false});
  session_.pump();
  EXPECT_EQ(executor_.started(), Leased{1});
  executor_.end(1, true);
  session_.pump();
  EXPECT_EQ(executor_.started(), (Leased{1, 2}));
}

}  // namespace
}  // namespace millrace::worker
