#pragma once
// A plain version of the sampler on the host: the fp32 steps bit for bit (kernels/sampler/math.cl),
// filters by a full sort, and logprobs in float64. definitions.hpp checks the filters without those
// steps.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/philox.hpp"

namespace millrace::engine::reference {

inline float log1p(float f) {
  float p = 0.0674023256f;
  for (const float c : {-0.117272295f, 0.119239256f, -0.123992212f, 0.142126068f, -0.166680425f,
                        0.200025767f, -0.250000238f, 0.333333015f, -0.5f, 1.0f}) {
    p = std::fma(p, f, c);
  }
  return p * f;
}

inline float log(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f800000u);
  const float e = static_cast<float>(static_cast<int>(bits >> 23) - 127);
  const bool high = m > 1.41421354f;
  return std::fma(high ? e + 1.0f : e, 0.693147182f, log1p((high ? m * 0.5f : m) - 1.0f));
}

inline float gumbel(std::uint32_t x) {
  const float unit = 2.32830644e-10f;
  const float exponential = x >= 0xb504f334u ? -log1p((static_cast<float>(~x) + 0.5f) * -unit)
                                             : -log((static_cast<float>(x) + 0.5f) * unit);
  return -log(exponential);
}

inline float exp(float x) {
  if (x < -30.0f) return 0.0f;
  const float n = std::fma(x, 1.44269504f, 12582912.0f) - 12582912.0f;
  const float r = std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, x));
  float p = 1.98412698e-4f;
  for (const float c :
       {1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f, 1.0f, 1.0f}) {
    p = std::fma(p, r, c);
  }
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

inline std::uint64_t weight(float y) {
  return static_cast<std::uint64_t>(exp(y) * 1.09951163e12f);
}

inline float noise(const SampleTask& task, TokenId id) {
  const auto words = philox4x32({id / 64 * 16 + id % 16, task.position, task.sample, 0},
                                philox_key(task.sampling.seed.value_or(0)));
  return gumbel(words[id / 16 % 4]);
}

// All ids, likeliest first.
inline Tokens order(const std::vector<float>& logits) {
  Tokens ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  return ids;
}

// The tokens that a penalty counts, by id.
inline std::map<TokenId, std::uint32_t> counted(const Penalty& penalty, const SampleTask& task) {
  Tokens seen;
  if (penalty.scope == PenaltyScope::all) {
    seen.assign(task.history.prompt.begin(), task.history.prompt.end());
  }
  seen.insert(seen.end(), task.history.output.begin(), task.history.output.end());
  std::map<TokenId, std::uint32_t> counts;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (penalty.window == 0 || seen.size() - i <= penalty.window) ++counts[seen[i]];
  }
  return counts;
}

inline Tokens all_tokens(const SampleTask& task) {
  Tokens all(task.history.prompt.begin(), task.history.prompt.end());
  all.insert(all.end(), task.history.output.begin(), task.history.output.end());
  return all;
}

// What DRY subtracts from each token, from the length of the repeat that ends before each place of
// the window.
inline std::map<TokenId, double> dry_losses(const Dry& dry, const Tokens& all) {
  std::map<TokenId, double> losses;
  const std::size_t first = all.size() > dry.window ? all.size() - dry.window : 0;
  const Tokens h(all.begin() + static_cast<long>(first), all.end());
  const auto breaks = [&](TokenId id) {
    return std::find(dry.breaker_ids.begin(), dry.breaker_ids.end(), id) != dry.breaker_ids.end();
  };
  for (std::size_t at = 1; at < h.size(); ++at) {
    std::size_t length = 0;
    while (length < at && length < 64 && h[at - 1 - length] == h[h.size() - 1 - length] &&
           !breaks(h[h.size() - 1 - length])) {
      ++length;
    }
    if (length < dry.allowed_length || breaks(h[at])) continue;
    const double loss = dry.multiplier * std::pow(double{dry.base},
                                                  static_cast<double>(length) - dry.allowed_length);
    losses[h[at]] = std::max(losses[h[at]], std::min(loss, 1e30));
  }
  return losses;
}

