#include "engine/core/model/model.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/hand_over.hpp"
#include "engine/core/families/read_spec.hpp"
#include "engine/core/kv/kv_cache.hpp"
#include "engine/core/model/cache_room.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/key_center.hpp"
#include "engine/core/model/key_probe.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/layer_ranges.hpp"
#include "engine/core/model/model_stage.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {

struct Model::State {
  ModelSpec spec;
  ModelInfo info;
  ModelOptions options;
  std::vector<std::unique_ptr<ModelStage>> stages;
  std::vector<std::unique_ptr<HandOver>> hand_overs;  // from each stage to the next
  StepLowering lowering;
  std::vector<std::vector<StepTable>> tables;  // of each part of a step and each stage

  const ModelStage& first() const { return *stages.front(); }
  ModelStage& last() const { return *stages.back(); }

  Status make_stages(std::span<Device* const> devices, const GgufFile& file);
  Status load_stages(const GgufFile& file, const KvLayers& kv);
  Status take_rest(const KvLayers& kv);
  Status protect_keys(const GgufFile& file, KvLayers& kv, Model& model);
  void describe(const KvLayers& kv, const Hash128& file);
  Status run_stage(std::size_t part, std::size_t stage, const Buffer& device_ids);
  Status named(std::size_t stage, Status done) const;
};

// Devices of a pipeline have the same limits, so that their caches have the same pages.
Status Model::State::make_stages(std::span<Device* const> devices, const GgufFile& file) {
  for (Device* const device : devices) {
    const DeviceInfo &one = devices.front()->info(), &other = device->info();
    if (numeric_identity(one) == numeric_identity(other) &&
        one.max_allocation_bytes == other.max_allocation_bytes) {
      continue;
    }
    return fail(Code::invalid_value,
                "the devices of a pipeline, " + one.name + " and " + other.name +
                    ", are not of one kind (platform, name, driver, largest allocation)",
                "name devices of one kind, which give the same bits as one of them alone");
  }
  const auto count = static_cast<std::uint32_t>(devices.size());
  MILLRACE_ASSIGN(const auto ranges, layer_ranges(file, spec, count, options.stage_layers));
  for (std::uint32_t i = 0; i < count; ++i) {
    stages.push_back(std::make_unique<ModelStage>(*devices[i], spec, ranges[i], options));
    if (i == 0) continue;
    // Two steps may be under way, each in as many parts as there are stages.
    hand_overs.push_back(std::make_unique<HandOver>(*devices[i - 1], *devices[i], 2 * count,
                                                    "the residual stream of a step"));
  }
  tables.resize(count, std::vector<StepTable>(count));
  return {};
}

// One after the other: the programs that the first builds are in the cache for the others.
Status Model::State::load_stages(const GgufFile& file, const KvLayers& kv) {
  for (const auto& stage : stages) {
    const bool last = stage.get() == &this->last();
    MILLRACE_TRY(stage->load(file, kv, options.kv_takes_rest,
                             last ? options.other_programs : std::function<Status()>()));
  }
  return {};
}

