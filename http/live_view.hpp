#pragma once
// What the live page shows at one moment, and how it has changed: the broker's status, batches and
// streams, and the newest results of those streams. http/README.md has the JSON.
// Thread safety: one thread.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace::http {

// The moments of the charts.
struct LiveSample {
  std::int64_t time_us = 0;  // Unix time
  std::optional<double> jobs_per_second;
  double tokens_per_second = 0;
  std::uint64_t queued = 0, leased = 0, failed = 0;
  std::optional<double> typical_ms, slow_ms;  // half and 95 % of the results took at most this
};

struct LiveResult {  // of a job that has ended
  std::string stream;
  std::uint64_t number = 0;
  JobResult end;  // without what was generated
  Usage usage;
  EngineTimes times;
  bool ran = false;          // times and usage are known
  std::int64_t seen_us = 0;  // monotonic
};

class LiveView {
 public:
  static constexpr std::size_t samples_kept = 900, results_shown = 24, batches_shown = 100;

  void take_status(StatusAnswer status);
  void take_batches(std::vector<BatchState> batches, bool more);
  // Notes how far the streams have come since the last time.
  void take_streams(std::vector<StreamState> streams, bool more, std::int64_t monotonic_us);
  // The newest results of the streams that have grown most, as many as are worth a question.
  std::vector<Fetch> fetches() const;
  void take_results(const Data& data, std::int64_t monotonic_us);
  // All of the above were taken: makes a sample and the JSON.
  void finish(std::int64_t unix_us, std::int64_t monotonic_us);

  // The whole object, with the samples that are newer than this.
  std::string json(std::int64_t since_us) const;

 private:
  void write_samples(std::string& out, std::int64_t since_us) const;
  void write_body(std::int64_t unix_us);

  StatusAnswer status_;
  std::vector<BatchState> batches_;
  std::uint64_t batches_known_ = 0;
  bool more_batches_ = false, more_streams_ = false;
  std::vector<StreamState> streams_;
  struct Place {
    std::uint64_t high = 0;   // of the last look
    std::uint64_t grown = 0;  // between the last two
  };
  std::map<std::string, Place> places_;
  bool looked_ = false;  // at streams, before
  std::uint64_t new_results_ = 0;
  std::int64_t streams_us_ = 0, streams_before_us_ = 0;
  std::deque<LiveResult> results_;  // the newest last
  std::deque<LiveSample> samples_;
  std::string body_;  // all but the samples
};

}  // namespace millrace::http
