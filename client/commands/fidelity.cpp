// `millrace fidelity`: measures what KV policies cost on a text that a model reads with each.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/commands/command.hpp"
#include "client/commands/device_flags.hpp"
#include "client/commands/fidelity_report.hpp"
#include "client/commands/kv_names.hpp"
#include "client/commands/text_input.hpp"
#include "engine/core/families/read_spec.hpp"
#include "engine/core/hub/open_model.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "engine/worker/driver_guard.hpp"
#include "engine/worker/options.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

using engine::FidelityContexts;
using engine::FidelityRun;
using nlohmann::json;

constexpr std::uint64_t most_text_bytes = std::uint64_t{1} << 30;
constexpr std::uint32_t default_context = 512;

struct Flags : DeviceFlags {
  std::string model, text, tokens, kv = "f16,q8,k8v4,k6v4,k5v3,k4v3", kv_protect = "auto",
                                   kv_center;
  std::string reference, plot, score = "half";
  std::uint32_t context = 0;  // 0: that of the tokens' file, or default_context
  std::uint32_t contexts = 0;
};

Result<std::string> read_whole(const std::string& path) {
  const auto env = posix_env();
  auto content = read_file(*env, path, most_text_bytes);
  if (content) return content;
  Error error = std::move(content).error();
  error.hint = "check that it is a file you may read";
  return fail(std::move(error));
}

// Reads a file of ids: {"tokens": [...], "context": n}; the context may be absent.
Status read_ids(const std::string& path, Tokens& ids, std::uint32_t& context) {
  MILLRACE_ASSIGN(const std::string content, read_whole(path));
  const json value = json::parse(content, nullptr, false);
  const auto wrong = [&] {
    return fail(Code::invalid_value, path + " holds no token ids",
                R"(write it as {"tokens": [1, 2, 3], "context": 512})");
  };
  const auto is_id = [](const json& x) {
    return x.is_number_unsigned() && x.get<std::uint64_t>() <= UINT32_MAX;
  };
  if (!value.is_object() || !value.contains("tokens") || !value["tokens"].is_array()) {
    return wrong();
  }
  for (const json& id : value["tokens"]) {
    if (!is_id(id)) return wrong();
    ids.push_back(id.get<TokenId>());
  }
  if (value.contains("context")) {
    if (!is_id(value["context"])) return wrong();
    context = value["context"].get<std::uint32_t>();
  }
  return {};
}

// Reads the text or the ids and cuts them into contexts. Ids form one context unless --context or
// their file gives its size.
Result<FidelityContexts> read_contexts(const Flags& flags, const engine::GgufFile& file,
                                       std::uint32_t vocabulary) {
  engine::CutOptions cut;
  cut.most = flags.contexts;
  cut.all_scored = flags.score == "all";
  Tokens ids;
  if (!flags.tokens.empty()) {
    std::uint32_t own = 0;
    MILLRACE_TRY(read_ids(flags.tokens, ids, own));
    const auto whole = static_cast<std::uint32_t>(ids.size());
    cut.size = flags.context > 0 ? flags.context : own > 0 ? own : whole;
    return engine::cut_contexts(ids, cut, vocabulary);
  }
  MILLRACE_ASSIGN(const std::string text, read_whole(flags.text));
  MILLRACE_TRY(check_text(text));
  MILLRACE_ASSIGN(const auto tokenizer, engine::Tokenizer::load(file.metadata()));
  ids = tokenizer.tokenize(text, {});
  cut.size = flags.context > 0 ? flags.context : default_context;
  if (tokenizer.adds_bos() && tokenizer.bos()) cut.prefix = {*tokenizer.bos()};
  return engine::cut_contexts(ids, cut, vocabulary);
}

