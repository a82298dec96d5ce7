#include "engine/core/fidelity/measure.hpp"

#include <algorithm>
#include <utility>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/fidelity/context_model.hpp"
#include "engine/core/model/kv_shape.hpp"

namespace millrace::engine {
namespace {

bool is_f16(const KvLayers& layers) {
  return std::ranges::all_of(layers.layers,
                             [](const KvCodecs& codecs) { return codecs == KvCodecs{}; });
}

std::uint32_t pages_of(std::uint32_t tokens) {
  return (tokens + kv_page_tokens - 1) / kv_page_tokens;
}

}  // namespace

// Some consecutive tokens of a context: the plan, the tokens that follow the scored positions, and
// how many positions were scored before.
struct FidelityRun::Step {
  StepPlan plan;
  Tokens targets;
  std::uint32_t scored_before = 0;

  Step(const FidelityContexts& contexts, std::uint32_t index, std::uint32_t at,
       std::uint32_t count) {
    const auto context = contexts.context(index);
    PlanRow row{.sequence = index, .first_position = at, .count = count};
    plan.tokens.assign(context.begin() + at, context.begin() + at + count);
    row.page_count = pages_of(contexts.size);
    row.keep_states_at(0);  // contexts take turns
    for (std::uint32_t i = 0; i < row.page_count; ++i) plan.pages.push_back(i);
    for (std::uint32_t i = at; i < at + count; ++i) {
      if (i < contexts.first || i + 1 >= contexts.size) continue;
      plan.outputs.push_back({i - at, OutputKind::logits});
      targets.push_back(context[i + 1]);
    }
    row.output_count = static_cast<std::uint32_t>(plan.outputs.size());
    plan.rows.push_back(row);
    scored_before = index * contexts.scored_each() + std::max(at, contexts.first) - contexts.first;
  }
};

Result<std::unique_ptr<FidelityRun>> FidelityRun::open(Device& device, const GgufFile& file,
                                                       const FidelityContexts& contexts,
                                                       const FidelityOptions& options,
                                                       LogitsFile* reference) {
  std::unique_ptr<FidelityRun> run(new FidelityRun(device, file, contexts));
  run->options_ = options;
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  run->shape_ = kv_shape(spec);
  if (contexts.size > spec.context_tokens) {
    return fail(Code::invalid_value,
                "contexts of " + std::to_string(contexts.size) + " tokens are longer than the " +
                    std::to_string(spec.context_tokens) + " of the model",
                "give a smaller --context");
  }
  if (reference != nullptr) {
    MILLRACE_ASSIGN(run->reference_row_, reference->first_row(contexts, spec.vocabulary));
    run->reference_ = reference;
    const std::uint64_t bytes =
        std::uint64_t{options.step_tokens} * spec.vocabulary * sizeof(float);
    MILLRACE_ASSIGN(run->reference_rows_, device.allocate(bytes, "the reference's logits"));
  }
  MILLRACE_ASSIGN(run->baseline_, run->load({}, false));
  MILLRACE_ASSIGN(run->comparison_,
                  Comparison::create(device, spec.vocabulary, options.step_tokens));
  return run;
}

Result<std::unique_ptr<Model>> FidelityRun::load(const KvPolicy& policy, bool of_policy) {
  ModelOptions options;
  options.kv = policy.name();
  options.step_tokens = options.step_outputs = options_.step_tokens;
  options.math = options_.math;
  if (of_policy) options.key_means = options_.key_means;
  return load_for_context(*device_, *file_, std::move(options), contexts_->size);
}

Result<PolicyFidelity> FidelityRun::measure(const KvPolicy& policy) {
  MILLRACE_ASSIGN(const KvLayers layers, resolve(policy, shape_));
  std::unique_ptr<Model> other;
  if (!is_f16(layers) || options_.key_means) {
    MILLRACE_ASSIGN(other, load(policy, true));
  }
  Model& model = other ? *other : *baseline_;
  Positions from_f16, from_reference;
  for (std::uint32_t i = 0; i < contexts_->count(); ++i) {
    for (std::uint32_t at = 0; at < contexts_->size; at += options_.step_tokens) {
      const std::uint32_t count = std::min(options_.step_tokens, contexts_->size - at);
      MILLRACE_TRY(run_step(model, Step(*contexts_, i, at, count), from_f16, from_reference));
    }
  }
  PolicyFidelity out;
  out.policy = policy.name();
  out.layers = model.info().kv;
  out.fingerprint = model.info().fingerprint;
  out.bytes_per_token = model.info().kv_token_bytes;
  out.compression = model.info().kv_compression;
  out.against_f16 = figures_of(from_f16);
  if (reference_ != nullptr) out.against_reference = figures_of(from_reference);
  MILLRACE_TRY(device_->finish());  // before the model's memory is freed
  return out;
}

Status FidelityRun::run_step(Model& model, const Step& step, Positions& from_f16,
                             Positions& from_reference) {
  MILLRACE_TRY(baseline_->forward(step.plan, {}));
  if (&model != baseline_.get()) MILLRACE_TRY(model.forward(step.plan, {}));
  const LogitRows truth{&baseline_->logits(), baseline_->logits_stride()};
  const LogitRows ours{&model.logits(), model.logits_stride()};
  MILLRACE_TRY(comparison_->compare(truth, ours, step.targets, "the model", from_f16));
  if (reference_ == nullptr || step.targets.empty()) return {};
  return compare_reference(ours, step, from_reference);
}

Status FidelityRun::compare_reference(const LogitRows& ours, const Step& step, Positions& out) {
  const std::uint32_t vocabulary = reference_->vocabulary();
  std::vector<float> rows(step.targets.size() * vocabulary);
  MILLRACE_TRY(reference_->read(reference_row_ + step.scored_before, rows));
  MILLRACE_TRY(device_->write(reference_rows_, 0, std::as_bytes(std::span(rows))));
  return comparison_->compare({&reference_rows_, vocabulary}, ours, step.targets,
                              reference_->path(), out);
}

}  // namespace millrace::engine
