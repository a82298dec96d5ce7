#include "engine/core/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/core/device/device.hpp"
#include "engine/core/device_pages.hpp"
#include "engine/core/engine_choices.hpp"
#include "engine/core/engine_devices.hpp"
#include "engine/core/families/read_spec.hpp"
#include "engine/core/host_model.hpp"
#include "engine/core/hub/open_model.hpp"
#include "engine/core/kv/choose.hpp"
#include "engine/core/kv/kv_cache.hpp"
#include "engine/core/kv/outliers.hpp"
#include "engine/core/model/cache_room.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "engine/core/prefix/shared_tier.hpp"
#include "engine/core/request/engine_loop.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "engine/core/template/chat_template.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

// Rows of the logits buffer. Prompts that ask for logprobs are computed in steps of at most so many
// positions; more rows would only cost memory.
constexpr std::uint32_t most_outputs = 128;

// The memory of the KV cache before the model is loaded, to choose a policy by: as if weights took
// as much as their file.
std::uint64_t expected_kv_bytes(const EngineDevices& devices, const GgufFile& file) {
  std::uint64_t bytes = 0;
  for (const auto& part : file.parts()) bytes += part->view().size();
  return devices.size() * left_for_cache(devices[0]->info(), bytes / devices.size());
}

// Returns the policy that `auto` chooses, or else the policy as it is given.
Result<std::string> kv_policy(const EngineOptions& options, const ModelSpec& spec) {
  const std::size_t end = std::min(options.kv.find_first_of("~+"), options.kv.size());
  if (options.kv.substr(0, end) != kv_auto) return options.kv;
  const std::string protection = options.kv.substr(end);
  MILLRACE_ASSIGN(const KvPolicy halves, parse_kv_policy("f16" + protection));
  const KvLoad load{.memory_bytes = options.kv_memory_bytes,
                    .max_batch = options.max_batch,
                    .context_tokens = spec.context_tokens,
                    .windows = layer_windows(spec),
                    .states = layer_states(spec),
                    .row_tokens = row_tokens(options),
                    .step_tokens = options.step_tokens};
  MILLRACE_ASSIGN(const KvChoice choice, choose_kv(kv_shape(spec), load, halves.protection));
  std::string policy = std::string(choice.policy) + protection;
  log_info(
      "KV policy chosen",
      {{"kv", policy}, {"load_tokens", choice.load_tokens}, {"holds_tokens", choice.holds_tokens}});
  if (!choice.fits()) {
    log_warn("the KV memory is too small for the expected load: sequences will wait for each other",
             {{"load_tokens", choice.load_tokens}, {"holds_tokens", choice.holds_tokens}});
  }
  return policy;
}

struct ChosenKv {
  std::string policy;
  CacheShape cache;  // before the model's keys were tested for outliers
};

Result<ChosenKv> chosen_kv(const EngineOptions& options, const GgufFile& file) {
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  MILLRACE_ASSIGN(std::string name, kv_policy(options, spec));
  MILLRACE_ASSIGN(const KvPolicy policy, parse_kv_policy(name));
  MILLRACE_ASSIGN(KvLayers kv, resolve(policy, kv_shape(spec)));
  if (!options.kv_center.empty() && !quantizes_keys(kv)) {
    log_warn("--kv-center has no effect, because no layer's keys are quantized: leave it out",
             {{"kv", name}, {"kv_center", options.kv_center}});
  }
  return ChosenKv{std::move(name), cache_shape(spec, std::move(kv.layers))};
}

// The names of the engine's policy that jobs may ask for: as it was given, by layer, and without
// automatic protection if that has found nothing. (The reverse does not hold: with protection off,
// no layer was tested.)
std::vector<std::string> kv_names(const std::string& given, const ModelInfo& m) {
  std::vector<std::string> out{given, m.kv};
  if (auto policy = parse_kv_policy(given); policy && m.outliers.empty()) {
    policy->protection.automatic = false;
    const std::string unprotected = policy->name();
    if (canonical_kv(unprotected).value_or("") != canonical_kv(given).value_or(""))
      out.push_back(unprotected);
  }
  return out;
}

Result<std::optional<KeyMeans>> key_means(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return read_key_means(*posix_env(), path);
}

// The fingerprint of results. A pool that is smaller than the context is part of it, because a chat
// without max_tokens ends where the pool does.
std::string job_fingerprint(const ModelInfo& m, std::uint64_t pool) {
  if (pool >= m.context_tokens) return m.fingerprint;
  return hash128(m.fingerprint + " with room for " + std::to_string(pool)).hex();
}

