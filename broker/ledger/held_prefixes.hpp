#pragma once
// What a claim knows of the beginnings of prompts that engines hold. Thread safety: a plain value.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace millrace::broker {

// How far a claim looks ahead at most (claim_order.hpp), in places of the order of submission,
// which all tenants share.
inline constexpr std::uint64_t look_ahead = 1024;
// How many jobs in a row it passes at most before it takes one of them.
inline constexpr std::size_t looks_in_vain = 192;

// Which beginnings of prompts engines hold, by SubmitJob::prefix. Both lists are sorted.
struct HeldPrefixes {
  std::vector<std::uint64_t> own;                           // the engine that claims
  std::shared_ptr<const std::vector<std::uint64_t>> any{};  // any engine of its model; null: none
  std::uint64_t places = look_ahead;                        // that the claim looks ahead

  void take(std::uint64_t prefix) {  // the engine that claims will hold it
    const auto at = std::ranges::lower_bound(own, prefix);
    if (prefix != 0 && (at == own.end() || *at != prefix)) own.insert(at, prefix);
  }
  bool by_own(std::uint64_t prefix) const { return std::ranges::binary_search(own, prefix); }
  bool by_any(std::uint64_t prefix) const {
    return any != nullptr && std::ranges::binary_search(*any, prefix);
  }
};

}  // namespace millrace::broker
