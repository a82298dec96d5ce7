#include "engine/core/model/model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/kv/kv_cache.hpp"
#include "engine/core/model/activations.hpp"
#include "engine/core/model/cache_room.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/key_center.hpp"
#include "engine/core/model/key_probe.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/load_times.hpp"
#include "engine/core/model/model_weights.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/rope_tables.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/sublayers.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {

// Its weights are members of its own.
struct Model::State : ModelWeights {
  Device* device = nullptr;
  ModelSpec spec;
  ModelInfo info;
  ModelOptions options;
  Buffer step_words;
  std::unique_ptr<Operations> operations;
  Sublayers sublayers;
  DeviceRopes ropes;
  Buffer query_factors;                // by position; empty for most models
  std::vector<Buffer> means;           // of keys, by layer; empty if keys are not centered
  std::vector<LayerProgram> programs;  // of each layer, for the codecs of the current cache
  std::map<std::uint32_t, JoinedLayers> joined;  // by the index of their first layer
  KvCache cache;
  Activations act;
  Buffer logits;  // [outputs][logits stride]
  StepLowering lowering;
  StepTable last_step;
  Buffer no_ids;  // stands in for the sampler's ids when no row needs them

  const Projection& head() const { return spec.tied_output ? embedding : output; }
  // The most positions that a sequence can have: the pool may hold less than the model's context.
  std::uint32_t positions() const {
    const std::uint64_t pool = std::uint64_t{cache.page_count()} * kv_page_tokens;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(spec.context_tokens, pool));
  }

  KvPages kv_pages(std::uint32_t index) const {
    const AttentionSpec& attention = spec.layers[index].attention;
    const std::uint32_t owner = attention.cache_of.value_or(index);  // of the pages
    return {cache.layer(owner), cache.shape().layers[owner],
            means.empty() ? no_buffer : means[owner], layers[index].sinks,
            attention.exists() ? operations->kind_of(attention) : 0};
  }
  // Begins to build what the functions below build.
  Status announce_programs();
  Result<KvCache> create_cache(const KvLayers& kv) const {
    return make_cache(*device, spec, kv, options.kv_bytes, options.kv_load, options.smaller_kv);
  }
  Status take_rest(const KvLayers& kv, std::uint64_t used_bytes);
  Status build_operations();
  // For the codecs of the current cache: the operations of all layers, then their kernels too.
  Status compile_layers();
  Status build_layers();
  Status allocate_activations();
  Status write_step(const StepTable& step);
  Status run_layers(const StepTable& step);
};

Status Model::State::announce_programs() {
  return device->announce([this]() -> Status {
    if (options.other_programs) MILLRACE_TRY(options.other_programs());
    MILLRACE_TRY(build_operations());
    // Layers may share a launch on such a device; then most of the following would be in vain.
    if (options.whole_layers && device->has_addresses()) return {};
    MILLRACE_TRY(compile_layers());
    for (const LayerProgram& program : programs) MILLRACE_TRY(prepare_layer(*operations, program));
    return {};
  });
}

// Builds the kernels that do not depend on how keys and values are stored.
Status Model::State::build_operations() {
  Backend& backend = operations->backend();
  MILLRACE_TRY(operations->prepare_layer());
  MILLRACE_TRY(operations->prepare_logits());
  MILLRACE_TRY(layer_embedding.prepare());
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (expert_weights[i]) {
      MILLRACE_TRY(sublayers.experts(backend, layer).prepare(*expert_weights[i]));
    }
    if (layer.recurrence.exists()) {
      MILLRACE_TRY(sublayers.recurrence(backend, layer, layers[i].recurrence, options.step_tokens)
                       .allocate());
    }
  }
  MILLRACE_TRY(operations->prepare_embedding(embedding));
  return operations->prepare_product(head());
}

