#include "engine/core/model/backend/cpu/cpu_backend.hpp"

#include <algorithm>
#include <string>

#include "engine/core/model/activations.hpp"
#include "engine/core/model/backend/cpu/cpu_experts.hpp"
#include "engine/core/model/backend/cpu/layer_join.hpp"

namespace millrace::engine {
namespace {

// The heads of a latent are many. Those of a set, which share loads, are as many as registers hold
// the sums of. In other models a set is the heads of a KV head.
std::uint32_t head_sets_of(const AttentionCut& cut, std::uint32_t sums) {
  if (!cut.latent) return cut.kv_heads;
  std::uint32_t shared = std::min(cut.heads, sums);
  while (cut.heads % shared != 0) --shared;
  return cut.heads / shared;
}

// A tile has as many queries as there are registers for their sums, so that they share each key and
// value that is loaded. It has at least two tokens, because the kernel for decoding rows computes
// tiles of one.
std::vector<AttentionLimits> limits_for(const Target& target) {
  std::vector<AttentionLimits> out;
  for (const AttentionCut& cut : target.cuts) {
    const std::uint32_t sets = head_sets_of(cut, target.variant.sums);
    out.push_back({.tile_tokens = std::max(2u, target.variant.sums * sets / cut.heads),
                   .workers = target.device->info().compute_units,
                   .head_sets = sets});
  }
  return out;
}

// A run of whole layers behind the interface of all families.
class WholeLayersLaunch final : public LayerLaunch {
 public:
  WholeLayersLaunch(WholeLayers& whole_layers, LayerRun run)
      : whole_layers_(&whole_layers), run_(std::move(run)) {}
  Status run(const Activations& x, const StepTable& step, const Buffer& step_words) override {
    const Buffer& rows = run_.attended > 0 ? x.attended.at(run_.attended).rows : no_buffer;
    return whole_layers_->run(run_,
                              {x.hidden, x.normed, x.qkv, x.attended.at(run_.columns).codes, rows,
                               x.activated_codes(run_.dense_columns), x.branch, step, step_words});
  }

 private:
  WholeLayers* whole_layers_;
  LayerRun run_;
};

}  // namespace

CpuBackend::CpuBackend(Target of)
    : Backend(std::move(of)),
      device_(target().device),
      limits_(limits_for(target())),
      whole_layers_(target(), limits_, scratch_) {}

std::unique_ptr<ExpertProducts> CpuBackend::experts(const ExpertsSpec& spec, Gate gate) {
  return std::make_unique<CpuExperts>(*this, scratch_, spec, gate);
}

Result<JoinedLayers> CpuBackend::join(std::span<const LayerProgram> layers) {
  JoinedLayers out;
  for (; out.count < layers.size(); ++out.count) {
    out.why = why_in_parts(target(), layers[out.count]);
    if (!out.why.empty()) break;
    if (out.count == 0) continue;
    out.why = why_apart(layers.first(out.count), layers[out.count]);
    if (!out.why.empty()) break;
  }
  if (out.count == 0) return out;
  MILLRACE_ASSIGN(LayerRun run, whole_layers_.prepare(layers.first(out.count)));
  out.launch = std::make_unique<WholeLayersLaunch>(whole_layers_, std::move(run));
  return out;
}

std::vector<const Buffer*> CpuBackend::counters() const {
  std::vector<const Buffer*> out;
  for (const Buffer* buffer : {&scratch_.claims, &scratch_.work, &whole_layers_.counters()}) {
    if (*buffer) out.push_back(buffer);
  }
  return out;
}

}  // namespace millrace::engine
