#include "engine/core/model/model_stage.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/core/model/cache_room.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/weight_uploads.hpp"

namespace millrace::engine {

std::uint32_t ModelStage::positions() const {
  const std::uint64_t pool = std::uint64_t{cache.page_count()} * kv_page_tokens;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(spec.context_tokens, pool));
}

KvPages ModelStage::kv_pages(std::uint32_t index) const {
  const AttentionSpec& attention = spec.layers[index].attention;
  const std::uint32_t owner = attention.cache_of.value_or(index);  // of the pages
  return {cache.layer(owner), cache.shape().layers[owner], means.empty() ? no_buffer : means[owner],
          layers[index].sinks, attention.exists() ? operations->kind_of(attention) : 0};
}

Status ModelStage::load(const GgufFile& file, const KvLayers& kv, bool small_cache,
                        const std::function<Status()>& others) {
  times = {};
  const std::uint64_t bytes_before = device->allocated_bytes();
  MILLRACE_TRY(small_cache ? create_small_cache(kv) : create_cache(kv, options.kv_bytes));
  small_cache_bytes_ = device->allocated_bytes() - bytes_before;
  operations =
      std::make_unique<Operations>(*device, spec, options.math, options.variant, options.tuning);
  WeightUploads uploads(operations->backend(), file);
  MILLRACE_TRY(load_weights(*operations, file, range, options.step_tokens, uploads));
  MILLRACE_TRY(announce_programs(others));
  times.allocating_seconds = times.seconds();
  MILLRACE_ASSIGN(times.weights, uploads.run());
  MILLRACE_TRY(build_operations());
  MILLRACE_TRY(compile_layers());
  Status room = allocate_activations();
  if (room) return {};
  return fail(without_room(std::move(room).error(), "lower --step-tokens"));
}

Status ModelStage::create_cache(const KvLayers& kv, std::uint64_t kv_bytes) {
  cache = {};  // frees its memory
  MILLRACE_ASSIGN(
      cache, make_cache(*device, spec, kv, kv_bytes, options.kv_load, options.smaller_kv, range));
  return {};
}

Status ModelStage::create_small_cache(const KvLayers& kv) {
  MILLRACE_ASSIGN(cache, make_small_cache(*device, spec, kv, options.smaller_kv, range));
  return {};
}

std::uint64_t ModelStage::cache_bytes_left() const {
  return left_for_cache(device->info(), device->allocated_bytes() - small_cache_bytes_);
}

// Begins to build what the functions below build.
Status ModelStage::announce_programs(const std::function<Status()>& others) {
  return device->announce([&]() -> Status {
    if (others) MILLRACE_TRY(others());
    MILLRACE_TRY(build_operations());
    // Layers may share a launch on such a device; then most of the following would be in vain.
    if (options.whole_layers && device->has_addresses()) return {};
    MILLRACE_TRY(compile_layers());
    for (const LayerProgram& program : programs) MILLRACE_TRY(prepare_layer(*operations, program));
    return {};
  });
}

// Builds the kernels that do not depend on how keys and values are stored.
Status ModelStage::build_operations() {
  Backend& backend = operations->backend();
  MILLRACE_TRY(operations->prepare_layer());
  if (is_last()) MILLRACE_TRY(operations->prepare_logits());
  MILLRACE_TRY(layer_embedding.prepare());
  for (std::uint32_t i = range.first; i < range.end; ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (expert_weights[i]) {
      MILLRACE_TRY(sublayers_.experts(backend, layer).prepare(*expert_weights[i]));
    }
    if (layer.recurrence.exists()) {
      MILLRACE_TRY(sublayers_.recurrence(backend, layer, layers[i].recurrence, options.step_tokens)
                       .allocate());
    }
  }
  if (is_first()) MILLRACE_TRY(operations->prepare_embedding(embedding));
  return is_last() ? operations->prepare_product(head()) : Status();
}

