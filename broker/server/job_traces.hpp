#pragma once
// Makes a span of each job whose trace is recorded, from its submission to its end, with what
// happened to it in between. The span's ids and its start come from the ledger, so that it is whole
// after a restart of the broker; what happened before the restart is missing from its events.
// Thread safety: none; it belongs to the broker's thread.
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/events.hpp"
#include "schemas/trace/exporter.hpp"

namespace millrace::broker {

class JobTraces {
 public:
  static constexpr std::size_t jobs_kept = 100'000;    // with events; the oldest give way
  static constexpr std::size_t events_of_a_job = 128;  // more are counted only

  explicit JobTraces(std::shared_ptr<trace::Exporter> exporter) : exporter_(std::move(exporter)) {}

  void take(const JobNews& news, std::int64_t now_us);  // Unix time

 private:
  using Key = std::pair<std::string, std::string>;  // tenant and job
  struct Open {
    std::vector<trace::SpanEvent> events;
    std::uint32_t left_out = 0;
    std::list<Key>::iterator place;
  };

  void note(const JobNews& news, std::int64_t now_us);
  void end(const FinishReply& end, std::int64_t now_us);

  const std::shared_ptr<trace::Exporter> exporter_;
  std::map<Key, Open> open_;
  std::list<Key> order_;  // of `open_`, the oldest first
};

}  // namespace millrace::broker