// Tokens that n-grams, allowed ids and bad words rule out.
inline std::set<TokenId> ruled_out(const LogitEdits& e, const Tokens& all, std::size_t vocabulary) {
  std::set<TokenId> out;
  const auto completes = [&](const Tokens& sequence) {
    return sequence.size() <= all.size() + 1 &&
           std::equal(sequence.begin(), sequence.end() - 1,
                      all.end() - static_cast<long>(sequence.size() - 1));
  };
  for (std::size_t i = 0; e.no_repeat_ngram > 0 && i + e.no_repeat_ngram <= all.size(); ++i) {
    const auto first = all.begin() + static_cast<long>(i);
    const Tokens sequence(first, first + e.no_repeat_ngram);
    if (completes(sequence)) out.insert(sequence.back());
  }
  for (TokenId id = 0; !e.allowed.empty() && id < vocabulary; ++id) {
    if (std::find(e.allowed.begin(), e.allowed.end(), id) == e.allowed.end()) out.insert(id);
  }
  for (const Tokens& sequence : e.bad_word_ids) {
    if (completes(sequence)) out.insert(sequence.back());
  }
  return out;
}

// The edited logits, in float64, rounded once at the end.
inline std::vector<double> edited(const std::vector<float>& logits, const SampleTask& task) {
  std::vector<double> out(logits.begin(), logits.end());
  if (task.edits == nullptr) return out;
  const LogitEdits& e = *task.edits;
  for (const LogitBias& b : e.bias) out[b.token] += b.bias;
  for (const auto& [id, count] : counted(e.repetition, task)) {
    out[id] = out[id] > 0 ? out[id] / e.repetition.value : out[id] * e.repetition.value;
  }
  for (const auto& [id, count] : counted(e.presence, task)) out[id] -= e.presence.value;
  for (const auto& [id, count] : counted(e.frequency, task)) {
    out[id] -= double{e.frequency.value} * count;
  }
  const Tokens all = all_tokens(task);
  if (e.dry.multiplier != 0 && !all.empty()) {
    for (const auto& [id, loss] : dry_losses(e.dry, all)) out[id] -= loss;
  }
  for (const TokenId id : ruled_out(e, all, logits.size())) {
    out[id] = -std::numeric_limits<double>::infinity();
  }
  return out;
}

inline void apply_edits(std::vector<float>& logits, const SampleTask& task) {
  if (task.edits == nullptr) return;
  const std::vector<double> exact = edited(logits, task);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(exact[i]);
}

// y of each token, and the survivors in order, after the bans and filters of a task.
struct Race {
  std::vector<float> y;
  Tokens survivors;
};

// The survivors nearest to the average information, equally near ones by id; y counted anew.
inline void keep_typical(const std::vector<float>& logits, Race& r, float inverse,
                         float typical_p) {
  const auto share = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<double>(typical_p) * 4294967296.0));
  std::uint64_t mass = 0, spread = 0;
  for (const TokenId id : r.survivors) {
    mass += weight(r.y[id]);
    if (r.y[id] >= -30.0f) {
      spread += static_cast<std::uint64_t>(exp(r.y[id]) * -r.y[id] * 1.09951163e12f);
    }
  }
  const auto mean = static_cast<std::uint32_t>(spread / (mass >> 20));
  const float middle = static_cast<float>(mean) * 9.53674316e-7f;
  Tokens near = r.survivors;
  std::sort(near.begin(), near.end(), [&](TokenId a, TokenId b) {
    const float left = std::fabs(r.y[a] + middle), right = std::fabs(r.y[b] + middle);
    return left != right ? left < right : a < b;
  });
  const std::uint64_t target =
      std::max<std::uint64_t>((mass >> 32) * share + ((mass & 0xffffffffu) * share >> 32), 1);
  std::size_t kept = 0;
  for (std::uint64_t sum = 0; sum < target; ++kept) sum += weight(r.y[near[kept]]);
  near.resize(kept);
  std::erase_if(r.survivors,
                [&](TokenId id) { return std::find(near.begin(), near.end(), id) == near.end(); });
  const float max = logits[r.survivors.front()];
  for (std::size_t i = 0; i < logits.size(); ++i) r.y[i] = (logits[i] - max) * inverse;
}

