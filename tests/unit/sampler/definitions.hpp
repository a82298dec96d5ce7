#pragma once
// The definitions of the filters and of the draw, in float64: softmax, a sort, cumulative sums.
// They do not use the kernels' fp32 steps, weights and fixed-point shares, so that they can check
// them. Therefore they cannot decide about tokens within rounding of a cut, and mark these.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/philox.hpp"
#include "tests/unit/sampler/reference.hpp"

namespace millrace::engine::definition {

inline constexpr double near_cut = 1e-6;  // relative

// A distribution over the tokens while it passes the filters.
struct Share {
  std::vector<double> logit;        // after edits and bans, by temperature
  std::vector<double> probability;  // 0: removed by a filter
  std::vector<bool> close;          // within rounding of a cut: may be in or out
  int doubtful_filters = 0;  // filters that had such tokens; later ones may start from either

  // Likeliest first, equal ones by id.
  Tokens survivors() const {
    Tokens ids;
    for (TokenId id = 0; id < probability.size(); ++id) {
      if (probability[id] > 0) ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(),
                     [&](TokenId a, TokenId b) { return logit[a] > logit[b]; });
    return ids;
  }

  // Keeps only these and computes their shares again.
  void keep(const Tokens& ids) {
    std::vector<double> kept(probability.size(), 0);
    const double max = ids.empty() ? 0 : logit[ids.front()];
    double sum = 0;
    for (const TokenId id : ids) sum += std::exp(logit[id] - max);
    for (const TokenId id : ids) kept[id] = std::exp(logit[id] - max) / sum;
    probability = std::move(kept);
  }
};

// Records the tokens about which a filter decides within rounding.
class Doubts {
 public:
  explicit Doubts(Share& share) : share_(share) {}
  ~Doubts() { share_.doubtful_filters += any_ ? 1 : 0; }
  Doubts(const Doubts&) = delete;
  Doubts& operator=(const Doubts&) = delete;
  void add(TokenId id) {
    share_.close[id] = true;
    any_ = true;
  }

 private:
  Share& share_;
  bool any_ = false;
};

inline bool same_within(double a, double b, double relative_to) {
  return std::fabs(a - b) <= near_cut * std::max(1.0, std::fabs(relative_to));
}

inline void top_k(Share& share, std::uint32_t k) {
  Tokens ids = share.survivors();
  if (k == 0 || k >= ids.size()) return;
  Doubts doubts(share);
  const double in = share.logit[ids[k - 1]], out = share.logit[ids[k]];
  // Ids decide between equal ones; rounding may decide between nearly equal ones.
  if (in != out && same_within(in, out, in)) {
    for (const TokenId id : ids) {
      if (same_within(share.logit[id], in, in)) doubts.add(id);
    }
  }
  ids.resize(k);
  share.keep(ids);
}

// Keeps the shortest beginning of `ids` that has the mass.
inline void keep_mass(Share& share, Tokens ids, double mass, Doubts& doubts) {
  double before = 0;
  std::size_t kept = 0;
  for (const TokenId id : ids) {
    if (std::fabs(before - mass) <= near_cut * mass) doubts.add(id);
    if (before < mass) ++kept;
    before += share.probability[id];
  }
  ids.resize(kept);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return share.logit[a] > share.logit[b]; });
  share.keep(ids);
}

inline void top_p(Share& share, double mass) {
  if (mass >= 1) return;
  Doubts doubts(share);
  keep_mass(share, share.survivors(), mass, doubts);
}

// Keeps the tokens whose information is nearest to the entropy, up to the mass; equally near ones
// are ordered by id.
inline void typical(Share& share, double mass) {
  if (mass >= 1) return;
  Doubts doubts(share);
  Tokens ids = share.survivors();
  double entropy = 0;
  for (const TokenId id : ids) {
    entropy -= share.probability[id] * std::log(share.probability[id]);
  }
  const auto distance = [&](TokenId id) {
    return std::fabs(-std::log(share.probability[id]) - entropy);
  };
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return distance(a) != distance(b) ? distance(a) < distance(b) : a < b;
  });
  double before = 0;
  TokenId last = ids.front();
  for (std::size_t i = 0; i < ids.size() && before < mass; ++i) {
    last = ids[i];
    before += share.probability[last];
  }
  // The average is kept in units of 2^-20, of as many bits: tokens on both sides of it that are
  // this near to the last one may change places with it.
  const double cut = distance(last), room = 4 * near_cut * (1 + entropy);
  for (const TokenId id : ids) {
    if (share.logit[id] == share.logit[last] || std::fabs(distance(id) - cut) > room) continue;
    doubts.add(id);
    doubts.add(last);
  }
  keep_mass(share, ids, mass, doubts);
}

