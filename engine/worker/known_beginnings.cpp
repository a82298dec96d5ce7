#include "engine/worker/known_beginnings.hpp"

#include <algorithm>

namespace millrace::worker {

void KnownBeginnings::used(std::uint64_t prefix, const engine::Engine& engine,
                           const engine::PreparedRequest& request) {
  if (prefix == 0) return;
  const auto found = std::ranges::find(known_, prefix, &Known::prefix);
  if (found != known_.end()) {
    std::ranges::rotate(found, found + 1, known_.end());
    return;
  }
  if (known_.size() == most) known_.erase(known_.begin());
  known_.push_back({prefix, engine.beginning(request)});
}

std::vector<std::uint64_t> KnownBeginnings::held(const engine::Engine& engine) const {
  std::vector<std::uint64_t> out;
  for (auto at = known_.rbegin(); at != known_.rend(); ++at) {
    if (out.size() == limits::prefixes_per_engine) break;
    if (engine.holds(at->beginning)) out.push_back(at->prefix);
  }
  return out;
}

}  // namespace millrace::worker
