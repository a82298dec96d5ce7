#pragma once
// The engine as its users see it: requests in, steps, events out. It runs one model on one device.
//
//   auto engine = Engine::create(options);
//   engine->add(id, request);            // checked before anything changes
//   while (engine->busy()) engine->step(events);
//
// A step is one ragged batch: every decoding row first, then prefill chunks up to the token budget.
// Rows join and leave at any step. The tokens and logprob bits of a request depend on the request
// and the fingerprint alone (ARCHITECTURE.md, "Determinism"). Errors: values; a refused `add`
// leaves no trace. A device error during a step fails the affected requests; if the device itself
// is lost `step` returns the error and the engine must be dropped. Thread safety: one owner thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/device/kernel_time.hpp"
#include "engine/core/model/math_mode.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

struct EngineOptions {
  std::string model_path;
  std::string model_name;  // the model's id, as results carry it
  std::string device;  // "" first fit, or "PLATFORM:DEVICE" numbers or a part of the device's name
  std::string kv = "f16";  // a policy, or "auto" in place of its codecs: see kv/choose.hpp
  std::string kv_center;   // a file of mean keys (kv/key_means.hpp), which keys are stored less
  std::uint64_t kv_memory_bytes = 1 * limits::GiB;
  std::uint32_t max_batch = 64;       // sequences in one step
  std::uint32_t step_tokens = 512;    // tokens in one step, decode first
  std::uint32_t prefill_chunk = 256;  // tokens of one sequence in one step
  bool prefix_cache = true;           // requests reuse what others began with, see PrefixTree
  std::string prefix_folder;          // where they outlive the engine, see DiskTier; "" nowhere
  std::uint64_t prefix_disk_bytes = 8 * limits::GiB;  // of that folder
  MathMode math = MathMode::fast;
  std::uint32_t cores = 0;     // of a CPU device, at most usable_cores(); 0: as many as those
  std::string kernel_variant;  // "" by device, else as DeviceOptions::variant
  std::string cache_dir;       // program cache; "" is $XDG_CACHE_HOME/millrace
  bool profile = false;        // time every launch, see Engine::profile
  bool whole_layers = true;    // a layer in one launch where it can be; the same bits either way
};

struct EngineInfo {
  EngineProfile profile;
  std::string architecture, device_name, driver;
  std::uint32_t vocabulary = 0;
  std::uint64_t kv_pool_tokens = 0;
};

using RequestId = std::uint64_t;

// How a request ended. Exactly one for every accepted request.
struct Event {
  RequestId id = 0;
  std::optional<Error> error;  // failed: no result
  bool cancelled = false;      // cancelled: result holds what was generated
  GenerationResult result;
};

struct PartialEvent {
  RequestId id = 0;
  Partial partial;
};

struct Counters {
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // of requests, each once, however often it was computed
  std::uint64_t generated_tokens = 0;
  std::uint32_t last_rows = 0;    // sequences in the step under way; 0: none is
  std::uint32_t last_tokens = 0;  // its tokens
  std::uint32_t waiting = 0, running = 0;
  std::uint64_t kv_pages_used = 0;  // by running sequences, those they share counted once
  std::uint64_t kv_pages_total = 0;
  std::uint64_t prefix_pages = 0;          // known to the prefix tree, in use or not
  std::uint64_t prefix_hits = 0;           // sequences that began with known pages
  std::uint64_t prefix_tokens = 0;         // tokens that they did not compute
  std::uint64_t disk_tokens = 0;           // tokens whose pages came from the disk tier
  std::uint64_t disk_unwritten_bytes = 0;  // pages in memory that the disk tier shall write
  std::uint64_t planning_us = 0;   // of the host: who runs in each step, what is known of it
  std::uint64_t launches = 0;      // of kernels, since the engine was created
  std::uint64_t device_bytes = 0;  // allocated since then, also what is free again
  std::uint64_t pauses = 0;        // sequences that gave their pages back, to be computed again
};

// What is wrong with the options as far as it can be told without a device: the model's file and
// shape, the policy, the memory of the pages, the folder of the prefix cache. Makes nothing.
Status check_before_device(const EngineOptions& options);

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  virtual Counters counters() const = 0;

  // Accepts a request under an id of the caller's choosing that is not in use. seed must be set.
  // `priority` below limits::priority_count, 0 is served first: it changes when the request is
  // computed, never what comes of it.
  virtual Status add(RequestId id, const GenerationRequest& request, std::uint32_t priority) = 0;
  Status add(RequestId id, const GenerationRequest& request) {
    return add(id, request, limits::priority_default);
  }
  // Ends a request by the end of the step already under way; unknown ids are ignored.
  virtual void cancel(RequestId id) = 0;
  virtual bool busy() const = 0;
  // Runs one step; appends the requests that ended.
  virtual Status step(std::vector<Event>& events) = 0;
  // What requests with `partials` gained in the steps since the last call.
  virtual std::vector<PartialEvent> take_partials() { return {}; }
  // Time of each kernel since the last call, longest first; empty without options.profile. Waits
  // for the device.
  virtual Result<std::vector<KernelTime>> profile() = 0;

  virtual Result<Tokens> tokenize(std::string_view text, bool add_special_tokens,
                                  bool parse_special) const = 0;
  virtual Result<std::string> detokenize(const Tokens& tokens) const = 0;
};

}  // namespace millrace::engine
