#pragma once
// Lists the queues that serve a claim: jobs of the engine's model and of "*", each without a KV
// policy and with each policy that the engine runs. Thread safety: pure functions.
#include <cstddef>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

// The number of jobs past their deadline that one claim skips before it gives up; ExpireJobs ends
// them.
inline constexpr std::size_t claim_overscan = 1000;

struct QueueName {  // points into the claim, which must outlive it
  const std::string* model;
  const std::string* kv;
};

inline std::vector<QueueName> queues_of(const Claim& claim) {
  static const std::string any_model = "*", any_kv;
  std::vector<QueueName> out;
  for (const std::string* model : {&claim.model, &any_model}) {
    if (model == &any_model && claim.model == any_model) break;
    out.push_back({model, &any_kv});
    for (const std::string& kv : claim.kv) out.push_back({model, &kv});
  }
  return out;
}

}  // namespace millrace::broker
