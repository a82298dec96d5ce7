#pragma once
// Announces the last number of a stream after its commit, and repeats the announcement because a
// PUB socket may drop messages. Every end of a job passes here, so it also counts what became of
// jobs and how fast batches go on. It keeps recently written streams only; an announcement that is
// lost costs a reader time, never data.
// Thread safety: none.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "broker/core/batch_rates.hpp"
#include "broker/core/outbox.hpp"

namespace millrace::broker {

class Doorbell {
 public:
  Doorbell(Outbox& out, const CoreConfig& config) : out_(out), config_(config) {}

  void written(const FinishReply& entry);  // call it after the entry's commit
  // The same of an entry that another broker wrote. One that was announced already is not again.
  void written_elsewhere(const std::string& tenant, const std::string& stream,
                         const std::string& epoch, std::uint64_t high);
  const BatchRates& rates() const { return rates_; }
  void flush();  // announces once whatever one event wrote
  void tick();

 private:
  struct State {
    std::string epoch;
    std::uint64_t high = 0;
    std::int64_t written_us = 0, rung_us = 0;
    bool due = false;  // written since the last announcement
  };

  static constexpr std::size_t streams_kept = 1024;
  static constexpr std::int64_t repeat_for_us = 60'000'000;

  void due(const std::string& tenant, const std::string& stream, const std::string& epoch,
           std::uint64_t high);

  Outbox& out_;
  const CoreConfig& config_;
  BatchRates rates_;
  std::map<std::pair<std::string, std::string>, State> streams_;  // by tenant and name
  bool due_ = false;
};

}  // namespace millrace::broker
