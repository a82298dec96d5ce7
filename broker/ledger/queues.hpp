#pragma once
// The queues that a claim is served from: jobs of the engine's model and of "*", each without a KV
// policy and with each that the engine runs. Thread safety: pure.
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

struct QueueName {  // both live as long as the claim
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
