// `millrace convert`: writes a model anew with its tensors in other types.
#include "engine/core/convert/convert.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "client/commands/command.hpp"
#include "engine/core/device/cores.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/hub/open_model.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/base/split_name.hpp"

namespace millrace::client {
namespace {

using engine::ConvertPlan;
using engine::GgufFile;

struct Flags {
  std::string model, output, type;
  bool force = false, allow_requantize = false;
  std::uint32_t cores = 0;
};

// The files that the command reads: the model's, all of a split one, or those of a folder.
std::vector<std::string> files_of(const std::string& model) {
  std::vector<std::string> files{model};
  if (const auto name = split_name(model)) {
    for (std::uint32_t part = 1; part <= name->count; ++part) files.push_back(name->part(part));
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(model, ignored)) {
    files.push_back(entry.path().string());
  }
  return files;
}

Status check_flags(Env& env, const Flags& flags) {
  if (engine::find_file_type(flags.type) == nullptr) {
    return fail(Code::usage, "--type " + flags.type + " is not a type of files",
                "choose one of " + engine::file_type_names());
  }
  MILLRACE_TRY(check_named(flags.output, "--output"));
  const auto inputs = files_of(flags.model);
  MILLRACE_TRY(check_apart(flags.output, "--output", inputs));
  MILLRACE_TRY(check_apart(flags.output + ".new", "--output", inputs));  // written first
  const std::string folder = std::filesystem::absolute(flags.output).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return fail(Code::not_found, "there is no folder " + folder + " for the output",
                "make it, or name another --output");
  }
  MILLRACE_ASSIGN(const bool there, env.exists(flags.output));
  if (there && !std::filesystem::is_regular_file(flags.output, ignored)) {
    return fail(Code::conflict, flags.output + " is not a regular file",
                "name a file for --output");
  }
  if (there && !flags.force) {
    return fail(Code::conflict, flags.output + " exists already",
                "name another file for --output, or replace this one with --force");
  }
  return {};
}

std::string type_name(engine::TensorType type) {
  return std::string(engine::traits_of(type).name);
}

void print_progress(const GgufFile& file, const ConvertPlan& plan,
                    const engine::ConvertProgress& progress, bool as_json) {
  const engine::Tensor& tensor = file.tensors()[progress.tensor];
  const std::size_t number = progress.tensor + 1, count = file.tensors().size();
  const std::string from = type_name(tensor.type), to = type_name(plan.types[progress.tensor]);
  if (!as_json) {
    const std::string types = from == to ? "stays " + to : from + " to " + to;
    std::fprintf(stderr, "millrace: tensor %zu of %zu, %s, %s; %s of %s written\n", number, count,
                 printable(std::string(tensor.name)).c_str(), types.c_str(),
                 size_text(progress.written_bytes).c_str(),
                 size_text(plan.layout.file_bytes).c_str());
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("event", "progress")
      .field("number", std::uint64_t{number})
      .field("count", std::uint64_t{count})
      .field("tensor", tensor.name)
      .field("from", from)
      .field("to", to)
      .field("written_bytes", progress.written_bytes)
      .field("bytes", plan.layout.file_bytes)
      .end_object();
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::uint64_t tensor_bytes_of(const GgufFile& file, const std::vector<engine::TensorType>* types) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const engine::Tensor& tensor = file.tensors()[i];
    bytes += engine::tensor_bytes(types == nullptr ? tensor.type : (*types)[i], tensor.shape);
  }
  return bytes;
}

void print_summary(const GgufFile& file, const ConvertPlan& plan, const Flags& flags,
                   bool as_json) {
  const std::string name(engine::find_file_type(flags.type)->name);
  const std::uint64_t before = tensor_bytes_of(file, nullptr);
  const std::uint64_t after = tensor_bytes_of(file, &plan.types);
  double weights = 0;
  for (const engine::Tensor& tensor : file.tensors()) {
    weights += static_cast<double>(tensor.elements());
  }
  const double bits = static_cast<double>(after) * 8 / weights;
  if (!as_json) {
    std::printf("%s: %zu tensors, %s, %s from %s (%.2f bits a weight)\n", flags.output.c_str(),
                file.tensors().size(), name.c_str(), size_text(after).c_str(),
                size_text(before).c_str(), bits);
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("output", flags.output)
      .field("type", name)
      .field("tensors", std::uint64_t{file.tensors().size()})
      .field("file_bytes", plan.layout.file_bytes)
      .field("tensor_bytes", after)
      .field("tensor_bytes_before", before)
      .field("bits_per_weight", bits)
      .end_object();
  std::printf("%s\n", line.c_str());
}

Status run(const Flags& flags, bool as_json) {
  const auto env = posix_env();
  MILLRACE_TRY(check_flags(*env, flags));
  MILLRACE_ASSIGN(const GgufFile file, engine::open_model(flags.model));
  const engine::FileType& type = *engine::find_file_type(flags.type);
  MILLRACE_ASSIGN(const ConvertPlan plan,
                  engine::plan_conversion(file, type, flags.allow_requantize));
  remember_interrupts("", as_json);
  engine::ConvertOptions options;
  options.threads = flags.cores == 0 ? engine::usable_cores() : flags.cores;
  options.interrupted = interrupted;
  options.progress = [&](const engine::ConvertProgress& progress) {
    print_progress(file, plan, progress, as_json);
  };
  MILLRACE_TRY(engine::write_conversion(file, plan, *env, flags.output, options));
  print_summary(file, plan, flags, as_json);
  return {};
}

void add_options(CLI::App& app, Flags& flags) {
  app.add_option("model", flags.model, "model file (GGUF), the first of a split model, or a folder")
      ->type_name("MODEL")
      ->required();
  app.add_option("-o,--output", flags.output, "file to write (GGUF)")
      ->type_name("FILE")
      ->required();
  app.add_option("-t,--type", flags.type, "the new file's type, such as Q8_0, Q6_K or Q4_K_M")
      ->type_name("TYPE")
      ->required();
  app.add_flag("--force", flags.force, "replace the output if it exists");
  app.add_flag("--allow-requantize", flags.allow_requantize,
               "take a file whose tensors are quantized already, and lose quality twice");
  app.add_option("--cores", flags.cores, "threads [all cores that the process may use]")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
}

}  // namespace

void add_convert_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "convert",
      "Write a model file or a hub's folder in another type, like Q4_K_M.\n\n"
      "Types: " +
          engine::file_type_names() +
          ". Each tensor gets the type that llama.cpp's quantizer would give it; norms, biases and "
          "routers are F32. The same model and type give the same bytes on every machine.\n\n"
          "Examples:\n"
          "  millrace convert M-BF16.gguf -o M-Q8_0.gguf --type Q8_0\n"
          "  millrace convert Qwen3-0.6B/ -o Qwen3-0.6B-Q4_K_M.gguf --type Q4_K_M");
  auto flags = std::make_shared<Flags>();
  add_options(*command, *flags);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] {
      const Status done = run(*flags, invocation.json);
      return done ? exit_all_done : report_error(done.error(), invocation.json);
    };
  });
}

}  // namespace millrace::client
