#pragma once
// The interface of the engine, which runs one model on one device, or on a pipeline of several:
// requests in, steps, events out.
//
//   auto engine = Engine::create(options);
//   engine->add(id, request);            // checked before anything changes
//   while (engine->busy()) engine->step(events);
//
// A step is one ragged batch: every decoding row first, then prefill chunks up to the token budget.
// Rows join and leave at any step. The tokens and logprob bits of a request depend on the request
// and the fingerprint alone (ARCHITECTURE.md, "Determinism"). Errors: values; a refused `add`
// changes nothing. A device error during a step fails the affected requests. If the device itself
// is lost, `step` returns the error and the engine must be destroyed. Thread safety: one owner
// thread, but any thread may call `prepare`, `tokenize` and `detokenize` at any time.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/device/kernel_time.hpp"
#include "engine/core/model/math_mode.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/histogram.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

class SegmentStore;

// Larger steps never pay, and with this limit sizes in 32 bits cannot overflow.
inline constexpr std::uint32_t most_step_tokens = 1u << 20;

struct EngineOptions {
  std::string model_path;
  std::string model_name;  // the model's id, as results carry it
  std::string device;      // as DeviceOptions::device; "" chooses
  // Devices of one kind that have consecutive layers each, as a list for chosen_devices; "": the
  // model is on `device` alone. And the layers of each; empty: about as many bytes of weights.
  std::string pipeline;
  std::vector<std::uint32_t> pipeline_layers{};
  std::string kv = "f16";  // a policy, or "auto" in place of its codecs: see kv/choose.hpp
  std::string kv_center;   // a file of mean keys, subtracted from keys before they are stored
  std::uint64_t kv_memory_bytes = 1 * limits::GiB;
  // On a device with memory of its own, takes what the model leaves of it in place of
  // kv_memory_bytes.
  bool kv_memory_auto = false;
  std::uint32_t max_batch = 64;       // sequences in one step
  std::uint32_t step_tokens = 512;    // tokens in one step, decode first; 0: chosen by the device
  std::uint32_t prefill_chunk = 256;  // tokens of one sequence in one step
  bool prefix_cache = true;   // requests reuse the pages of common beginnings, see PrefixTree
  std::string prefix_folder;  // keeps these and states over restarts, see DiskTier; "": none
  std::uint64_t prefix_disk_bytes = 8 * limits::GiB;  // size limit of that folder or store
  MathMode math = MathMode::fast;
  std::uint32_t cores = 0;         // cores of a CPU device, at most usable_cores(); 0: all of these
  std::string kernel_variant;      // as DeviceOptions::variant; "" chooses by the device
  std::string cache_dir;           // as DeviceOptions::cache_dir
  std::string program_helper;      // as DeviceOptions::program_helper
  bool profile = false;            // times every launch, see Engine::profile
  std::uint64_t device_bytes = 0;  // as DeviceOptions::own_bytes
  bool whole_layers = true;  // runs layers in one launch where possible; the bits are the same
  // Opens the store in which several engines keep pages and states, see SharedTier; empty: none.
  // In place of prefix_folder.
  std::function<std::unique_ptr<SegmentStore>()> prefix_store{};
};

struct EngineInfo {
  EngineProfile profile;
  std::string architecture, device_name, driver;
  std::string program;  // for people: the model's operations, a line each
  std::uint32_t vocabulary = 0;
  std::uint64_t kv_pool_tokens = 0;
  std::uint64_t state_bytes = 0;  // of a sequence besides its keys and values; 0: it has none
};

using RequestId = std::uint64_t;

// The end of a request. Every accepted request gets exactly one.
struct Event {
  RequestId id = 0;
  std::optional<Error> error;  // set: the request failed, there is no result
  bool cancelled = false;      // the result holds what was generated
  GenerationResult result;
};

struct PartialEvent {
  RequestId id = 0;
  Partial partial;
};

// The bounds of Counters::token_gaps, in seconds: those by which vLLM shows the same, and some for
// small models.
inline constexpr double token_gap_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                              0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5,
                                              5,     7.5,    10,    20,   40,    80};

