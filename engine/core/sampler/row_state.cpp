#include "engine/core/sampler/row_state.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "schemas/base/limits.hpp"

namespace millrace::engine {
namespace {

// The numbers equal those of kernels/sampler/edits.cl.
enum Header : std::uint32_t {
  at_count = 0,
  at_history = 1,
  at_bias_count = 2,
  at_bias = 3,
  at_repetition = 4,
  at_presence = 7,
  at_frequency = 9,
  at_tables = 11,
  at_ngram = 12,
  at_allowed_count = 13,
  at_allowed = 14,
  at_bad_words = 15,
  at_bad_word = 16,
  at_dry_allowed = 17,
  at_dry_longest = 18,
  at_dry_window = 19,
  at_breaker_count = 20,
  at_breakers = 21,
  at_dry_penalties = 22,
  at_dry_repeats = 23,
  at_log = 24,
  at_table = 28,
};
constexpr std::uint32_t table_words = 4, most_tables = 3;
constexpr std::uint32_t header_words = at_table + table_words * most_tables;

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
    words()[at_bias_count] = static_cast<std::uint32_t>(edits_.bias.size());
    words()[at_bias] = end();
    for (const LogitBias& b : edits_.bias) words().push_back(b.token);
    for (const LogitBias& b : edits_.bias) words().push_back(word(b.bias));
    edited_ += edits_.bias.size();
  }

  void put_bans() {
    Tokens allowed = edits_.allowed;
    std::sort(allowed.begin(), allowed.end());
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
    words()[at_ngram] = edits_.no_repeat_ngram;
    words()[at_allowed_count] = size_of(allowed);
    words()[at_allowed] = end();
    append(allowed);
    const std::uint32_t first = end();
    for (const Tokens& ids : edits_.bad_word_ids) {
      words().push_back(size_of(ids));
      append(ids);
    }
    words()[at_bad_words] = end() - first;
    words()[at_bad_word] = first;
  }

  void put_dry() {
    const Dry& dry = edits_.dry;
    if (dry.multiplier == 0.0f) return;
    words()[at_dry_allowed] = dry.allowed_length;
    words()[at_dry_longest] = limits::dry_length;
    words()[at_dry_window] = dry.window;
    words()[at_breaker_count] = size_of(dry.breaker_ids);
    words()[at_breakers] = end();
    append(dry.breaker_ids);
    words()[at_dry_penalties] = end();
    // Products instead of pow, whose results differ between C libraries.
    double penalty = dry.multiplier;
    for (std::uint32_t length = dry.allowed_length; length <= limits::dry_length; ++length) {
      words().push_back(word(static_cast<float>(std::min(penalty, 1e30))));
      penalty *= dry.base;
    }
  }

  void put_history() {
    words()[at_count] = size_of(history_.prompt) + size_of(history_.output);
    words()[at_history] = end();
    const std::uint32_t until = end() + history_.capacity;
    append(history_.prompt);
    append(history_.output);
    words().resize(until, 0);
  }

  void put_penalties() {
    const Penalty &r = edits_.repetition, &p = edits_.presence, &f = edits_.frequency;
    words()[at_repetition] = word(r.value);
    words()[at_repetition + 1] = word(1.0f / r.value);
    if (r.value != 1.0f) words()[at_repetition + 2] = table_for(r);
    words()[at_presence] = word(p.value);
    if (p.value != 0.0f) words()[at_presence + 1] = table_for(p);
    words()[at_frequency] = word(f.value);
    if (f.value != 0.0f) words()[at_frequency + 1] = table_for(f);
  }

  // Penalties of one scope and window share a table.
  std::uint32_t table_for(const Penalty& penalty) {
    const std::uint32_t first =
        penalty.scope == PenaltyScope::output ? size_of(history_.prompt) : 0;
    const std::uint32_t room = history_.capacity - first;
    const std::uint32_t window = penalty.window < room ? penalty.window : 0;
    const std::uint32_t entries = window > 0 ? window : room;
    edited_ += entries;
    for (std::uint32_t i = 0; i < words()[at_tables]; ++i) {
      const std::uint32_t at = at_table + i * table_words;
      if (words()[at] == first && words()[at + 1] == window) return i;
    }
    const std::uint32_t at = at_table + words()[at_tables] * table_words;
    const std::map<TokenId, std::uint32_t> counts = count(first, window);
    words()[at] = first;
    words()[at + 1] = window;
    words()[at + 2] = static_cast<std::uint32_t>(counts.size());
    words()[at + 3] = end();
    const std::uint32_t until = end() + 2 * entries;
    for (const auto& [id, times] : counts) append(std::array{id, times});
    words().resize(until, 0);
    return words()[at_tables]++;
  }

  std::map<TokenId, std::uint32_t> count(std::uint32_t first, std::uint32_t window) {
    const std::uint32_t tokens = words()[at_count];
    if (window > 0 && tokens - first > window) first = tokens - window;
    std::map<TokenId, std::uint32_t> counts;
    for (std::uint32_t i = first; i < tokens; ++i) ++counts[words()[words()[at_history] + i]];
    return counts;
  }

  void put_scratch(bool log) {
    if (edits_.dry.multiplier != 0.0f) {
      const std::uint32_t entries = std::min(edits_.dry.window, history_.capacity);
      words()[at_dry_repeats] = end();
      state_.scratch = 1 + 2 * entries;
      edited_ += entries;
    }
    if (!log || edited_ == 0) return;
    words()[at_log] = end() + state_.scratch;
    state_.scratch += 2 * static_cast<std::uint32_t>(edited_);
  }

  const LogitEdits& edits_;
  const RowHistory& history_;
  RowState state_;
  std::size_t edited_ = 0;  // most edits that a draw logs
};

}  // namespace

RowState build_row_state(const LogitEdits& edits, const RowHistory& history, bool log) {
  return Builder(edits, history).run(log);
}

}  // namespace millrace::engine
