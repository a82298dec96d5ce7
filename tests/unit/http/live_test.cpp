// What the live page asks of a broker.
#include "http/live.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "http/desk.hpp"
#include "tests/unit/client/fake_broker.hpp"

namespace millrace::http {
namespace {

using nlohmann::json;

constexpr std::size_t page_batches = 250;

class LiveTest : public ::testing::Test {
 protected:
  LiveTest() {
    broker_.answers_others = [this](const Message& question) -> std::optional<Message> {
      if (std::holds_alternative<StreamsRequest>(question)) return StreamsAnswer{};
      const auto* asked = std::get_if<BatchesRequest>(&question);
      if (asked == nullptr) return {};
      asked_.push_back(*asked);
      return batches_after(*asked);
    };
  }
  // As a broker answers.
  BatchesAnswer batches_after(const BatchesRequest& asked) const {
    BatchesAnswer answer;
    for (const BatchState& one : batches_) {
      const bool open = one.counts.queued + one.counts.leased > 0;
      if (one.batch <= asked.after || (asked.unfinished && !open)) continue;
      if (answer.batches.size() == page_batches) {
        answer.more = true;
        answer.next = answer.batches.back().batch;
        break;
      }
      answer.batches.push_back(one);
    }
    return answer;
  }
  void add_batch(const std::string& name, std::uint64_t queued) {
    BatchState one;
    one.batch = name;
    one.counts.queued = queued;
    one.counts.completed = 1;
    one.created_us = static_cast<std::int64_t>(batches_.size());
    if (queued == 0) one.finished_us = 1;
    batches_.push_back(std::move(one));
  }
  json view() {
    std::optional<std::string> made;
    desk_.live().with_view(0, [&](const Result<std::string>& told) {
      ASSERT_TRUE(told) << told.error().message;
      made = *told;
    });
    client::EventLoop loop(*session_, clock_, {});
    EXPECT_TRUE(loop.run({&desk_}, [&] { return made.has_value() || broker_.waits > 5'000; }));
    return json::parse(made.value_or("null"));
  }

  ManualClock clock_;
  client::FakeBroker broker_{clock_};
  std::unique_ptr<client::Session> session_ = broker_.open_session();
  Desk desk_{*session_, clock_, "http"};
  std::vector<BatchState> batches_;  // in order of their names
  std::vector<BatchesRequest> asked_;
};

TEST_F(LiveTest, MakesOneViewForAllWhoLookInASecond) {
  const auto rounds = [&] { return asked_.size() / 2; };  // each asks for batches twice
  std::vector<json> seen;
  for (int i = 0; i < 20; ++i) {
    desk_.live().with_view(0, [&](const Result<std::string>& told) {
      seen.push_back(json::parse(told.value_or("null")));
    });
  }
  const json first = view();
  ASSERT_EQ(seen.size(), 20u);
  for (const json& one : seen) EXPECT_EQ(one, first);
  EXPECT_EQ(view(), first);
  EXPECT_EQ(rounds(), 1u);
  clock_.advance_us(2'000 * us_per_ms);
  EXPECT_NE(view()["time_us"], first["time_us"]);
  EXPECT_EQ(rounds(), 2u);
}

TEST_F(LiveTest, FindsABatchAtWorkBehindAnyNumberThatHaveEnded) {
  for (int i = 10'000; i < 16'000; ++i) add_batch("b" + std::to_string(i), 0);
  add_batch("z", 5);
  const json seen = view();
  EXPECT_EQ(seen["batches"][0]["batch"], "z");
  EXPECT_EQ(seen["batches"].size(), LiveView::batches_shown);
  EXPECT_EQ(seen["batches_known"], page_batches + 1);
  EXPECT_EQ(seen["more_batches"], true);
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_TRUE(asked_[0].unfinished);
}

TEST_F(LiveTest, CountsEachBatchOnce) {
  for (int i = 100; i < 400; ++i) add_batch("b" + std::to_string(i), i % 2 == 0 ? 3 : 0);
  const json seen = view();
  EXPECT_EQ(seen["batches_known"], 150 + 125);  // those at work, and the others of one page
  for (int i = 400; i < 900; ++i) add_batch("b" + std::to_string(i), 3);
  clock_.advance_us(2'000 * us_per_ms);
  EXPECT_EQ(view()["batches_known"], 650 + 125);
  EXPECT_EQ(asked_.back().after, "");
  EXPECT_EQ(asked_[asked_.size() - 2].after, "b749");
}

}  // namespace
}  // namespace millrace::http
