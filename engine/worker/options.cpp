#include "engine/worker/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/core/device/cores.hpp"
#include "engine/core/kv/choose.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/worker/prefix_place.hpp"
#include "schemas/base/amounts.hpp"
#include "schemas/base/check_field.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/split_name.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::worker {
namespace {

// The error of an option's value.
std::unexpected<Error> usage(const char* option, const std::string& value, const Error& error) {
  return fail(Code::usage, std::string(option) + " " + value + ": " + error.message, error.hint);
}

// Returns --kv and --kv-protect as the text of one policy.
Result<std::string> kv_of(const EngineFlags& flags) {
  const bool chosen = flags.kv == engine::kv_auto;
  const auto policy = engine::parse_kv_policy(chosen ? "f16" : flags.kv);
  if (!policy) {
    Error error = policy.error();
    error.hint = "give auto, which chooses by model, memory and load, or a policy: " + error.hint;
    return usage("--kv", flags.kv, error);
  }
  const auto protection = engine::parse_kv_protection(flags.kv_protect);
  if (!protection) return usage("--kv-protect", flags.kv_protect, protection.error());
  if (*protection == engine::KvProtection{}) return flags.kv;
  if (policy->protection != engine::KvProtection{}) {
    return fail(
        Code::usage,
        "--kv-protect " + flags.kv_protect + ": --kv " + flags.kv + " names protected layers, too",
        "name the protected layers in one of the two options");
  }
  return flags.kv + protection->name();
}

// The model's id. It must be one that a job can name: no control characters, and not "*".
Result<std::string> model_name_of(const EngineFlags& flags) {
  const bool given = !flags.model_name.empty();
  std::string name = given ? flags.model_name : model_id(flags.model);
  const bool usable = name != "*" && utf8_valid(name) &&
                      check_value("model", name, Label{limits::id_bytes, true}).has_value();
  if (usable || flags.model.empty()) return name;
  return fail(Code::usage,
              (given ? "--model-name " : "the file's name ") + utf8_replace_invalid(name) +
                  " cannot be a model's id",
              "give --model-name 1 to " + std::to_string(limits::id_bytes) +
                  " bytes of UTF-8 without control characters, and not *");
}

std::string kv_at_length() {
  std::string out =
      "These are the presets, with their size against f16. KLD is the mean KL divergence from f16 "
      "in nats, measured on a model of 135M parameters, which loses the most, over 1,024 tokens of "
      "perlthrtut with --math exact; millrace fidelity measures it for your model.";
  for (const engine::KvPreset& preset : engine::kv_presets()) {
    out += "\n  " + std::string(preset.name) + ": " + std::string(preset.note);
  }
  return out +
         "\nKEY/VALUE names a codec for keys and one for values. Errors in keys do ten times the "
         "damage of errors in values, so give keys more bits.\n"
         "auto takes the first of f16, q8, k8v4 and k6v4 whose cache holds the load, or k6v4 if "
         "none does. The load is --max-batch sequences of 2,048 tokens, or of the model's context "
         "if that is shorter, and at least one whole context.";
}

}  // namespace

std::string model_id(std::string_view path) {
  constexpr std::string_view suffix = ".gguf";
  while (path.ends_with('/')) path.remove_suffix(1);  // of a folder
  path.remove_prefix(path.rfind('/') + 1);            // npos + 1 is 0
  if (auto split = split_name(path); split && !split->stem.empty()) return std::move(split->stem);
  if (path.ends_with(suffix)) path.remove_suffix(suffix.size());
  return std::string(path);
}

namespace {

Result<std::uint64_t> size_of(const char* option, const std::string& value) {
  const auto size = parse_size(value);
  if (size) return *size;
  return fail(size.error().code, std::string(option) + " " + value + ": not a size",
              size.error().hint);
}

}  // namespace