inline void drop_xtc(Race& r, const SampleTask& task) {
  const Sampling& s = task.sampling;
  const auto fixed = [](float p) {
    return static_cast<std::uint64_t>(static_cast<double>(p) * 4294967296.0);
  };
  const auto words = philox4x32({0, task.position, task.sample, 1}, philox_key(s.seed.value_or(0)));
  if (words[0] >= fixed(s.xtc_probability)) return;
  std::uint64_t mass = 0;
  for (const TokenId id : r.survivors) mass += weight(r.y[id]);
  const std::uint64_t t = fixed(s.xtc_threshold);
  const std::uint64_t target =
      std::max<std::uint64_t>((mass >> 32) * t + ((mass & 0xffffffffu) * t >> 32), 1);
  std::size_t above = 0;  // survivors are in order, so are their weights
  while (above < r.survivors.size() && weight(r.y[r.survivors[above]]) >= target) ++above;
  if (above > 1)
    r.survivors.erase(r.survivors.begin(), r.survivors.begin() + static_cast<long>(above - 1));
}

inline Race race(std::vector<float> logits, const SampleTask& task) {
  apply_edits(logits, task);
  for (const TokenId id : task.banned) logits[id] = -std::numeric_limits<float>::infinity();
  const Sampling& s = task.sampling;
  const bool greedy = s.temperature == 0.0f;
  const float max = *std::max_element(logits.begin(), logits.end());
  const float inverse = greedy ? 1.0f : std::min(1.0f / s.temperature, 1e30f);
  Race out;
  for (const float x : logits) out.y.push_back((x - max) * inverse);
  out.survivors = order(logits);
  if (greedy) return out;
  auto& left = out.survivors;
  if (s.top_k > 0 && s.top_k < left.size()) left.resize(s.top_k);
  if (s.typical_p < 1.0f) keep_typical(logits, out, inverse, s.typical_p);
  if (s.top_p < 1.0f) {
    std::uint64_t total = 0, sum = 0;
    for (const TokenId id : left) total += weight(out.y[id]);
    const auto share = static_cast<std::uint64_t>(static_cast<double>(s.top_p) * 4294967296.0);
    const std::uint64_t target =
        std::max<std::uint64_t>((total >> 32) * share + ((total & 0xffffffffu) * share >> 32), 1);
    std::size_t kept = 0;
    while (sum < target) sum += weight(out.y[left[kept++]]);
    left.resize(kept);
  }
  if (s.min_p > 0.0f) {
    const float least = log(s.min_p);
    std::erase_if(left, [&](TokenId id) { return out.y[id] < least; });
  }
  drop_xtc(out, task);
  return out;
}

inline TokenId draw(const std::vector<float>& logits, const SampleTask& task) {
  const Race r = race(logits, task);
  if (task.sampling.temperature == 0.0f) return r.survivors.front();
  Tokens ids = r.survivors;
  std::sort(ids.begin(), ids.end());
  float best = -std::numeric_limits<float>::infinity();
  TokenId winner = 0;
  for (const TokenId id : ids) {
    const float value = r.y[id] + noise(task, id);
    if (value > best) {
      best = value;
      winner = id;
    }
  }
  return winner;
}

// float64 logprobs of every token: raw, or of the race.
inline std::vector<double> logprobs(const std::vector<float>& logits, const SampleTask* race_of) {
  const double none = -std::numeric_limits<double>::infinity();
  std::vector<double> out(logits.size(), none);
  double sum = 0;
  if (race_of == nullptr) {
    const double max = *std::max_element(logits.begin(), logits.end());
    for (const float x : logits) sum += std::exp(x - max);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = logits[i] - max - std::log(sum);
    return out;
  }
  const Race r = race(logits, *race_of);
  for (const TokenId id : r.survivors) sum += std::exp(double{r.y[id]});
  for (const TokenId id : r.survivors) out[id] = double{r.y[id]} - std::log(sum);
  return out;
}

}  // namespace millrace::engine::reference
