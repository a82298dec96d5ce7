#pragma once
// Figures that summarize many positions. Thread safety: pure functions.
#include <cstdint>
#include <span>

namespace millrace::engine {

// The comparison of one position. Logarithms are natural.
struct PositionFidelity {
  float kld = 0;            // KL(truth || ours), nats
  float truth_logprob = 0;  // of the token that follows in the text
  float logprob = 0;        // our logprob of that token
  bool same_top = false;    // the most likely token is the same
};

struct FidelityFigures {
  std::uint64_t positions = 0;
  double mean_kld = 0, p99_kld = 0, max_kld = 0;  // nats
  double top1 = 0;                                // share of positions with the same arg-max
  double perplexity = 0, truth_perplexity = 0;    // of the text's own tokens
};

// p99_kld is interpolated between two positions. All figures are zero without positions.
FidelityFigures figures_of(std::span<const PositionFidelity> positions);

}  // namespace millrace::engine