void add_engine_options(CLI::App& app, EngineFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help) {
    return app.add_option(name, value, help)
        ->type_name(type)
        ->group(engine_group)
        ->capture_default_str();
  };
  app.add_option("--model-name", flags.model_name,
                 "the model's id in jobs and results [the file's name]" +
                     at_length("The file's name is used without its folder and without .gguf."))
      ->type_name("NAME")
      ->group(engine_group);
  add("--device", flags.device, "DEVICE",
      "OpenCL device, as PLATFORM:DEVICE numbers or a part of its name "
      "[$MILLRACE_DEVICE, else the first GPU]" +
          at_length("Without a GPU, the first device is taken."));
  app.add_option("--devices", flags.devices,
                 "an engine on each: all of one kind, or a list like 0,2" +
                     at_length("all means every device like the one that --device chooses. A list "
                               "names devices of one kind by PLATFORM:DEVICE or DEVICE. Only on "
                               "devices of one kind do all engines give the same bits."))
      ->type_name("LIST")
      ->group(engine_group);
  app.add_option("--pipeline", flags.pipeline,
                 "one engine over several, each with some of the layers" +
                     at_length("A list is as for --devices, and may say how many layers each has, "
                               "like 0=41,1=39; otherwise they have about as many bytes of "
                               "weights. The first has the first layers. For models that are too "
                               "large for one device. The devices compute different rows of a "
                               "step at once, so give --max-batch as many times the rows that one "
                               "device should compute. The bits are those of one device."))
      ->type_name("LIST")
      ->group(engine_group);
  app.add_option("--cores", flags.cores,
                 "cores of a CPU device [all that the process may use]" +
                     at_length("A process may use the cores that its affinity mask and the "
                               "container's CPU quota leave to it."))
      ->group(engine_group)
      ->check(CLI::Range(1u, 1'000'000u));
  add("--kv", flags.kv, "POLICY",
      "storage of keys and values: k5v3, q8g64/r4, auto" + at_length(kv_at_length()));
  add("--kv-protect", flags.kv_protect, "LAYERS",
      "layers also stored in f16, like first:2,last:2" +
          at_length(
              "One layer is written like layer:5. auto finds the layers whose keys have outliers, "
              "and the log names them; none turns that off."));
  add("--kv-center", flags.kv_center, "FILE",
      "file of mean keys that millrace calibrate wrote" +
          at_length("Each key is stored as its difference from the mean key of its layer and head. "
                    "The size and the speed stay the same, and the cache is closer to f16."));
  add("--kv-memory", flags.kv_memory, "SIZE",
      "memory of the KV cache" +
          at_length("auto takes what the model leaves of a device's own memory, less a margin of a "
                    "sixteenth and 512 MiB, and 1GiB of memory that the device shares with the "
                    "host. Give a size where other programs use the device, too."));
  add("--max-batch", flags.max_batch, "N",
      "sequences in one step, at most " + std::to_string(max_batch_most));
  app.add_option(
         "--step-tokens", flags.step_tokens,
         "tokens in one step, at least --max-batch [by device]" +
             at_length("Without it, up to 512 tokens, up to 4096 on a device with memory of "
                       "its own, and at least twice --max-batch. Steps that would take "
                       "longer than a quarter of a second get fewer tokens of prompts."))
      ->type_name("N")
      ->group(engine_group)
      ->check(CLI::Range(1u, engine::most_step_tokens));
  add("--prefill-chunk", flags.prefill_chunk, "N", "tokens of one sequence in one step");
  add("--prefix-cache", flags.prefix_cache, "WHERE",
      "beginnings of prompts: memory, off, or ./FOLDER" +
          at_length("Beginnings that prompts share are computed once. memory keeps them in the KV "
                    "cache. A folder, whose name needs a slash, like ./prefixes, keeps them over "
                    "restarts as well; it is one engine's. shared:FOLDER is a folder that several "
                    "engines use at once, also over NFS: what one has computed, the others of the "
                    "same fingerprint read. s3://BUCKET/FOLDER is the same in a bucket of an "
                    "S3-compatible server, with keys from AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, and its address, unless it is Amazon's, from "
                    "AWS_ENDPOINT_URL."));
  add("--prefix-disk", flags.prefix_disk, "SIZE",
      "size limit of the folder of --prefix-cache" +
          at_length("All engines that share it keep the limit together. It holds keys and values, "
                    "and of a model with recurrent layers a state for "
                    "each beginning, which is as large as many tokens."));
  add("--math", flags.math, "MODE",
      "arithmetic: fast, exact (fp32) or int8 (bytes)" +
          at_length("fast rounds activations to 8 bits where weights are quantized, on NVIDIA GPUs "
                    "to halves. int8, only on NVIDIA GPUs, also rounds weights to bytes, with a "
                    "scale for each row: where steps have many tokens it is faster than fast, and "
                    "less exact."));
  add("--step-limit", flags.step_limit_s, "SEC", "a step that takes longer means a lost device")
      ->check(CLI::Range(1u, 86'400u));
}

namespace {

// Splits "0=41,1=39" into devices and layers; either all devices have a number or none.
Status read_pipeline(std::string_view list, engine::EngineOptions& options) {
  std::size_t devices = 0;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    if (equals == 0) {
      return fail(Code::usage, "--pipeline " + std::string(list) + " has an entry without a device",
                  "write it like 0=41,1=39, or 0,1");
    }
    options.pipeline += (devices++ == 0 ? "" : ",") + std::string(item.substr(0, equals));
    if (equals == item.size()) continue;
    const std::string_view number = item.substr(equals + 1);
    std::uint32_t layers = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layers);
    if (error != std::errc{} || end != number.data() + number.size() || layers == 0) {
      return fail(Code::usage,
                  "--pipeline " + std::string(list) + ": " + std::string(item) +
                      " names no number of layers",
                  "write it like 0=41,1=39, or 0,1");
    }
    options.pipeline_layers.push_back(layers);
  }
  if (options.pipeline_layers.empty() || options.pipeline_layers.size() == devices) return {};
  return fail(Code::usage,
              "--pipeline " + std::string(list) + " gives not all devices their layers",
              "write it like 0=41,1=39, or 0,1");
}

}  // namespace

