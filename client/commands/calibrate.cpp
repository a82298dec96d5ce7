// `millrace calibrate`: writes a model's mean keys over a text to a file for --kv-center.
#include "engine/core/fidelity/calibrate.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "client/commands/command.hpp"
#include "client/commands/device_flags.hpp"
#include "client/commands/text_input.hpp"
#include "engine/core/families/read_spec.hpp"
#include "engine/core/hub/open_model.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "engine/worker/driver_guard.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

using engine::FidelityContexts;
using engine::KeyMeans;

constexpr std::uint64_t most_text_bytes = std::uint64_t{1} << 30;
constexpr std::size_t enough_tokens = 10'000;
constexpr const char* file_ending = ".keys";  // appended to the model's path

struct Flags : DeviceFlags {
  std::string model, text, output;
  std::uint32_t context = 1024, contexts = 64;
};

Result<FidelityContexts> read_contexts(Env& env, const Flags& flags, const engine::GgufFile& file,
                                       const engine::ModelSpec& spec, bool as_json) {
  MILLRACE_ASSIGN(const std::string text, read_file(env, flags.text, most_text_bytes));
  MILLRACE_TRY(check_text(text));
  MILLRACE_ASSIGN(const auto tokenizer, engine::Tokenizer::load(file.metadata()));
  const Tokens ids = tokenizer.tokenize(text, {});
  if (ids.size() < engine::least_context_tokens) {
    return fail(Code::invalid_value,
                "the text " + flags.text + " has " + std::to_string(ids.size()) +
                    " tokens, too few for mean keys",
                "give some ten thousand words like those of the model's jobs");
  }
  if (ids.size() < enough_tokens) {
    print_notice("short_text",
                 "the text has only " + count_text(ids.size(), "token") +
                     ": means over fewer than " + std::to_string(enough_tokens) +
                     " fit other texts badly",
                 as_json);
  }
  engine::CutOptions cut{.most = flags.contexts};
  if (tokenizer.adds_bos() && tokenizer.bos()) cut.prefix = {*tokenizer.bos()};
  // A text that is shorter than a piece is one piece.
  const std::size_t whole = ids.size() + cut.prefix.size();
  cut.size = static_cast<std::uint32_t>(
      std::min<std::size_t>({flags.context, spec.context_tokens, whole}));
  return engine::cut_contexts(ids, cut, spec.vocabulary);
}

void print_progress(std::uint32_t done, std::uint32_t count, bool as_json) {
  if (!as_json) {
    std::fprintf(stderr, "millrace: %u of %u pieces of text\n", done, count);
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("event", "progress")
      .field("number", std::uint64_t{done})
      .field("count", std::uint64_t{count})
      .end_object();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void print_summary(const KeyMeans& means, const std::string& path, bool as_json) {
  if (!as_json) {
    std::printf("%s: mean keys of %u layers, %zu channels in all, over %llu tokens\n", path.c_str(),
                means.shape.count(), means.shape.channels(),
                static_cast<unsigned long long>(means.tokens));
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("file", path)
      .field("digest", means.digest())
      .field("tokens", means.tokens)
      .end_object();
  std::printf("%s\n", line.c_str());
}

Status run(const Flags& flags, worker::DriverGuard& guard, bool as_json) {
  const std::string path = flags.output.empty() ? flags.model + file_ending : flags.output;
  const auto env = posix_env();
  MILLRACE_ASSIGN(const engine::GgufFile file, engine::open_model(flags.model));
  MILLRACE_ASSIGN(const engine::ModelSpec spec, engine::read_spec(file));
  MILLRACE_ASSIGN(const FidelityContexts contexts, read_contexts(*env, flags, file, spec, as_json));
  MILLRACE_TRY(
      check_output(*env, path, "--output", engine::key_means_magic, {flags.model, flags.text}));
  MILLRACE_ASSIGN(const auto device,
                  engine::Device::open({.device = flags.device, .cores = flags.cores}));
  engine::CalibrateOptions options;
  options.math = engine::find_math(flags.math).value_or(options.math);
  options.step_tokens = std::min(flags.step_tokens, contexts.size);
  options.progress = [&](std::uint32_t done) {
    if (done == 1) guard.succeeded();
    print_progress(done, contexts.count(), as_json);
  };
  MILLRACE_ASSIGN(const KeyMeans means, calibrate_keys(*device, file, contexts, options));
  MILLRACE_TRY(write_file_atomically(*env, path, encode_key_means(means), Access::by_umask));
  print_summary(means, path, as_json);
  return {};
}

void add_options(CLI::App& app, Flags& flags) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* help) {
    return app.add_option(name, value, help)->type_name(type);
  };
  add("-m,--model", flags.model, "FILE", "model file (GGUF) or folder")->required();
  add("--text", flags.text, "FILE", "some ten thousand words like those of the model's jobs")
      ->required();
  add("-o,--output", flags.output, "FILE", "file for the mean keys [the model's path and .keys]");
  add("--context", flags.context, "N", "tokens of a piece of the text, at most the model's context")
      ->check(CLI::Range(4U, 1U << 24))
      ->capture_default_str();
  add("--contexts", flags.contexts, "N", "most pieces to read; 0 for all that the text has")
      ->capture_default_str();
  add_device_flags(app, flags);
}

}  // namespace

void add_calibrate_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "calibrate",
      "Write a model's mean keys over a text to a file for --kv-center.\n\n"
      "The keys of a head have much in common. A quantized KV cache that stores each key as its "
      "difference from their mean is closer to f16, at the same size and speed: the KL divergence "
      "falls by a fifth (k5v3) to two fifths (k4v3). millrace fidelity measures it.\n\n"
      "Examples:\n"
      "  millrace calibrate --model M.gguf --text T\n"
      "  millrace run --model M.gguf --kv k5v3 --kv-center M.gguf.keys -i IN -o OUT");
  auto flags = std::make_shared<Flags>();
  add_options(*command, *flags);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] {
      worker::DriverGuard guard("millrace", invocation.arguments,
                                {.device = flags->device, .cores = flags->cores});
      const Status done = run(*flags, guard, invocation.json);
      return done ? exit_all_done : report_error(guard.failed(done.error()), invocation.json);
    };
  });
}

}  // namespace millrace::client
