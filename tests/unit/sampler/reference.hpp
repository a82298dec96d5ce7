#pragma once
// What the sampler must do, written plainly on the host: the fp32 steps bit for bit (kernels/
// sampler/math.cl), filters by a full sort, and logprobs in float64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
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

// y of each token, and the survivors in order, after the bans and filters of a task.
struct Race {
  std::vector<float> y;
  Tokens survivors;
};

inline Race race(std::vector<float> logits, const SampleTask& task) {
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