inline void min_p(Share& share, double part) {
  if (part <= 0) return;
  Doubts doubts(share);
  Tokens ids = share.survivors();
  const double max = share.logit[ids.front()], least = std::log(part);
  for (const TokenId id : ids) {
    if (id != ids.front() && same_within(share.logit[id] - max, least, least)) doubts.add(id);
  }
  std::erase_if(ids, [&](TokenId id) { return share.logit[id] - max < least; });
  share.keep(ids);
}

// Drops all tokens of at least the threshold's share but the least likely of them.
inline void xtc(Share& share, double threshold) {
  Doubts doubts(share);
  Tokens ids = share.survivors();
  const auto distance = [&](TokenId id) {
    return std::log(share.probability[id]) - std::log(threshold);
  };
  std::size_t above = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (share.probability[ids[i]] >= threshold) above = i + 1;
    if (!same_within(distance(ids[i]), 0, std::log(threshold))) continue;
    doubts.add(ids[i]);
    if (i > 0) doubts.add(ids[i - 1]);  // is the least likely one, or is not
  }
  if (above > 1) ids.erase(ids.begin(), ids.begin() + static_cast<long>(above - 1));
  share.keep(ids);
}

// The distribution of the draw; `exclude` says whether XTC's own draw fell within its probability.
inline Share share(const std::vector<float>& logits, const SampleTask& task, bool exclude) {
  Share out;
  out.logit = reference::edited(logits, task);
  for (const TokenId id : task.banned) out.logit[id] = -std::numeric_limits<double>::infinity();
  const Sampling& s = task.sampling;
  const bool greedy = s.temperature == 0;
  for (double& x : out.logit) x /= greedy ? 1 : double{s.temperature};
  out.close.assign(logits.size(), false);
  out.probability.assign(logits.size(), 0);
  Tokens ids;
  for (TokenId id = 0; id < logits.size(); ++id) {
    if (std::isfinite(out.logit[id])) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return out.logit[a] > out.logit[b]; });
  out.keep(ids);
  if (greedy || ids.empty()) return out;
  top_k(out, s.top_k);
  typical(out, s.typical_p);
  top_p(out, s.top_p);
  min_p(out, s.min_p);
  if (exclude) xtc(out, s.xtc_threshold);
  return out;
}

// Whether XTC excludes tokens at a task's position.
inline bool excludes(const SampleTask& task) {
  const auto words =
      philox4x32({0, task.position, task.sample, 1}, philox_key(task.sampling.seed.value_or(0)));
  return words[0] / 4294967296.0 < double{task.sampling.xtc_probability};
}

// The tokens with the largest logit + Gumbel noise: one, or those that rounding cannot tell apart.
inline Tokens drawn(const Share& share, const SampleTask& task) {
  std::vector<std::pair<double, TokenId>> values;
  for (TokenId id = 0; id < share.logit.size(); ++id) {
    if (share.probability[id] == 0) continue;
    const auto words = philox4x32({id / 64 * 16 + id % 16, task.position, task.sample, 0},
                                  philox_key(task.sampling.seed.value_or(0)));
    const double uniform = (words[id / 16 % 4] + 0.5) / 4294967296.0;
    const bool greedy = task.sampling.temperature == 0;
    values.emplace_back(share.logit[id] + (greedy ? 0 : -std::log(-std::log(uniform))), id);
  }
  const double best = std::max_element(values.begin(), values.end())->first;
  Tokens ids;
  for (const auto& [value, id] : values) {
    if (best - value <= 1e-5 * std::max(1.0, std::fabs(best))) ids.push_back(id);
  }
  return ids;
}

}  // namespace millrace::engine::definition
