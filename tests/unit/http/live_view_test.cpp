#include "http/live_view.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schemas/base/clock.hpp"
#include "schemas/codec.hpp"

namespace millrace::http {
namespace {

using nlohmann::json;

constexpr std::int64_t second = 1'000 * us_per_ms;

StreamState stream(const char* name, std::uint64_t first, std::uint64_t high) {
  StreamState one;
  one.stream = name;
  one.first = first;
  one.high = high;
  return one;
}

// A round at a second, with these streams.
json look(LiveView& view, std::int64_t at_s, std::vector<StreamState> streams) {
  view.take_streams(std::move(streams), false, at_s * second);
  view.finish(at_s * second, at_s * second);
  return json::parse(view.json(0));
}

TEST(LiveView, CountsResultsOfAllStreamsForItsRate) {
  LiveView view;
  EXPECT_TRUE(look(view, 1, {stream("a", 1, 500)})["samples"][0]["jobs_per_second"].is_null());
  // A stream that is new begins with its first result, and that of batches counts no jobs.
  const json seen =
      look(view, 3, {stream("a", 1, 520), stream("b", 1, 20), stream(batches_stream, 1, 1'000)});
  EXPECT_EQ(seen["samples"].size(), 2u);
  EXPECT_DOUBLE_EQ(seen["samples"][1]["jobs_per_second"], 20);
  EXPECT_EQ(seen["streams"].size(), 2u);
  // One that was removed, or begun anew, takes nothing away.
  EXPECT_DOUBLE_EQ(look(view, 4, {stream("b", 1, 3)})["samples"][2]["jobs_per_second"], 0);
}

TEST(LiveView, AsksForTheNewestResultsOfTheBusiestStreams) {
  LiveView view;
  look(view, 1, {stream("a", 1, 100), stream("b", 1, 100)});
  std::vector<StreamState> streams = {stream("a", 1, 100), stream("b", 1, 105)};
  for (const char* name : {"c", "d", "e"}) streams.push_back(stream(name, 1, 900));
  streams.push_back(stream("trimmed", 11, 10));
  look(view, 2, streams);
  const auto asked = view.fetches();
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[0].from, 869u);
  EXPECT_EQ(asked[0].max_entries, 32u);
  for (const Fetch& one : asked) EXPECT_NE(one.stream, "a");
}

TEST(LiveView, KeepsTheNewestResultsAndCountsTimesOfTheLastSeconds) {
  LiveView view;
  Data data;
  data.stream = "a";
  for (std::uint64_t number = 1; number <= 40; ++number) {
    JobResult end;
    end.job = "job " + std::to_string(number);
    end.submitted_us = second;
    end.ended_us = 3 * second;
    end.result.emplace();
    end.result->times.total_us = number * 1'000;
    data.entries.push_back({number, end.job, encode_result(end)});
  }
  view.take_results(data, 3 * second);
  json seen = look(view, 3, {stream("a", 1, 40)});
  ASSERT_EQ(seen["latest"].size(), LiveView::results_shown);
  EXPECT_EQ(seen["latest"][0]["job"], "job 40");
  EXPECT_DOUBLE_EQ(seen["latest"][0]["wait_ms"], 1'960);
  EXPECT_EQ(seen["times"]["results"], 40);
  EXPECT_DOUBLE_EQ(seen["times"]["total_ms"]["p50"], 20);
  EXPECT_DOUBLE_EQ(seen["times"]["total_ms"]["p95"], 38);
  seen = look(view, 30, {stream("a", 1, 40)});
  EXPECT_EQ(seen["latest"].size(), LiveView::results_shown);
  EXPECT_EQ(seen["times"]["results"], 0);
  EXPECT_TRUE(seen["times"]["total_ms"]["p50"].is_null());
}

// With few results the slow ones are the slowest: 95 % of them take no longer.
TEST(LiveView, TellsTimesOfFewResults) {
  const auto times = [](const std::vector<std::uint64_t>& total_ms) {
    Data data;
    data.stream = "a";
    for (const std::uint64_t ms : total_ms) {
      JobResult end;
      end.job = "job";
      end.result.emplace();
      end.result->times.total_us = ms * 1'000;
      data.entries.push_back({data.entries.size() + 1, end.job, encode_result(end)});
    }
    LiveView view;
    view.take_results(data, second);
    const json seen = look(view, 1, {stream("a", 1, total_ms.size())});
    EXPECT_EQ(seen["samples"][0]["slow_ms"], seen["times"]["total_ms"]["p95"]);
    return std::pair(seen["times"]["total_ms"]["p50"].get<double>(),
                     seen["times"]["total_ms"]["p95"].get<double>());
  };
  EXPECT_EQ(times({7}), std::pair(7.0, 7.0));
  EXPECT_EQ(times({900, 7}), std::pair(7.0, 900.0));
  EXPECT_EQ(times({40, 900, 7}), std::pair(40.0, 900.0));
}

TEST(LiveView, ListsBatchesAtWorkFirst) {
  LiveView view;
  std::vector<BatchState> batches(3 + LiveView::batches_shown);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    batches[i].batch = std::to_string(i);
    batches[i].created_us = static_cast<std::int64_t>(i);
  }
  batches[1].counts.queued = batches[2].counts.leased = 5;
  view.take_batches(std::move(batches), true);
  const json seen = look(view, 1, {});
  EXPECT_EQ(seen["batches"].size(), LiveView::batches_shown);
  EXPECT_EQ(seen["batches_known"], 3 + LiveView::batches_shown);
  EXPECT_EQ(seen["more_batches"], true);
  EXPECT_EQ(seen["batches"][0]["batch"], "2");
  EXPECT_EQ(seen["batches"][1]["batch"], "1");
  EXPECT_EQ(seen["batches"][2]["batch"], "102");
}

TEST(LiveView, SamplesHaveABound) {
  LiveView view;
  for (std::int64_t at = 1; at <= 1'000; ++at) view.finish(at * second, at * second);
  const json seen = json::parse(view.json(990 * second));
  EXPECT_EQ(seen["samples"].size(), 10u);
  EXPECT_EQ(json::parse(view.json(0))["samples"].size(), LiveView::samples_kept);
}

}  // namespace
}  // namespace millrace::http
