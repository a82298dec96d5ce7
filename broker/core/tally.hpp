#pragma once
// Counts what became of jobs since the broker's start, by tenant, for metrics. Nothing is counted
// by job, batch or model, and only so many tenants are counted by name, so that the counts stay
// small whatever is submitted. Thread safety: plain values.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "broker/ledger/latency_histogram.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

struct TenantTally {
  std::uint64_t submitted = 0;  // newly stored
  std::uint64_t known = 0;      // stored already
  std::uint64_t handed_out = 0;
  std::uint64_t completed = 0, cancelled = 0, expired = 0;
  std::uint64_t run_again = 0;             // they wait after an engine's error
  std::uint64_t retried = 0;               // failed ones, at a producer's request
  std::map<Code, std::uint64_t> failed;    // by their error
  std::map<Code, std::uint64_t> rejected;  // jobs answered with an error, by it
  LatencyHistogram queue_time;             // from the submission to the first hand-out
};

class Tally {
 public:
  static constexpr std::size_t tenants_named = 100;
  // Stands for all tenants beyond these. No tenant has this name: check_tenant refuses it.
  static constexpr const char* other_tenants = "(others)";

  TenantTally& of(const std::string& tenant) {
    const auto found = tenants_.find(tenant);
    if (found != tenants_.end()) return found->second;
    return tenants_[tenants_.size() < tenants_named ? tenant : other_tenants];
  }
  const std::map<std::string, TenantTally>& tenants() const { return tenants_; }
  // How many more tenants will be counted by name.
  std::size_t room() const {
    const std::size_t named = tenants_.size() - tenants_.count(other_tenants);
    return tenants_named - std::min(named, tenants_named);
  }

  // Counts the end of a job, or that it waits for another run.
  void ended(const FinishReply& end) {
    TenantTally& tally = of(end.tenant);
    if (end.number == 0) {
      ++tally.run_again;
    } else if (end.state == JobState::failed) {
      ++tally.failed[end.reason.value_or(Code::internal)];
    } else if (end.state == JobState::completed) {
      ++tally.completed;
    } else if (end.state == JobState::cancelled) {
      ++tally.cancelled;
    } else if (end.state == JobState::expired) {
      ++tally.expired;
    }
  }

 private:
  std::map<std::string, TenantTally> tenants_;
};

}  // namespace millrace::broker