class ModelEngine final : public Engine {
 public:
  ModelEngine(EngineDevices devices, HostModel host, std::unique_ptr<Model> model,
              std::unique_ptr<Sampler> sampler, std::unique_ptr<StepRunner> runner,
              std::unique_ptr<SegmentTier> disk, const std::string& kv_policy,
              const EngineOptions& options)
      : devices_(std::move(devices)),
        host_(std::move(host)),
        model_(std::move(model)),
        sampler_(std::move(sampler)),
        runner_(std::move(runner)),
        pools_(model_->info().page_tokens, model_->info().pools, row_tokens(options)),
        transport_(*model_) {
    const ModelInfo& m = model_->info();
    if (disk)
      disk_pages_ =
          std::make_unique<DiskPages>(std::move(disk), page_kind(m), transport_, pools_.groups());
    EngineProfile& profile = info_.profile;
    profile.facts = {options.model_name,
                     job_fingerprint(m, pools_.most_positions()),
                     std::string(math_name(options.math)),
                     kv_policy,
                     m.kv,
                     m.kv_token_bytes,
                     m.kv_compression,
                     m.context_tokens};
    profile.label = utf8_replace_invalid(m.name);
    profile.layer_path = m.layer_path.text();
    if (devices_.size() > 1) profile.layer_path += "; " + layers_text(devices_, m.stages);
    profile.kv_memory = m.kv_memory;
    profile.kv_policies = kv_names(kv_policy, m);
    if (host_.suggested_sampling) {
      profile.suggested_sampling = *host_.suggested_sampling;
    } else {
      const Error& error = host_.suggested_sampling.error();
      log_warn("no job can ask for the sampling that the model's file suggests", error);
      profile.suggested_sampling_error = utf8_replace_invalid(error.message);
    }
    info_.architecture = m.architecture;
    info_.program = m.program;
    info_.device_name = devices_[0]->info().name;
    info_.driver = devices_[0]->info().driver;
    info_.vocabulary = host_.tokenizer.vocabulary_size();
    info_.kv_pool_tokens = pools_.most_positions();
    info_.state_bytes = m.state_bytes;

    RequestContext context = host_.context();
    context.pools = &pools_;
    context.context_tokens = m.context_tokens;
    context.kv_names = profile.kv_policies;
    context.fingerprint = profile.facts.fingerprint;
    context.suggested_sampling = profile.suggested_sampling;
    context.suggested_sampling_error = profile.suggested_sampling_error;

    LoopOptions loop;
    loop.scheduler.max_batch = options.max_batch;
    loop.scheduler.step_tokens = options.step_tokens;
    loop.scheduler.prefill_chunk = options.prefill_chunk;
    loop.scheduler.step_outputs = step_outputs(options);
    loop.scheduler.prefix_cache = options.prefix_cache;
    loop.scheduler.fingerprint = m.fingerprint;
    loop.scheduler.store = loop.disk = disk_pages_.get();
    loop.scheduler.least_prefill_tokens = m.least_prefill_tokens;
    loop.engine = profile.facts;
    loop_.emplace(loop, context, pools_, *runner_, clock_);
  }

  static PageKind page_kind(const ModelInfo& m) {
    return {m.fingerprint, m.page_tokens, m.page_bytes, m.state_bytes};
  }
  static std::uint32_t step_outputs(const EngineOptions& options) {
    return std::max(options.max_batch, std::min(options.step_tokens, most_outputs));
  }

  const EngineInfo& info() const override { return info_; }
  Counters counters() const override {
    Counters counters = loop_->counters();
    counters.launches = launches(devices_);
    counters.device_bytes = allocated_bytes(devices_);
    return counters;
  }
  Result<Prepared> prepare(const GenerationRequest& request) const override {
    MILLRACE_ASSIGN(PreparedRequest prepared, loop_->prepare(request));
    return std::make_shared<PreparedRequest>(std::move(prepared));
  }
  Status add(RequestId id, Prepared prepared, std::uint32_t priority) override {
    return loop_->add(id, std::move(*prepared), priority);
  }
  void cancel(RequestId id) override { loop_->cancel(id); }
  bool busy() const override { return loop_->busy(); }
  Status step(std::vector<Event>& events) override { return loop_->step(events); }
  void on_begin(std::function<void(const std::vector<RequestId>&)> tell) override {
    loop_->on_begin(std::move(tell));
  }
  Tokens beginning(const PreparedRequest& request) const override {
    const Tokens& prompt = request.prompt;
    return {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(prompt.size(), beginning_tokens))};
  }
  bool holds(const Tokens& beginning) const override { return loop_->holds(beginning); }
  std::vector<PartialEvent> take_partials() override { return loop_->take_partials(); }
  Result<std::vector<KernelTime>> profile() override { return engine::profile(devices_); }

  Result<Tokens> tokenize(std::string_view text, bool add_special_tokens,
                          bool parse_special) const override {
    TokenizeOptions options;
    options.add_special_tokens = add_special_tokens;
    options.parse_special = parse_special;
    return host_.tokenizer.tokenize(text, options);
  }
  Result<std::string> detokenize(const Tokens& tokens) const override {
    DetokenizeOptions options;
    options.render_special = true;
    options.drop_space_prefix = true;
    return host_.tokenizer.detokenize(tokens, options);
  }

 private:
  // The order matters: members use those above them.
  EngineDevices devices_;
  HostModel host_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<StepRunner> runner_;
  CachePools pools_;
  DevicePages transport_;
  std::unique_ptr<DiskPages> disk_pages_;
  SystemClock clock_;
  EngineInfo info_;
  std::optional<EngineLoop> loop_;
};