// Replaces the small caches by ones that take what the fullest device has left.
Status Model::State::take_rest(const KvLayers& kv) {
  const CacheShape shape = cache_shape(spec, kv.layers);
  options.kv_bytes = std::numeric_limits<std::uint64_t>::max();
  for (const auto& stage : stages) {
    options.kv_bytes =
        std::min(options.kv_bytes, shape.whole_of(stage->range, stage->cache_bytes_left()));
  }
  log_info("KV memory chosen", {{"bytes", options.kv_bytes}});
  for (const auto& stage : stages) MILLRACE_TRY(stage->create_cache(kv, options.kv_bytes));
  return {};
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Waits, because launches do not keep buffers alive that kernels access by address.
Model::~Model() {
  static_cast<void>(finish());
}

// An error of a pipeline names the device.
Status Model::State::named(std::size_t stage, Status done) const {
  if (done || stages.size() == 1) return done;
  const DeviceInfo& device = stages[stage]->device->info();
  Error error = std::move(done).error();
  error.message = "device " + std::to_string(device.platform_index) + ":" +
                  std::to_string(device.device_index) + ": " + error.message;
  return fail(std::move(error));
}

Status Model::finish() {
  Status status;
  for (std::size_t i = 0; i < stages(); ++i) {
    Status done = state_->named(i, state_->stages[i]->device->finish());
    if (!done && status) status = std::move(done);
  }
  return status;
}

Result<std::unique_ptr<Model>> Model::load(Device& device, const GgufFile& file,
                                           const ModelOptions& options) {
  MILLRACE_ASSIGN(ModelSpec spec, read_spec(file));
  return load(device, file, std::move(spec), options);
}

Result<std::unique_ptr<Model>> Model::load(Device& device, const GgufFile& file, ModelSpec spec,
                                           const ModelOptions& options) {
  Device* const one[] = {&device};
  return load(one, file, std::move(spec), options);
}

Result<std::unique_ptr<Model>> Model::load(std::span<Device* const> devices, const GgufFile& file,
                                           const ModelOptions& options) {
  MILLRACE_ASSIGN(ModelSpec spec, read_spec(file));
  return load(devices, file, std::move(spec), options);
}

Result<std::unique_ptr<Model>> Model::load(std::span<Device* const> devices, const GgufFile& file,
                                           ModelSpec given, const ModelOptions& options) {
  if (options.step_tokens == 0 || options.step_outputs == 0) {
    return fail(Code::invalid_value, "a step must allow at least one token and one output",
                "raise step_tokens and step_outputs");
  }
  for (Device* device : devices) MILLRACE_TRY(check_math(*device, options.math));
  auto state = std::make_unique<State>();
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
  MILLRACE_TRY(state->make_stages(devices, file));
  std::unique_ptr<Model> model(new Model(std::move(state)));
  State& made = *model->state_;
  MILLRACE_TRY(made.load_stages(file, kv));
  if (options.kv_takes_rest) MILLRACE_TRY(made.take_rest(kv));
  if (policy.protection.automatic) MILLRACE_TRY(made.protect_keys(file, kv, *model));
  for (const auto& stage : made.stages) {
    if (options.key_means) {
      MILLRACE_ASSIGN(stage->means,
                      load_center(*stage->device, spec, *options.key_means, stage->positions()));
    }
    MILLRACE_TRY(stage->build_layers());
  }
  made.describe(kv, file_hash.get());
  MILLRACE_TRY(model->finish());
  for (const auto& stage : made.stages) {
    stage->times.programs = stage->device->program_times();
    stage->times.log();
  }
  made.info.layer_path.log();
  return model;
}

// `file` is the hash of the model's file.
void Model::State::describe(const KvLayers& kv, const Hash128& file) {
  const KvShape shape = kv_shape(spec);
  const KvCache& cache = first().cache;
  info.name = spec.name;
  info.architecture = spec.architecture;
  info.kv = kv.name(shape);
  if (options.key_means) info.kv += ", keys centered by " + options.key_means->digest();
  info.kv_token_bytes = kv.bytes_per_token(shape);
  info.kv_compression = kv.compression(shape);
  info.fingerprint = numeric_fingerprint(file, info.kv, options.math, first().device->info());
  std::vector<LayerProgram> programs;
  for (const auto& stage : stages) {
    for (const LayerProgram& program : stage->programs) programs.push_back(program);
    info.layer_path.add(stage->layer_path);
    info.stages.push_back(stage->range);
  }
  info.program = program_text(spec, programs, first().embedding, last().head());
  info.layers = spec.layer_count();
  info.width = spec.width;
  info.vocabulary = spec.vocabulary;
  info.context_tokens = spec.context_tokens;
  info.least_prefill_tokens = spec.least_prefill_tokens();
  info.page_tokens = kv_page_tokens;
  info.pools = cache.pools();
  info.kv_memory = cache.text();
  info.page_count = cache.page_count();
  info.page_bytes = cache.shape().page_bytes();
  info.state_bytes = cache.shape().state_bytes();
}

// Runs the probe with a cache of halves. If the test protects layers, the cache is created again
// for their new codecs.
Status Model::State::protect_keys(const GgufFile& file, KvLayers& kv, Model& model) {
  if (!quantizes_keys(kv)) return {};
  const KvLayers halves{std::vector<KvCodecs>(spec.layer_count())};
  std::vector<KvCache> wanted;
  for (const auto& stage : stages) {
    wanted.push_back(std::exchange(stage->cache, {}));
    MILLRACE_TRY(stage->create_small_cache(halves));
    MILLRACE_TRY(stage->build_layers());
  }
  Device& device = *first().device;
  MILLRACE_ASSIGN(info.outliers, test_keys(device, file, model, spec, options, kv));
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i]->cache = std::move(wanted[i]);
    if (info.outliers.empty()) continue;
    MILLRACE_TRY(stages[i]->create_cache(kv, options.kv_bytes));
  }
  return {};
}

const ModelInfo& Model::info() const {
  return state_->info;
}