Result<engine::EngineOptions> engine_options(const EngineFlags& flags) {
  const auto math = engine::find_math(flags.math);
  if (!math)
    return fail(Code::usage, "--math " + flags.math + " is unknown",
                "give --math fast, --math exact or --math int8");
  const std::pair<const char*, std::uint32_t> counts[] = {{"--max-batch", flags.max_batch},
                                                          {"--prefill-chunk", flags.prefill_chunk}};
  for (const auto& [name, value] : counts)
    if (value == 0) return fail(Code::usage, std::string(name) + " is 0", "give at least 1");
  if (const std::uint32_t most = engine::usable_cores(); flags.cores > most)
    return fail(Code::usage,
                "--cores " + std::to_string(flags.cores) + ", but this process may use " +
                    std::to_string(most),
                "leave it out, or widen the affinity mask or the container's CPU quota");
  if (!flags.pipeline.empty() && !flags.devices.empty())
    return fail(Code::usage, "--pipeline and --devices exclude each other",
                "give --pipeline for one engine over several devices, --devices for one on each");
  if (flags.max_batch > max_batch_most)
    return fail(Code::usage,
                "--max-batch is " + std::to_string(flags.max_batch) + ", the limit is " +
                    std::to_string(max_batch_most),
                "start more engines to run more at once");
  if (flags.step_tokens != 0 && flags.step_tokens < flags.max_batch)
    return fail(Code::usage,
                "--step-tokens " + std::to_string(flags.step_tokens) +
                    " is less than --max-batch " + std::to_string(flags.max_batch),
                "every decoding sequence takes one token of a step: raise the one or lower the "
                "other");
  engine::EngineOptions options;
  options.model_path = flags.model;
  MILLRACE_ASSIGN(options.model_name, model_name_of(flags));
  options.device = flags.device;
  MILLRACE_TRY(read_pipeline(flags.pipeline, options));
  options.cores = flags.cores;
  MILLRACE_ASSIGN(options.kv, kv_of(flags));
  options.kv_center = flags.kv_center;
  options.kv_memory_auto = flags.kv_memory == engine::kv_auto;
  if (!options.kv_memory_auto) {
    MILLRACE_ASSIGN(options.kv_memory_bytes, size_of("--kv-memory", flags.kv_memory));
  }
  options.max_batch = flags.max_batch;
  options.step_tokens = flags.step_tokens;
  options.prefill_chunk = flags.prefill_chunk;
  MILLRACE_TRY(set_prefix_place(flags.prefix_cache, options));
  MILLRACE_ASSIGN(options.prefix_disk_bytes, size_of("--prefix-disk", flags.prefix_disk));
  options.math = *math;
  return options;
}

std::vector<std::string> engine_arguments(const EngineFlags& flags) {
  std::vector<std::string> out = {"--kv",
                                  flags.kv,
                                  "--kv-protect",
                                  flags.kv_protect,
                                  "--kv-memory",
                                  flags.kv_memory,
                                  "--max-batch",
                                  std::to_string(flags.max_batch),
                                  "--prefill-chunk",
                                  std::to_string(flags.prefill_chunk),
                                  "--prefix-cache",
                                  flags.prefix_cache,
                                  "--prefix-disk",
                                  flags.prefix_disk,
                                  "--math",
                                  flags.math,
                                  "--step-limit",
                                  std::to_string(flags.step_limit_s)};
  if (flags.step_tokens != 0) {
    out.insert(out.end(), {"--step-tokens", std::to_string(flags.step_tokens)});
  }
  if (!flags.kv_center.empty()) out.insert(out.end(), {"--kv-center", flags.kv_center});
  if (!flags.model_name.empty()) out.insert(out.end(), {"--model-name", flags.model_name});
  if (!flags.pipeline.empty()) out.insert(out.end(), {"--pipeline", flags.pipeline});
  if (flags.cores != 0) out.insert(out.end(), {"--cores", std::to_string(flags.cores)});
  return out;
}

void add_log_options(CLI::App& app, LogFlags& flags) {
  app.add_option("--log-level", flags.level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->group("Log")
      ->capture_default_str();
  app.add_flag("--log-json", flags.json, "write each line of the log as a JSON object")
      ->group("Log");
}

Status set_up_log(const LogFlags& flags) {
  MILLRACE_ASSIGN(const LogLevel level, log_level_from_name(flags.level));
  set_up_logging({level, flags.json, {}});
  return {};
}

}  // namespace millrace::worker
