#pragma once
// The command-line options of an engine. `millrace-engine` and the commands of the CLI that start
// or hold an engine (`run`, `score`, `tokenize`) share them.
// Thread safety: plain values and pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/engine.hpp"
#include "schemas/base/error.hpp"

namespace CLI {
class App;
}

namespace millrace::worker {

struct EngineFlags {
  std::string model;
  std::string model_name;  // empty: the file's name
  std::string device;
  std::string devices;      // empty: one engine, on `device`
  std::string pipeline;     // empty: the engine is on one device
  std::uint32_t cores = 0;  // 0: all that this process may use
  std::string kv = "f16";
  std::string kv_protect = "auto";
  std::string kv_center;
  std::string kv_memory = "auto";
  std::uint32_t max_batch = 64;
  std::uint32_t step_tokens = 0;  // 0: chosen by the device
  std::uint32_t prefill_chunk = 256;
  std::string prefix_cache = "memory";
  std::string prefix_disk = "8GiB";
  std::string math = "fast";
  std::uint32_t step_limit_s = 120;  // longer than a broker waits for steps
};

inline constexpr std::uint32_t max_batch_most = 1'024;

inline constexpr const char* engine_group = "Engine";  // heading of these options in --help

// The id of a model without --model-name: its file's name without folder, ".gguf" and, of a split
// model, "-00001-of-00003" or the like.
std::string model_id(std::string_view path);

// Adds the options in a group of their own. engine_options checks most of their values.
void add_engine_options(CLI::App& app, EngineFlags& flags);

// Checks the flags and converts them. Errors: usage, naming the option and the values that it
// takes. Whether a model's heads fit the codecs of --kv shows only when the model is loaded.
Result<engine::EngineOptions> engine_options(const EngineFlags& flags);

// The flags as arguments for a child process, without --model, --device and --devices: a Fleet
// gives each engine its own device.
std::vector<std::string> engine_arguments(const EngineFlags& flags);

// Options of the log, the same in every program.
struct LogFlags {
  std::string level = "info";
  bool json = false;
};
void add_log_options(CLI::App& app, LogFlags& flags);
Status set_up_log(const LogFlags& flags);  // errors: usage

}  // namespace millrace::worker