struct Counters {
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // each counted once, however often it was computed
  std::uint64_t cached_tokens = 0;  // of prompts, found in the prefix tree; not in prompt_tokens
  std::uint64_t generated_tokens = 0;
  std::uint32_t last_rows = 0;  // sequences in the step that was enqueued last; 0: none is running
  std::uint32_t last_tokens = 0;  // tokens of that step
  std::uint32_t waiting = 0, running = 0;
  // Pages of running sequences, of all cache groups; a shared page counts once.
  std::uint64_t kv_pages_used = 0;
  std::uint64_t kv_pages_total = 0;
  // The same of the cache group that keeps all positions, in tokens, and of all groups in bytes.
  std::uint64_t kv_tokens_used = 0, kv_tokens_total = 0;
  std::uint64_t kv_bytes_used = 0, kv_bytes_total = 0;
  std::uint32_t most_rows = 0;             // EngineOptions::max_batch
  std::uint64_t prefix_pages = 0;          // pages in the prefix tree, in use or not
  std::uint64_t prefix_held_tokens = 0;    // tokens whose pages the prefix tree holds
  std::uint64_t prefix_hits = 0;           // sequences that began with known pages
  std::uint64_t prefix_tokens = 0;         // tokens that these did not compute
  std::uint64_t disk_tokens = 0;           // tokens whose pages came from the disk tier
  std::uint64_t disk_unwritten_bytes = 0;  // that the disk tier has yet to write
  std::uint64_t planning_us = 0;           // host time for planning steps and looking up prefixes
  std::uint64_t launches = 0;              // kernel launches since the engine was created
  std::uint64_t device_bytes = 0;  // bytes allocated since then; freed memory is not subtracted
  std::uint64_t pauses = 0;        // times a sequence gave its pages back, to be computed again
  Histogram token_gaps{token_gap_bounds};  // seconds between two tokens of a text
};

// Checks all that can be checked of the options without a device: the model's file and shape, the
// policy, the memory for pages, the folder of the prefix cache. Creates nothing.
Status check_before_device(const EngineOptions& options);

// A request that was checked, with its prompt as tokens (engine/core/request/prepare.hpp).
struct PreparedRequest;
using Prepared = std::shared_ptr<PreparedRequest>;

inline constexpr std::size_t beginning_tokens = 128;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  virtual Counters counters() const = 0;

  // Checks a request, whose seed must be set, and makes its prompt's tokens: the work that grows
  // with the prompt. It changes nothing. Any thread may call it while the owner thread steps.
  virtual Result<Prepared> prepare(const GenerationRequest& request) const = 0;
  // Accepts a request that this engine has prepared, once, under an id that the caller chooses and
  // that is not in use. `priority` is below limits::priority_count; 0 is served first. It and the
  // order in which requests are added change when a request is computed, never its result.
  virtual Status add(RequestId id, Prepared prepared, std::uint32_t priority) = 0;
  Status add(RequestId id, const GenerationRequest& request,
             std::uint32_t priority = limits::priority_default) {
    auto prepared = prepare(request);
    return prepared ? add(id, *std::move(prepared), priority) : fail(prepared.error());
  }
  // Cancels a request; the next call of step() gives its event. Ignores unknown ids.
  virtual void cancel(RequestId id) = 0;
  virtual bool busy() const = 0;
  // Runs one step and appends the events of requests that ended.
  virtual Status step(std::vector<Event>& events) = 0;
  // Sets the function that `step` calls with the requests that it computes for the first time,
  // before it computes them. It must be short.
  virtual void on_begin(std::function<void(const std::vector<RequestId>&)> tell) = 0;
  // The first tokens of a prompt, by which `holds` finds it: at most beginning_tokens.
  virtual Tokens beginning(const PreparedRequest& request) const = 0;
  // Whether the prefix tree has this beginning, so that a prompt that goes on from it computes only
  // what is new.
  virtual bool holds(const Tokens& beginning) const = 0;
  // Text of requests with `partials`, from the steps since the last call.
  virtual std::vector<PartialEvent> take_partials() { return {}; }
  // The time of each kernel since the last call, longest first; empty without options.profile.
  // Waits for the device.
  virtual Result<std::vector<KernelTime>> profile() = 0;

  virtual Result<Tokens> tokenize(std::string_view text, bool add_special_tokens,
                                  bool parse_special) const = 0;
  virtual Result<std::string> detokenize(const Tokens& tokens) const = 0;
};

}  // namespace millrace::engine
