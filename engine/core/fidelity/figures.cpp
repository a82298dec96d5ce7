#include "engine/core/fidelity/figures.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace millrace::engine {

FidelityFigures figures_of(std::span<const PositionFidelity> positions) {
  FidelityFigures out;
  out.positions = positions.size();
  if (positions.empty()) return out;
  std::vector<float> klds;
  double kld = 0, same = 0, ours = 0, truth = 0;
  for (const PositionFidelity& at : positions) {
    klds.push_back(at.kld);
    kld += at.kld;
    same += at.same_top ? 1 : 0;
    ours += at.logprob;
    truth += at.truth_logprob;
  }
  std::ranges::sort(klds);
  const double place = 0.99 * static_cast<double>(klds.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, klds.size() - 1);
  const double part = place - static_cast<double>(below);
  const auto count = static_cast<double>(positions.size());
  out.mean_kld = kld / count;
  out.p99_kld = klds[below] + part * (static_cast<double>(klds[above]) - klds[below]);
  out.max_kld = klds.back();
  out.top1 = same / count;
  out.perplexity = std::exp(-ours / count);
  out.truth_perplexity = std::exp(-truth / count);
  return out;
}

}  // namespace millrace::engine