Status ModelStage::compile_layers() {
  if (ropes_.positions != positions()) {
    MILLRACE_ASSIGN(ropes_, DeviceRopes::load(*device, spec, positions()));
    MILLRACE_ASSIGN(query_factors_, load_query_factors(*device, spec, positions()));
  }
  programs.clear();
  for (std::uint32_t i = range.first; i < range.end; ++i) {
    const LayerSpec& layer = spec.layers[i];
    LayerParts parts{.weights = layers[i],
                     .kv = kv_pages(i),
                     .rope = ropes_.layer(i),
                     .query_factors = query_factors_,
                     .head_products = sublayers_.head_products(operations->backend(), layer,
                                                               options.step_tokens),
                     .states = cache.states(i),
                     .layer_embeddings = layer_embedding.rows(),
                     .embeddings_stride = spec.layer_count() * spec.layer_embedding,
                     .index = i};
    if (expert_weights[i]) {
      parts.experts = &sublayers_.experts(operations->backend(), layer);
      parts.expert_weights = &*expert_weights[i];
    }
    if (layer.recurrence.exists()) {
      parts.recurrence = &sublayers_.recurrence(operations->backend(), layer, layers[i].recurrence,
                                                options.step_tokens);
    }
    programs.push_back(compile_layer(layer, parts, *operations));
  }
  return {};
}

Status ModelStage::build_layers() {
  MILLRACE_TRY(compile_layers());
  joined_.clear();
  layer_path = {};
  std::string why_apart;  // why layer i does not run with those before it
  for (std::uint32_t i = 0; i < programs.size(); ++i) {
    JoinedLayers found;  // layers from this one on that one launch computes
    found.why = "whole layers are turned off";
    if (options.whole_layers) {
      MILLRACE_ASSIGN(found, operations->backend().join(std::span(programs).subspan(i)));
    }
    if (found.count > 0) {
      layer_path.add_whole(found.count, why_apart);
      why_apart = found.why;
      const std::uint32_t count = found.count;
      joined_[i] = std::move(found);
      i += count - 1;
      continue;
    }
    layer_path.add_in_parts(found.why);
    MILLRACE_TRY(prepare_layer(*operations, programs[i]));
  }
  return {};
}

Status ModelStage::allocate_activations() {
  MILLRACE_TRY(act.allocate(spec, programs, head(), *operations, options.step_tokens,
                            options.step_outputs,
                            layer_embedding.exists() ? layer_embedding.inputs() : Forms{}));
  MILLRACE_ASSIGN(no_ids_, device->allocate_zeroed(sizeof(std::uint32_t), "an id"));
  if (!is_last()) return {};
  const std::uint64_t bytes = std::uint64_t{head().rows} * options.step_outputs * sizeof(float);
  MILLRACE_ASSIGN(logits, device->allocate(bytes, "logits"));
  return {};
}

Status ModelStage::write_step(const StepTable& step) {
  const auto bytes = std::as_bytes(std::span(step.words));
  if (step_words_.size_bytes() < bytes.size()) {
    // The driver keeps the old buffer until the commands that read it are done.
    MILLRACE_ASSIGN(step_words_, device->allocate(bytes.size() * 2, "the step's table"));
  }
  return device->write(step_words_, 0, bytes);
}

Status ModelStage::run_layers(const StepTable& step) {
  for (std::uint32_t i = 0; i < programs.size();) {
    const auto run = joined_.find(i);
    if (run == joined_.end()) {
      MILLRACE_TRY(run_layer(*operations, programs[i++], act, step, step_words_));
      continue;
    }
    MILLRACE_TRY(run->second.launch->run(act, step, step_words_));
    i += run->second.count;
  }
  return {};
}

Status ModelStage::run(StepTable& step, const Buffer& device_ids) {
  operations->backend().cut_attention(step);
  MILLRACE_TRY(write_step(step));
  const Buffer& ids = device_ids ? device_ids : no_ids_;
  if (is_first()) {
    MILLRACE_TRY(operations->embed(embedding, step, step_words_, ids, act.hidden));
    if (layer_embedding.exists()) {
      MILLRACE_TRY(layer_embedding.run(act.hidden, act.normed, step, step_words_, ids));
    }
  }
  MILLRACE_TRY(run_layers(step));
  if (!is_last() || step.outputs == 0) return device->flush();
  MILLRACE_TRY(operations->norm(act.hidden, output_norm, act.normed, operations->inputs_of(head()),
                                step, step_words_, true));
  MILLRACE_TRY(operations->project(head(), act.normed, step.outputs, logits, head().rows,
                                   Accumulate::replace));
  MILLRACE_TRY(operations->limit_logits(logits, step.outputs, head().rows));
  return device->flush();
}

}  // namespace millrace::engine
