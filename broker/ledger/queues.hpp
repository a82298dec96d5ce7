#pragma once
// What a claim may take: its queues, and how much of them. Thread safety: plain values and pure
// functions.
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

// The queues that serve a claim: jobs of the engine's model and of "*", each without a KV policy
// and with each policy that the engine runs, but for those that are closed to it.
inline std::vector<QueueName> queues_of(const Claim& claim) {
  static const std::string any_model = "*", any_kv;
  std::vector<QueueName> out;
  for (const std::string* model : {&claim.model, &any_model}) {
    if (model == &any_model && claim.model == any_model) break;
    if (!(model == &any_model ? claim.from_any : claim.from_model)) continue;
    out.push_back({model, &any_kv});
    for (const std::string& kv : claim.kv) out.push_back({model, &kv});
  }
  return out;
}

// The room that a claim has for bodies and costs.
class ClaimRoom {
 public:
  explicit ClaimRoom(const Claim& claim)
      : max_bytes_(claim.max_bytes), max_tokens_(claim.max_tokens) {}
  // Begins to count tokens anew, for the next tenant of the claim.
  void allow_tokens(std::uint64_t max_tokens) {
    max_tokens_ = max_tokens;
    tokens_ = 0;
  }
  // Takes one job. False: there is no room for it; the first one may be larger than the room.
  bool take(std::uint64_t bytes, std::uint64_t cost_tokens) {
    full_ = full_ || (bytes_ > 0 && bytes_ + bytes > max_bytes_);
    if (full_) return false;
    bytes_ += bytes;
    tokens_ += cost_tokens;
    full_ = bytes_ > max_bytes_;
    return true;
  }
  bool full() const { return full_; }  // of bytes
  bool used_up() const { return full_ || tokens_ >= max_tokens_; }
  std::uint64_t tokens() const { return tokens_; }

 private:
  std::uint64_t max_bytes_, max_tokens_;
  std::uint64_t bytes_ = 0, tokens_ = 0;
  bool full_ = false;
};

}  // namespace millrace::broker