// Names the option --prefix-cache in an error of its folder.
Error of_folder(Error error, const std::string& folder) {
  if (error.code == Code::invalid_value) return error;  // it concerns --prefix-disk
  error.message = "--prefix-cache " + folder + ": " + error.message;
  if (error.hint.empty()) error.hint = "give a folder that you may write to, or memory";
  return error;
}

// Checks that the folder can be written, or created if it does not exist.
Status check_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path there = fs::absolute(folder, ignored);
  while (there.has_relative_path() && !fs::exists(there, ignored)) there = there.parent_path();
  if (!fs::is_directory(there, ignored)) {
    return fail(of_folder({Code::io_error, there.string() + " is not a folder", {}}, folder));
  }
  if (::access(there.c_str(), W_OK | X_OK) == 0) return {};
  return fail(of_folder({Code::io_error, there.string() + " cannot be written", {}}, folder));
}

// Null: the prefix tree has no memory behind it.
Result<std::unique_ptr<SegmentTier>> open_tier(const EngineOptions& options, const PageKind& kind) {
  if (!options.prefix_cache) return nullptr;
  if (options.prefix_store) {
    return SharedTier::open(options.prefix_store(), {kind, options.prefix_disk_bytes});
  }
  if (options.prefix_folder.empty()) return nullptr;
  auto disk = DiskTier::open(posix_env(), {options.prefix_folder, options.prefix_disk_bytes, kind});
  if (!disk) return fail(of_folder(std::move(disk).error(), options.prefix_folder));
  return disk;
}

}  // namespace

Status check_before_device(const EngineOptions& given) {
  MILLRACE_TRY(check_options(given));
  // What the device decides is not known yet; less memory than this one hardly has.
  const EngineOptions options = settled(given, /*has_own_memory=*/false);
  MILLRACE_ASSIGN(const GgufFile file, open_model(options.model_path));
  MILLRACE_ASSIGN(const ChosenKv kv, chosen_kv(options, file));
  MILLRACE_TRY(kv.cache.check_room(options.kv_memory_bytes));
  MILLRACE_TRY(key_means(options.kv_center));
  if (!options.prefix_cache || options.prefix_folder.empty()) return {};
  return check_folder(options.prefix_folder);
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& given) {
  MILLRACE_TRY(check_options(given));
  MILLRACE_ASSIGN(const GgufFile file, open_model(given.model_path));
  MILLRACE_ASSIGN(HostModel host, load_host(file.metadata()));

  MILLRACE_ASSIGN(EngineDevices devices, open_devices(given));
  EngineOptions options = settled(given, devices[0]->info().has_own_memory);
  if (options.kv_memory_auto) {
    options.kv_memory_bytes = expected_kv_bytes(devices, file);
  }
  // The sampler comes before the model, whose cache may take all memory that is left.
  const std::uint32_t vocabulary = host.tokenizer.vocabulary_size();
  MILLRACE_ASSIGN(std::unique_ptr<Sampler> sampler,
                  Sampler::allocate(*devices.back(), vocabulary, options.max_batch,
                                    ModelEngine::step_outputs(options)));

  ModelOptions model_options;
  MILLRACE_ASSIGN(const ChosenKv kv, chosen_kv(options, file));
  model_options.kv = kv.policy;
  MILLRACE_ASSIGN(model_options.key_means, key_means(options.kv_center));
  model_options.kv_bytes = options.kv_memory_bytes;
  model_options.kv_takes_rest = options.kv_memory_auto;
  model_options.kv_load = {options.max_batch, row_tokens(options), options.step_tokens};
  model_options.step_tokens = options.step_tokens;
  model_options.step_outputs = ModelEngine::step_outputs(options);
  model_options.math = options.math;
  model_options.whole_layers = options.whole_layers;
  model_options.stage_layers = options.pipeline_layers;
  model_options.other_programs = [at = sampler.get()] { return at->compile(); };
  MILLRACE_ASSIGN(std::unique_ptr<Model> model,
                  Model::load(pointers(devices), file, model_options));
  MILLRACE_TRY(sampler->compile());
  // A model may have more rows of logits than its tokenizer has tokens; those are never sampled.
  if (vocabulary > model->info().vocabulary) {
    return fail(Code::gguf_malformed,
                options.model_path + ": the tokenizer has " + std::to_string(vocabulary) +
                    " tokens, but token_embd.weight has only " +
                    std::to_string(model->info().vocabulary) + " rows",
                "the file's tokenizer belongs to another model: convert it again");
  }
  MILLRACE_ASSIGN(std::unique_ptr<SegmentTier> disk,
                  open_tier(options, ModelEngine::page_kind(model->info())));
  MILLRACE_ASSIGN(std::unique_ptr<StepRunner> runner, make_runner(*model, *sampler));
  return std::make_unique<ModelEngine>(std::move(devices), std::move(host), std::move(model),
                                       std::move(sampler), std::move(runner), std::move(disk),
                                       kv.policy, options);
}

}  // namespace millrace::engine
