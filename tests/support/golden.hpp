#pragma once
// Logprobs and arg-max of logits as the reference computes them: natural logarithms of the softmax.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace millrace::testing {

inline double logprob(const std::vector<float>& logits, std::uint32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - top);
  return static_cast<double>(logits[token]) - top - std::log(sum);
}

inline std::uint32_t arg_max(const std::vector<float>& logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

}  // namespace millrace::testing