void print_progress(const std::string& name, std::size_t number, std::size_t count, bool as_json) {
  if (!as_json) {
    std::fprintf(stderr, "millrace: %s (%zu of %zu)\n", name.c_str(), number, count);
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("event", "progress")
      .field("policy", name)
      .field("number", std::uint64_t{number})
      .field("count", std::uint64_t{count})
      .end_object();
  std::fprintf(stderr, "%s\n", line.c_str());
}

Status measure(const std::vector<NamedPolicy>& policies, FidelityRun& run, FidelityReport& report,
               worker::DriverGuard& guard, bool as_json) {
  for (const NamedPolicy& asked : policies) {  // checks all before it measures the first
    MILLRACE_TRY(engine::resolve(asked.policy, run.shape()));
  }
  for (const NamedPolicy& asked : policies) {
    print_progress(asked.name, report.rows.size() + 1, policies.size(), as_json);
    MILLRACE_ASSIGN(auto found, run.measure(asked.policy));
    if (report.rows.empty()) guard.succeeded();
    report.rows.push_back({asked.name, std::move(found)});
    if (!as_json) continue;
    std::printf("%s\n", fidelity_json(report, report.rows.back()).c_str());
    std::fflush(stdout);
  }
  return {};
}

Status print_report(const FidelityReport& report, const Flags& flags, bool as_json) {
  const Scatter scatter = fidelity_scatter(report);
  if (!as_json) {
    std::printf("%s\n%s\n%s\n", fidelity_title(report).c_str(), fidelity_tables(report).c_str(),
                text_plot(scatter).c_str());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(Code::io_error, "cannot write to standard output",
                "check the file or the pipe that it is redirected to");
  }
  if (flags.plot.empty()) return {};
  MILLRACE_ASSIGN(const std::string png, png_plot(scatter));
  MILLRACE_TRY(write_file_atomically(*posix_env(), flags.plot, png, Access::by_umask));
  if (!as_json) std::printf("Plot: %s\n", flags.plot.c_str());
  return {};
}

Status run(const Flags& flags, worker::DriverGuard& guard, bool as_json) {
  if (flags.text.empty() == flags.tokens.empty()) {
    return fail(Code::usage, "one of --text and --tokens is needed",
                "give --text FILE, like /usr/share/common-licenses/GPL-3");
  }
  MILLRACE_ASSIGN(const auto policies, parse_policies(flags.kv, flags.kv_protect));
  const auto env = posix_env();
  if (!flags.plot.empty()) {
    MILLRACE_TRY(
        check_output(*env, flags.plot, "--plot", png_magic,
                     {flags.model, flags.text, flags.tokens, flags.reference, flags.kv_center}));
  }
  MILLRACE_ASSIGN(const engine::GgufFile file, engine::open_model(flags.model));
  MILLRACE_ASSIGN(const engine::ModelSpec spec, engine::read_spec(file));
  MILLRACE_ASSIGN(const FidelityContexts contexts, read_contexts(flags, file, spec.vocabulary));
  std::optional<engine::LogitsFile> reference;
  if (!flags.reference.empty()) {
    MILLRACE_ASSIGN(reference, engine::LogitsFile::open(*env, flags.reference));
    MILLRACE_TRY(reference->first_row(contexts, spec.vocabulary));
  }
  MILLRACE_ASSIGN(const auto device,
                  engine::Device::open({.device = flags.device, .cores = flags.cores}));
  engine::FidelityOptions options;
  options.math = engine::find_math(flags.math).value_or(options.math);
  options.step_tokens = std::min(flags.step_tokens, contexts.size);
  if (!flags.kv_center.empty()) {
    MILLRACE_ASSIGN(options.key_means, engine::read_key_means(*env, flags.kv_center));
  }
  MILLRACE_ASSIGN(const auto measured, FidelityRun::open(*device, file, contexts, options,
                                                         reference ? &*reference : nullptr));
  FidelityReport report{.model = worker::model_id(flags.model),
                        .device = device->info().name,
                        .math = flags.math,
                        .reference = flags.reference,
                        .centered_by = options.key_means ? options.key_means->digest() : "",
                        .contexts = contexts.count(),
                        .context_tokens = contexts.size,
                        .rows = {}};
  MILLRACE_TRY(measure(policies, *measured, report, guard, as_json));
  return print_report(report, flags, as_json);
}

void add_options(CLI::App& app, Flags& flags) {
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help) {
    return app.add_option(name, value, help)->type_name(type);
  };
  add("-m,--model", flags.model, "FILE", "model file (GGUF) or folder")->required();
  add("--text", flags.text, "FILE", "text that the model reads");
  add("--tokens", flags.tokens, "FILE",
      "JSON file of token ids instead of a text" +
          at_length(R"(It holds {"tokens": [...], "context": n}; context may be left out.)"));
  add("--kv", flags.kv, "POLICIES", "KV policies to compare with f16")->capture_default_str();
  add("--kv-protect", flags.kv_protect, "LAYERS",
      "layers stored in f16, for policies that name none, like first:2" +
          at_length("Layers whose keys have outliers are protected as well, unless none is given."))
      ->capture_default_str();
  add("--kv-center", flags.kv_center, "FILE",
      "measure with the mean keys of this file, which millrace calibrate wrote");
  add("--context", flags.context, "N", "tokens of a context [512; with --tokens its own or all]")
      ->check(CLI::Range(4U, 1U << 24));
  add("--contexts", flags.contexts, "N", "most contexts to read [all that the text has]");
  add("--score", flags.score, "WHICH",
      "positions to score: half (the second half of each context) or all")
      ->check(CLI::IsMember({"half", "all"}))
      ->capture_default_str();
  add("--reference", flags.reference, "FILE",
      "logits over the same tokens, to compare with as well" +
          at_length("client/README.md describes the format, MLOGITS1."));
  add("--plot", flags.plot, "FILE", "PNG of mean KLD over bytes per token");
  add_device_flags(app, flags);
}

}  // namespace

void add_fidelity_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "fidelity",
      "Measure what KV policies cost: KL divergence, top-1, perplexity.\n\n"
      "The model reads the text with f16 KV and with each policy, and the device compares the "
      "distributions of each next token. Two models are in memory at a time. A policy is a preset "
      "or KEY/VALUE, like r5/r3, and may name the layers to protect: k4v3+first:2, k4v3+none.\n\n"
      "Examples:\n"
      "  millrace fidelity --model M.gguf --text /usr/share/common-licenses/GPL-3\n"
      "  millrace fidelity --model M.gguf --text T --kv k8v4,r4/r4 --plot kv.png");
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