Status Model::State::compile_layers() {
  if (ropes.positions != positions()) {
    MILLRACE_ASSIGN(ropes, DeviceRopes::load(*device, spec, positions()));
    MILLRACE_ASSIGN(query_factors, load_query_factors(*device, spec, positions()));
  }
  programs.clear();
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    LayerParts parts{
        .weights = layers[i],
        .kv = kv_pages(i),
        .rope = ropes.layer(i),
        .query_factors = query_factors,
        .head_products = sublayers.head_products(operations->backend(), layer, options.step_tokens),
        .states = cache.states(i),
        .layer_embeddings = layer_embedding.rows(),
        .embeddings_stride = spec.layer_count() * spec.layer_embedding,
        .index = i};
    if (expert_weights[i]) {
      parts.experts = &sublayers.experts(operations->backend(), layer);
      parts.expert_weights = &*expert_weights[i];
    }
    if (layer.recurrence.exists()) {
      parts.recurrence = &sublayers.recurrence(operations->backend(), layer, layers[i].recurrence,
                                               options.step_tokens);
    }
    programs.push_back(compile_layer(layer, parts, *operations));
  }
  return {};
}

Status Model::State::build_layers() {
  MILLRACE_TRY(compile_layers());
  joined.clear();
  info.layer_path = {};
  std::string why_apart;  // why layer i does not run with those before it
  for (std::uint32_t i = 0; i < programs.size(); ++i) {
    JoinedLayers found;  // layers from this one on that one launch computes
    found.why = "whole layers are turned off";
    if (options.whole_layers) {
      MILLRACE_ASSIGN(found, operations->backend().join(std::span(programs).subspan(i)));
    }
    if (found.count > 0) {
      info.layer_path.add_whole(found.count, why_apart);
      why_apart = found.why;
      const std::uint32_t count = found.count;
      joined[i] = std::move(found);
      i += count - 1;
      continue;
    }
    info.layer_path.add_in_parts(found.why);
    MILLRACE_TRY(prepare_layer(*operations, programs[i]));
  }
  return {};
}

Status Model::State::allocate_activations() {
  MILLRACE_TRY(act.allocate(spec, programs, head(), *operations, options.step_tokens,
                            options.step_outputs,
                            layer_embedding.exists() ? layer_embedding.inputs() : Forms{}));
  MILLRACE_ASSIGN(no_ids, device->allocate_zeroed(sizeof(std::uint32_t), "an id"));
  const std::uint64_t bytes = std::uint64_t{head().rows} * options.step_outputs * sizeof(float);
  MILLRACE_ASSIGN(logits, device->allocate(bytes, "logits"));
  return {};
}

Status Model::State::write_step(const StepTable& step) {
  const auto bytes = std::as_bytes(std::span(step.words));
  if (step_words.size_bytes() < bytes.size()) {
    // The driver keeps the old buffer until the commands that read it are done.
    MILLRACE_ASSIGN(step_words, device->allocate(bytes.size() * 2, "the step's table"));
  }
  return device->write(step_words, 0, bytes);
}

Status Model::State::run_layers(const StepTable& step) {
  for (std::uint32_t i = 0; i < programs.size();) {
    const auto run = joined.find(i);
    if (run == joined.end()) {
      MILLRACE_TRY(run_layer(*operations, programs[i++], act, step, step_words));
      continue;
    }
    MILLRACE_TRY(run->second.launch->run(act, step, step_words));
    i += run->second.count;
  }
  return {};
}

