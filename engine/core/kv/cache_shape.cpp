#include "engine/core/kv/cache_shape.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint64_t default_sequences = 8;
constexpr std::uint64_t pages_without_bytes = std::uint64_t{1} << 20;

}  // namespace

std::vector<LayerGroup> CacheShape::groups() const {
  std::vector<LayerGroup> out(1);
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    if (!shape.layers[i].exist()) continue;
    const std::uint32_t window = windows.empty() ? 0 : windows[i];
    auto group = std::ranges::find(out, window, &LayerGroup::window);
    if (group == out.end()) group = out.insert(group, {window, {}});
    group->layers.push_back(i);
  }
  if (!out.front().layers.empty() || out.size() == 1) return out;
  out.erase(out.begin());
  std::ranges::sort(out, std::greater{}, &LayerGroup::window);
  out.front().window = 0;
  return out;
}

std::uint64_t CacheShape::page_bytes(const LayerGroup& group) const {
  std::uint64_t bytes = 0;
  for (const std::uint32_t layer : group.layers) bytes += layer_page_bytes(layer);
  return bytes;
}

std::uint64_t CacheShape::page_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) bytes += layer_page_bytes(i);
  return bytes;
}

std::vector<std::uint64_t> CacheShape::layer_places() const {
  std::vector<std::uint64_t> out{0};
  for (std::size_t i = 0; i < layers.size(); ++i) out.push_back(out.back() + layer_page_bytes(i));
  return out;
}

std::uint64_t CacheShape::state_bytes() const {
  return std::accumulate(states.begin(), states.end(), std::uint64_t{0});
}

namespace {

// Of a page and a state in the layers of a range.
double range_bytes(const CacheShape& of, const LayerRange& range) {
  double bytes = 0;
  for (std::size_t i = 0; i < of.layers.size(); ++i) {
    if (!range.has(i)) continue;
    bytes += static_cast<double>(of.layer_page_bytes(i));
    if (!of.states.empty()) bytes += static_cast<double>(of.states[i]);
  }
  return bytes;
}

}  // namespace

std::uint64_t CacheShape::share_of(const LayerRange& range, std::uint64_t bytes) const {
  const double all = range_bytes(*this, {});
  if (all == 0 || (range.first == 0 && range.end >= layers.size())) return bytes;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * range_bytes(*this, range) / all);
}

std::uint64_t CacheShape::whole_of(const LayerRange& range, std::uint64_t share) const {
  const double own = range_bytes(*this, range);
  if (range.first == 0 && range.end >= layers.size()) return share;
  if (own == 0) return std::numeric_limits<std::uint64_t>::max();  // it limits nothing
  return static_cast<std::uint64_t>(static_cast<double>(share) * range_bytes(*this, {}) / own);
}

Status CacheShape::check_room(std::uint64_t bytes) const {
  const std::uint64_t state = state_bytes();
  if (bytes >= page_bytes() + state) return {};
  std::string what = "--kv-memory of " + size_text(bytes) + " holds no page: one page of " +
                     std::to_string(kv_page_tokens) + " tokens takes " + size_text(page_bytes());
  if (state > 0) what += ", beside the state of a sequence, which takes " + size_text(state);
  return fail(Code::kv_exceeded, what, "raise --kv-memory");
}

std::uint64_t CacheShape::state_count(std::uint64_t bytes, const CacheLoad& load) const {
  const std::uint64_t each = state_bytes();
  if (each == 0) return 0;
  const std::uint64_t sequences = load.sequences == 0 ? default_sequences : load.sequences;
  const std::uint64_t running = std::clamp<std::uint64_t>(bytes / 2 / each, 1, sequences);
  const std::uint64_t known = std::min((bytes - running * each) / 4 / each, 2 * sequences);
  const std::uint64_t most = (bytes - std::min(bytes, page_bytes())) / each;  // beside a page
  return std::clamp<std::uint64_t>(running + known, 1, std::max<std::uint64_t>(most, 1));
}

std::vector<std::uint64_t> CacheShape::divide(std::uint64_t bytes, const CacheLoad& load) const {
  const std::vector<LayerGroup> all = groups();
  const auto pages_for = [](std::uint64_t tokens) {
    return (tokens + kv_page_tokens - 1) / kv_page_tokens;
  };
  bytes -= state_count(bytes, load) * state_bytes();
  if (page_bytes() == 0) return {pages_without_bytes};
  std::vector<std::uint64_t> out(all.size(), bytes / page_bytes());
  if (load.sequences == 0) return out;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::uint32_t window = all[i].window;
    const auto of_one = pages_for(most_window_positions(window, 1, kv_page_tokens));
    const auto of_steps = pages_for(2ull * load.step_tokens);
    const std::uint64_t of_all = load.sequences * of_one + of_steps;
    const auto least = pages_for(most_window_positions(window, load.row_tokens, kv_page_tokens));
    out[i] = std::min(out[i], std::max(least, of_all + of_all / 4));
    bytes -= out[i] * page_bytes(all[i]);
  }
  out[0] = bytes / page_bytes(all[0]);
  return out;
}

}  // namespace millrace::engine
