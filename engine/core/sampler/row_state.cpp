#include "engine/core/sampler/row_state.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "kernels/sampler/state.h"
#include "schemas/base/limits.hpp"

namespace millrace::engine {
namespace {

using kernels::StateHeader;

constexpr std::uint32_t header_words = sizeof(StateHeader) / 4;

class Builder {
 public:
  Builder(const LogitEdits& edits, const RowHistory& history) : edits_(edits), history_(history) {
    state_.words.resize(header_words, 0);
  }

  RowState run(bool log) {
    put_bias();
    put_bans();
    put_dry();
    put_history();
    put_penalties();
    put_scratch(log);
    std::memcpy(state_.words.data(), &head_, sizeof head_);
    return std::move(state_);
  }

 private:
  std::vector<std::uint32_t>& words() { return state_.words; }
  std::uint32_t end() const { return static_cast<std::uint32_t>(state_.words.size()); }
  void append(std::span<const std::uint32_t> more) {
    words().insert(words().end(), more.begin(), more.end());
  }
  static std::uint32_t size_of(std::span<const TokenId> ids) {
    return static_cast<std::uint32_t>(ids.size());
  }

  void put_bias() {
    head_.bias_count = static_cast<std::uint32_t>(edits_.bias.size());
    head_.bias = end();
    for (const LogitBias& b : edits_.bias) words().push_back(b.token);
    for (const LogitBias& b : edits_.bias) words().push_back(word(b.bias));
    edited_ += edits_.bias.size();
  }

  void put_bans() {
    Tokens allowed = edits_.allowed;
    std::sort(allowed.begin(), allowed.end());
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
    head_.ngram = edits_.no_repeat_ngram;
    head_.allowed_count = size_of(allowed);
    head_.allowed = end();
    append(allowed);
    const std::uint32_t first = end();
    for (const Tokens& ids : edits_.bad_word_ids) {
      words().push_back(size_of(ids));
      append(ids);
    }
    head_.bad_words_size = end() - first;
    head_.bad_words = first;
  }

  void put_dry() {
    const Dry& dry = edits_.dry;
    if (dry.multiplier == 0.0f) return;
    head_.dry_allowed = dry.allowed_length;
    head_.dry_longest = limits::dry_length;
    head_.dry_window = dry.window;
    head_.breaker_count = size_of(dry.breaker_ids);
    head_.breakers = end();
    append(dry.breaker_ids);
    head_.dry_penalties = end();
    // Products instead of pow, whose results differ between C libraries.
    double penalty = dry.multiplier;
    for (std::uint32_t length = dry.allowed_length; length <= limits::dry_length; ++length) {
      words().push_back(word(static_cast<float>(std::min(penalty, 1e30))));
      penalty *= dry.base;
    }
  }

  void put_history() {
    head_.count = size_of(history_.prompt) + size_of(history_.output);
    head_.history = end();
    const std::uint32_t until = end() + history_.capacity;
    append(history_.prompt);
    append(history_.output);
    words().resize(until, 0);
  }

  void put_penalties() {
    const Penalty &r = edits_.repetition, &p = edits_.presence, &f = edits_.frequency;
    head_.repetition = r.value;
    head_.repetition_inverse = 1.0f / r.value;
    if (r.value != 1.0f) head_.repetition_table = table_for(r);
    head_.presence = p.value;
    if (p.value != 0.0f) head_.presence_table = table_for(p);
    head_.frequency = f.value;
    if (f.value != 0.0f) head_.frequency_table = table_for(f);
  }

  // Penalties of one scope and window share a table.
  std::uint32_t table_for(const Penalty& penalty) {
    const std::uint32_t first =
        penalty.scope == PenaltyScope::output ? size_of(history_.prompt) : 0;
    const std::uint32_t room = history_.capacity - first;
    const std::uint32_t window = penalty.window < room ? penalty.window : 0;
    const std::uint32_t entries = window > 0 ? window : room;
    edited_ += entries;
    for (std::uint32_t i = 0; i < head_.tables; ++i) {
      if (head_.table[i].first == first && head_.table[i].window == window) return i;
    }
    const std::map<TokenId, std::uint32_t> counts = count(first, window);
    const std::uint32_t until = end() + 2 * entries;
    head_.table[head_.tables] = {first, window, static_cast<std::uint32_t>(counts.size()), end()};
    for (const auto& [id, times] : counts) append(std::array{id, times});
    words().resize(until, 0);
    return head_.tables++;
  }

  std::map<TokenId, std::uint32_t> count(std::uint32_t first, std::uint32_t window) {
    const std::uint32_t tokens = head_.count;
    if (window > 0 && tokens - first > window) first = tokens - window;
    std::map<TokenId, std::uint32_t> counts;
    for (std::uint32_t i = first; i < tokens; ++i) ++counts[words()[head_.history + i]];
    return counts;
  }

  void put_scratch(bool log) {
    if (edits_.dry.multiplier != 0.0f) {
      const std::uint32_t entries = std::min(edits_.dry.window, history_.capacity);
      head_.dry_repeats = end();
      state_.scratch = 1 + 2 * entries;
      edited_ += entries;
    }
    if (!log || edited_ == 0) return;
    head_.log = end() + state_.scratch;
    state_.scratch += 2 * static_cast<std::uint32_t>(edited_);
  }

  const LogitEdits& edits_;
  const RowHistory& history_;
  RowState state_;
  StateHeader head_{};
  std::size_t edited_ = 0;  // most edits that a draw logs
};

}  // namespace

RowState build_row_state(const LogitEdits& edits, const RowHistory& history, bool log) {
  return Builder(edits, history).run(log);
}

}  // namespace millrace::engine
