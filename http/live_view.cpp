#include "http/live_view.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/link/entry_result.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/percentile_rank.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::http {
namespace {

constexpr std::uint64_t results_each = 32;  // of a stream, in one round
constexpr std::size_t streams_each = 4;     // in one round
constexpr std::uint64_t bytes_each = 256 * limits::KiB;
constexpr std::size_t results_kept = 2'000;
constexpr std::int64_t window_us = 10'000 * us_per_ms;  // of the results that times are made of
constexpr std::size_t engines_shown = 200, streams_shown = 100;

bool is_open(const BatchState& batch) {
  return !batch.finished_us && batch.counts.queued + batch.counts.leased > 0;
}

double ms(std::int64_t us) {
  return static_cast<double>(us) / us_per_ms;
}

std::optional<double> quantile(std::vector<double>& values, double share) {
  if (values.empty()) return {};
  const std::uint64_t at = percentile_rank(share, values.size()) - 1;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

void write_optional(JsonWriter& json, std::string_view name, const std::optional<double>& value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

void write_quantiles(JsonWriter& json, std::string_view name, std::vector<double>& values) {
  json.key(name).begin_object();
  write_optional(json, "p50", quantile(values, 0.5));
  write_optional(json, "p95", quantile(values, 0.95));
  json.end_object();
}

// Before an engine took the job; without a run all of the time.
std::int64_t waited_us(const LiveResult& one) {
  const auto ran_us = static_cast<std::int64_t>(one.times.total_us);
  return std::max<std::int64_t>(0, one.end.ended_us - one.end.submitted_us - ran_us);
}

void write_result(JsonWriter& json, const LiveResult& one) {
  json.begin_object()
      .field("stream", one.stream)
      .field("number", one.number)
      .field("job", one.end.job)
      .field("custom_id", one.end.custom_id)
      .field("model", one.end.model)
      .field("batch", one.end.batch)
      .field("state", wire::to_name(one.end.state))
      .field("submitted_us", one.end.submitted_us)
      .field("ended_us", one.end.ended_us)
      .field("wait_ms", ms(waited_us(one)));
  if (one.ran) {
    json.field("total_ms", ms(static_cast<std::int64_t>(one.times.total_us)))
        .field("first_token_ms", ms(static_cast<std::int64_t>(one.times.first_token_us)))
        .field("prompt_tokens", one.usage.prompt_tokens)
        .field("cached_tokens", one.usage.cached_tokens)
        .field("completion_tokens", one.usage.completion_tokens);
  }
  if (one.end.error) {
    json.key("error").begin_object();
    write_fields(json, *one.end.error);
    json.end_object();
  }
  json.end_object();
}

}  // namespace

void LiveView::take_status(StatusAnswer status) {
  status_ = std::move(status);
}

// Those at work first, and of them and of the others the newest.
void LiveView::take_batches(std::vector<BatchState> batches, bool more) {
  batches_known_ = batches.size();
  more_batches_ = more;
  std::ranges::sort(batches, [](const BatchState& one, const BatchState& other) {
    return std::pair(is_open(one), one.created_us) > std::pair(is_open(other), other.created_us);
  });
  if (batches.size() > batches_shown) batches.resize(batches_shown);
  batches_ = std::move(batches);
}

void LiveView::take_streams(std::vector<StreamState> streams, bool more,
                            std::int64_t monotonic_us) {
  std::erase_if(streams, [](const StreamState& one) { return one.stream == batches_stream; });
  more_streams_ = more;
  new_results_ = 0;
  std::map<std::string, Place> places;
  for (const StreamState& one : streams) {
    const auto before = places_.find(one.stream);
    // At the first look all is old; a stream that comes later begins with its first result.
    const std::uint64_t from = before != places_.end() ? before->second.high : 0;
    const std::uint64_t grown = one.high > from ? one.high - from : 0;
    places[one.stream] = {one.high, grown};
    new_results_ += grown;
  }
  places_ = std::move(places);
  streams_before_us_ = looked_ ? streams_us_ : 0;
  streams_us_ = monotonic_us;
  looked_ = true;
  streams_ = std::move(streams);
}

std::vector<Fetch> LiveView::fetches() const {
  std::vector<std::pair<std::uint64_t, const StreamState*>> grown;
  for (const StreamState& one : streams_) {
    const std::uint64_t by = places_.at(one.stream).grown;
    if (by > 0 && one.first <= one.high) grown.emplace_back(by, &one);  // something is kept
  }
  std::ranges::sort(grown, std::greater{});
  if (grown.size() > streams_each) grown.resize(streams_each);
  std::vector<Fetch> asked;
  for (const auto& [by, stream] : grown) {
    const std::uint64_t wanted = std::min(by, results_each);
    const std::uint64_t from = std::max(stream->first, stream->high - wanted + 1);
    asked.push_back({.stream = stream->stream,
                     .epoch = {},
                     .from = from,
                     .cursor = {},
                     .max_entries = static_cast<std::uint32_t>(wanted),
                     .max_bytes = bytes_each});
  }
  return asked;
}

void LiveView::take_results(const Data& data, std::int64_t monotonic_us) {
  for (const Entry& entry : data.entries) {
    LiveResult one;
    one.stream = data.stream;
    one.number = entry.number;
    one.end = client::result_of(entry, data.stream);
    one.seen_us = monotonic_us;
    if (one.end.result) {
      one.ran = true;
      one.usage = one.end.result->usage;
      one.times = one.end.result->times;
      one.end.result.reset();
    }
    one.end.metadata.clear();
    one.end.warnings.clear();
    results_.push_back(std::move(one));
  }
  while (results_.size() > results_kept) results_.pop_front();
}

void LiveView::finish(std::int64_t unix_us, std::int64_t monotonic_us) {
  LiveSample sample;
  sample.time_us = unix_us;
  if (streams_before_us_ != 0 && streams_us_ > streams_before_us_) {
    sample.jobs_per_second = static_cast<double>(new_results_) * 1e6 /
                             static_cast<double>(streams_us_ - streams_before_us_);
  }
  for (const EngineInfo& engine : status_.engines) {
    sample.tokens_per_second += engine.tokens_per_second;
  }
  sample.queued = status_.counts.queued;
  sample.leased = status_.counts.leased;
  sample.failed = status_.counts.failed;
  // Old results stay to be shown, but do not count for times.
  while (results_.size() > results_shown && results_.front().seen_us < monotonic_us - window_us) {
    results_.pop_front();
  }
  std::vector<double> waits, firsts, totals;
  for (const LiveResult& one : results_) {
    if (!one.ran || one.seen_us < monotonic_us - window_us) continue;
    waits.push_back(ms(waited_us(one)));
    firsts.push_back(ms(static_cast<std::int64_t>(one.times.first_token_us)));
    totals.push_back(ms(static_cast<std::int64_t>(one.times.total_us)));
  }
  sample.typical_ms = quantile(totals, 0.5);
  sample.slow_ms = quantile(totals, 0.95);
  samples_.push_back(sample);
  while (samples_.size() > samples_kept) samples_.pop_front();
  write_body(unix_us);
  JsonWriter json(body_);
  json.begin_object().field("results", std::uint64_t{totals.size()});
  write_quantiles(json, "wait_ms", waits);
  write_quantiles(json, "first_token_ms", firsts);
  write_quantiles(json, "total_ms", totals);
  json.end_object();
}

// Ends before the value of "times".
void LiveView::write_body(std::int64_t unix_us) {
  body_.clear();
  JsonWriter json(body_);
  json.begin_object()
      .field("time_us", unix_us)
      .field("version", MILLRACE_VERSION)
      .field("draining", status_.draining)
      .field("paused", status_.paused)
      .field("refuses", status_.refuses)
      .key("paused_models")
      .begin_array();
  for (const std::string& model : status_.paused_models) json.value(model);
  json.end_array().key("counts").begin_object();
  write_fields(json, status_.counts);
  json.end_object();
  json.key("queues").begin_array();
  for (const TenantQueue& queue : status_.queues) {
    json.begin_object();
    write_fields(json, queue);
    json.end_object();
  }
  json.end_array()
      .field("more_queues", status_.more_queues)
      .field("engines_known", std::uint64_t{status_.engines.size()})
      .key("engines")
      .begin_array();
  for (std::size_t i = 0; i < std::min(status_.engines.size(), engines_shown); ++i) {
    json.begin_object();
    write_fields(json, status_.engines[i]);
    json.end_object();
  }
  json.end_array().field("batches_known", batches_known_).field("more_batches", more_batches_);
  json.key("batches").begin_array();
  for (const BatchState& batch : batches_) {
    json.begin_object();
    write_fields(json, batch);
    json.end_object();
  }
  json.end_array().field("more_streams", more_streams_).key("streams").begin_array();
  for (std::size_t i = 0; i < std::min(streams_.size(), streams_shown); ++i) {
    json.begin_object();
    write_fields(json, streams_[i]);
    json.end_object();
  }
  json.end_array().key("latest").begin_array();
  const std::size_t skipped = results_.size() - std::min(results_.size(), results_shown);
  for (auto one = results_.rbegin(); one != results_.rend() - static_cast<std::ptrdiff_t>(skipped);
       ++one) {
    write_result(json, *one);
  }
  json.end_array().key("times");
}

void LiveView::write_samples(std::string& out, std::int64_t since_us) const {
  JsonWriter json(out);
  json.begin_array();
  for (const LiveSample& one : samples_) {
    if (one.time_us <= since_us) continue;
    json.begin_object().field("time_us", one.time_us);
    write_optional(json, "jobs_per_second", one.jobs_per_second);
    json.field("tokens_per_second", one.tokens_per_second)
        .field("queued", one.queued)
        .field("leased", one.leased)
        .field("failed", one.failed);
    write_optional(json, "typical_ms", one.typical_ms);
    write_optional(json, "slow_ms", one.slow_ms);
    json.end_object();
  }
  json.end_array();
}

std::string LiveView::json(std::int64_t since_us) const {
  std::string out = body_ + ",\"samples\":";
  write_samples(out, since_us);
  return out + "}";
}

}  // namespace millrace::http