// Replaces the small cache by one that takes what the device has left.
Status Model::State::take_rest(const KvLayers& kv, std::uint64_t used_bytes) {
  options.kv_bytes = left_for_cache(device->info(), used_bytes);
  log_info("KV memory chosen", {{"bytes", options.kv_bytes}, {"used_bytes", used_bytes}});
  cache = {};  // frees its memory
  MILLRACE_ASSIGN(cache, create_cache(kv));
  return {};
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Waits, because launches do not keep buffers alive that kernels access by address.
Model::~Model() {
  static_cast<void>(state_->device->finish());
}

Result<std::unique_ptr<Model>> Model::load(Device& device, const GgufFile& file,
                                           const ModelOptions& options) {
  MILLRACE_ASSIGN(ModelSpec spec, read_spec(file));
  return load(device, file, std::move(spec), options);
}

Result<std::unique_ptr<Model>> Model::load(Device& device, const GgufFile& file, ModelSpec given,
                                           const ModelOptions& options) {
  if (options.step_tokens == 0 || options.step_outputs == 0) {
    return fail(Code::invalid_value, "a step must allow at least one token and one output",
                "raise step_tokens and step_outputs");
  }
  const std::uint64_t bytes_before = device.allocated_bytes();
  auto state = std::make_unique<State>();
  state->device = &device;
  state->options = options;
  MILLRACE_ASSIGN(const KvPolicy policy, parse_kv_policy(options.kv));
  state->spec = std::move(given);
  const ModelSpec& spec = state->spec;
  const KvShape shape = kv_shape(spec);
  MILLRACE_ASSIGN(KvLayers kv, resolve(policy, shape));
  ModelFileHash file_hash(file);
  if (options.key_means) {
    MILLRACE_TRY(options.key_means->check(file_hash.get(), shape));
    for (KvCodecs& codecs : kv.layers) codecs.centered = true;
  }
  auto cache = options.kv_takes_rest ? make_small_cache(device, spec, kv, options.smaller_kv)
                                     : state->create_cache(kv);
  MILLRACE_ASSIGN(state->cache, std::move(cache));
  const std::uint64_t small_bytes = device.allocated_bytes() - bytes_before;
  state->operations =
      std::make_unique<Operations>(device, spec, options.math, options.variant, options.tuning);
  LoadTimes times;
  WeightUploads uploads(state->operations->backend(), file);
  MILLRACE_TRY(state->load_weights(*state->operations, file, options.step_tokens, uploads));
  MILLRACE_TRY(state->announce_programs());
  times.allocating_seconds = times.seconds();
  MILLRACE_ASSIGN(times.weights, uploads.run());
  MILLRACE_TRY(state->build_operations());
  MILLRACE_TRY(state->compile_layers());
  if (Status room = state->allocate_activations(); !room) {
    return fail(without_room(std::move(room).error(), "lower --step-tokens"));
  }
  if (options.kv_takes_rest) {
    MILLRACE_TRY(state->take_rest(kv, device.allocated_bytes() - small_bytes));
  }
  std::unique_ptr<Model> model(new Model(std::move(state)));
  State& made = *model->state_;
  if (policy.protection.automatic) MILLRACE_TRY(model->protect_keys(file, kv));
  if (options.key_means) {
    MILLRACE_ASSIGN(made.means, load_center(device, spec, *options.key_means, made.positions()));
  }
  MILLRACE_TRY(made.build_layers());
  ModelInfo& info = made.info;
  info.name = spec.name;
  info.architecture = spec.architecture;
  info.kv = kv.name(shape);
  if (options.key_means) info.kv += ", keys centered by " + options.key_means->digest();
  info.kv_token_bytes = kv.bytes_per_token(shape);
  info.kv_compression = kv.compression(shape);
  info.fingerprint = numeric_fingerprint(file_hash.get(), info.kv, options.math, device.info());
  info.program = program_text(spec, made.programs, made.embedding, made.head());
  info.layers = spec.layer_count();
  info.width = spec.width;
  info.vocabulary = spec.vocabulary;
  info.context_tokens = spec.context_tokens;
  info.least_prefill_tokens = spec.least_prefill_tokens();
  info.page_tokens = kv_page_tokens;
  info.pools = made.cache.pools();
  info.kv_memory = made.cache.text();
  info.page_count = made.cache.page_count();
  info.page_bytes = made.cache.shape().page_bytes();
  info.state_bytes = made.cache.shape().state_bytes();
  MILLRACE_TRY(device.finish());
  times.programs = device.program_times();
  times.log();
  info.layer_path.log();
  return model;
}

// Runs the probe with a cache of halves. If the test protects layers, the cache is created again
// for their new codecs.
Status Model::protect_keys(const GgufFile& file, KvLayers& kv) {
  State& s = *state_;
  if (!quantizes_keys(kv)) return {};
  KvCache wanted = std::exchange(s.cache, {});
  const KvLayers halves{std::vector<KvCodecs>(s.spec.layer_count())};
  MILLRACE_ASSIGN(s.cache, make_small_cache(*s.device, s.spec, halves, s.options.smaller_kv));
  MILLRACE_TRY(s.build_layers());
  MILLRACE_ASSIGN(s.info.outliers, test_keys(*s.device, file, *this, s.spec, s.options, kv));
  s.cache = std::move(wanted);
  if (s.info.outliers.empty()) return {};
  s.cache = {};  // frees its memory before the new one is allocated
  MILLRACE_ASSIGN(s.cache, s.create_cache(kv));
  return {};
}

const ModelInfo& Model::info() const {
  return state_->info;
}

Status Model::forward(const StepPlan& plan, const Buffer& device_ids) {
  State& s = *state_;
  const auto slots = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(device_ids.size_bytes() / sizeof(TokenId), no_slot - 1));
  const StepLimits limits{.tokens = s.options.step_tokens,
                          .outputs = s.options.step_outputs,
                          .vocabulary = s.spec.vocabulary,
                          .context_tokens = s.positions(),
                          .page_tokens = kv_page_tokens,
                          .groups = s.cache.groups(),
                          .device_slots = slots,
                          .windows = s.operations->windows(),
                          .states = s.cache.state_count()};
  MILLRACE_TRY(s.lowering.lower(plan, limits, s.last_step));
  s.operations->backend().cut_attention(s.last_step);
  const StepTable& step = s.last_step;
  MILLRACE_TRY(s.write_step(step));
  const Buffer& ids = device_ids ? device_ids : s.no_ids;
  MILLRACE_TRY(s.operations->embed(s.embedding, step, s.step_words, ids, s.act.hidden));
  if (s.layer_embedding.exists()) {
    MILLRACE_TRY(s.layer_embedding.run(s.act.hidden, s.act.normed, step, s.step_words, ids));
  }
  MILLRACE_TRY(s.run_layers(step));
  if (step.outputs == 0) return s.device->flush();
  MILLRACE_TRY(s.operations->norm(s.act.hidden, s.output_norm, s.act.normed,
                                  s.operations->inputs_of(s.head()), step, s.step_words, true));
  MILLRACE_TRY(s.operations->project(s.head(), s.act.normed, step.outputs, s.logits,
                                     logits_stride(), Accumulate::replace));
  MILLRACE_TRY(s.operations->limit_logits(s.logits, step.outputs, logits_stride()));
  return s.device->flush();
}

Status Model::recover() {
  for (const Buffer* buffer : counters()) {
    MILLRACE_TRY(state_->device->fill_zero(*buffer, 0, buffer->size_bytes()));
  }
  return {};
}

std::vector<const Buffer*> Model::counters() const {
  return state_->operations->backend().counters();
}

const Buffer& Model::logits() const {
  return state_->logits;
}

std::uint32_t Model::logits_stride() const {
  return state_->head().rows;
}

Status Model::copy_page(const PageCopy& copy) {
  return state_->cache.copy_page(*state_->device, copy);
}

const KvCache& Model::cache() const {
  return state_->cache;
}

void Model::read_key(std::span<const std::byte> page, std::uint32_t head, std::uint32_t slot,
                     std::span<float> out) const {
  state_->operations->backend().read_key(page, head, slot, out);
}

}  // namespace millrace::engine
