#include "engine/core/fidelity/calibrate.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/fidelity/context_model.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/model/rope_tables.hpp"
#include "engine/core/model/stored_keys.hpp"

namespace millrace::engine {
namespace {

class KeySums {
 public:
  KeySums(const ModelSpec& spec, std::uint32_t positions)
      : spec_(&spec), shape_(kv_shape(spec)), ropes_(spec, positions), sums_(shape_.channels()) {}

  // Adds the keys of a context, whose pages have been read in order.
  void add(StoredKeys& keys, std::uint32_t positions) {
    double* layer_sums = sums_.data();
    for (std::uint32_t l = 0; l < shape_.count(); ++l) {
      const KvHeads& heads = shape_.layers[l];
      for (std::uint32_t p = 1; p < positions; ++p) {
        for (std::uint32_t g = 0; g < heads.kv_heads; ++g) {
          add_key(keys.key(l, g, p), l, p, layer_sums + std::size_t{g} * heads.head_dim);
        }
      }
      layer_sums += heads.channels();
    }
    count_ += positions - 1;
  }

  std::uint64_t count() const { return count_; }
  std::vector<float> means() const {
    std::vector<float> out;
    for (const double sum : sums_)
      out.push_back(static_cast<float>(sum / static_cast<double>(count_)));
    return out;
  }

 private:
  // Adds a key, rotated back to position 0.
  void add_key(std::span<const float> key, std::uint32_t layer, std::uint32_t position,
               double* sums) const {
    const RopeSpec& rope = spec_->layers[layer].attention.rope;
    const std::vector<float>& turns = ropes_.layer(layer);
    const std::size_t half = rope.dim / 2;
    const bool halves = rope.kind == RopeKind::halves;
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t first = halves ? i : 2 * i, second = halves ? i + half : 2 * i + 1;
      const float* const turn = &turns[(position * half + i) * 2];
      const double cosine = static_cast<double>(turn[0]), sine = static_cast<double>(turn[1]);
      const double a = static_cast<double>(key[first]), b = static_cast<double>(key[second]);
      sums[first] += a * cosine + b * sine;
      sums[second] += b * cosine - a * sine;
    }
    for (std::size_t d = 2 * half; d < key.size(); ++d) sums[d] += static_cast<double>(key[d]);
  }

  const ModelSpec* spec_;
  KvShape shape_;
  RopeTables ropes_;
  std::vector<double> sums_;
  std::uint64_t count_ = 0;
};

Status read_context(Device& device, Model& model, std::span<const TokenId> context,
                    std::uint32_t step_tokens, StoredKeys& keys) {
  std::vector<PageId> ids;
  for (std::uint32_t i = 0; i < model.info().page_count; ++i) ids.push_back(i);
  const auto size = static_cast<std::uint32_t>(context.size());
  for (std::uint32_t at = 0; at < size; at += step_tokens) {
    PlanRow row{.first_position = at, .count = std::min(step_tokens, size - at)};
    row.page_count = static_cast<std::uint32_t>(ids.size());
    row.keep_states_at(0);  // contexts take turns
    StepPlan plan;
    plan.tokens.assign(context.begin() + at, context.begin() + at + row.count);
    plan.pages = ids;
    plan.rows.push_back(row);
    MILLRACE_TRY(model.forward(plan, {}));
  }
  return keys.read(device, ids);
}

}  // namespace

Result<KeyMeans> calibrate_keys(Device& device, const GgufFile& file,
                                const FidelityContexts& contexts, const CalibrateOptions& options) {
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  MILLRACE_TRY(check_centering(kv_shape(spec)));
  if (contexts.size > spec.context_tokens) {
    return fail(Code::invalid_value,
                "contexts of " + std::to_string(contexts.size) + " tokens are longer than the " +
                    std::to_string(spec.context_tokens) + " of the model",
                "give a smaller --context");
  }
  ModelOptions model_options{.step_tokens = options.step_tokens, .step_outputs = 1};
  model_options.math = options.math;
  MILLRACE_ASSIGN(const auto model, load_for_context(device, file, model_options, contexts.size));
  KeySums sums(spec, contexts.size);
  StoredKeys keys(*model, spec);
  for (std::uint32_t i = 0; i < contexts.count(); ++i) {
    MILLRACE_TRY(read_context(device, *model, contexts.context(i), options.step_tokens, keys));
    sums.add(keys, contexts.size);
    if (options.progress) options.progress(i + 1);
  }
  return KeyMeans{.path = {},
                  .model = hash_model_file(file),
                  .shape = kv_shape(spec),
                  .tokens = sums.count(),
                  .values = sums.means()};
}

}  // namespace millrace::engine