Status Model::lower(std::size_t part, const StepPlan& plan, const Buffer& device_ids) {
  State& s = *state_;
  const KvCache& cache = s.first().cache;
  const auto slots = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(device_ids.size_bytes() / sizeof(TokenId), no_slot - 1));
  const StepLimits limits{.tokens = s.options.step_tokens,
                          .outputs = s.options.step_outputs,
                          .vocabulary = s.spec.vocabulary,
                          .context_tokens = s.first().positions(),
                          .page_tokens = kv_page_tokens,
                          .groups = cache.groups(),
                          .device_slots = slots,
                          .windows = s.first().operations->windows(),
                          .states = cache.state_count()};
  std::vector<StepTable>& tables = s.tables.at(part);
  MILLRACE_TRY(s.lowering.lower(plan, limits, tables[0]));
  for (std::size_t stage = 1; stage < tables.size(); ++stage) tables[stage] = tables[0];
  return {};
}

Status Model::State::run_stage(std::size_t part, std::size_t stage, const Buffer& device_ids) {
  ModelStage& here = *stages.at(stage);
  StepTable& step = tables.at(part).at(stage);
  if (stage > 0) MILLRACE_TRY(hand_overs[stage - 1]->give(here.act.hidden));
  MILLRACE_TRY(here.run(step, device_ids));
  if (here.is_last()) return {};
  return hand_overs[stage]->take(here.act.hidden, here.hidden_bytes(step.tokens));
}

Status Model::run_stage(std::size_t part, std::size_t stage, const Buffer& device_ids) {
  return state_->named(stage, state_->run_stage(part, stage, device_ids));
}

Status Model::forward(const StepPlan& plan, const Buffer& device_ids) {
  MILLRACE_TRY(lower(0, plan, device_ids));
  for (std::size_t stage = 0; stage < stages(); ++stage) {
    MILLRACE_TRY(run_stage(0, stage, device_ids));
  }
  return {};
}

std::size_t Model::stages() const {
  return state_->stages.size();
}

Device& Model::device(std::size_t stage) const {
  return *state_->stages.at(stage)->device;
}

Status Model::recover() {
  for (const auto& hand_over : state_->hand_overs) hand_over->drop();
  for (const auto& stage : state_->stages) {
    for (const Buffer* buffer : stage->operations->backend().counters()) {
      MILLRACE_TRY(stage->device->fill_zero(*buffer, 0, buffer->size_bytes()));
    }
  }
  return {};
}

std::vector<const Buffer*> Model::counters() const {
  return state_->first().operations->backend().counters();
}

const Buffer& Model::logits() const {
  return state_->last().logits;
}

std::uint32_t Model::logits_stride() const {
  return state_->last().head().rows;
}

Status Model::copy_page(const PageCopy& copy) {
  for (const auto& stage : state_->stages) {
    MILLRACE_TRY(stage->cache.copy_page(*stage->device, copy));
  }
  return {};
}

// Copies that were enqueued before an error still use the memory.
Result<std::vector<DeviceEvent>> Model::on_all_stages(
    const std::function<Result<std::vector<DeviceEvent>>(Device&, const KvCache&)>& enqueue) const {
  std::vector<DeviceEvent> out;
  for (const auto& stage : state_->stages) {
    auto events = enqueue(*stage->device, stage->cache);
    if (!events) {
      for (const DeviceEvent& event : out) static_cast<void>(stage->device->wait(event));
      return fail(std::move(events).error());
    }
    for (DeviceEvent& event : *events) out.push_back(std::move(event));
    if (stages() == 1) continue;
    if (Status flushed = stage->device->flush(); !flushed) {
      for (const DeviceEvent& event : out) static_cast<void>(stage->device->wait(event));
      return fail(std::move(flushed).error());
    }
  }
  return out;
}

Result<std::vector<DeviceEvent>> Model::read_pages(std::span<const PageId> pages,
                                                   std::span<std::byte> into) const {
  return on_all_stages(
      [&](Device& device, const KvCache& cache) { return cache.read_pages(device, pages, into); });
}

Result<std::vector<DeviceEvent>> Model::write_pages(std::span<const PageId> pages,
                                                    std::span<const std::byte> from) {
  return on_all_stages(
      [&](Device& device, const KvCache& cache) { return cache.write_pages(device, pages, from); });
}

Result<std::vector<DeviceEvent>> Model::read_state(PageId state, std::span<std::byte> into) const {
  return on_all_stages(
      [&](Device& device, const KvCache& cache) { return cache.read_state(device, state, into); });
}

Result<std::vector<DeviceEvent>> Model::write_state(PageId state, std::span<const std::byte> from) {
  return on_all_stages(
      [&](Device& device, const KvCache& cache) { return cache.write_state(device, state, from); });
}

void Model::read_key(std::span<const std::byte> page, std::uint32_t head, std::uint32_t slot,
                     std::span<float> out) const {
  state_->first().operations->backend().read_key(page, head, slot, out);
}

}  // namespace millrace::engine
