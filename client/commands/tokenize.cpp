// `millrace tokenize`: turns lines of text into arrays of token ids, and back with --decode.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/commands/command.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/commands/text_input.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

struct Flags {
  std::string model;
  std::string input;
  bool decode = false;
  bool special = false;  // add BOS if the file says so
  bool parse_special = false;
};

Result<std::string> ids_line(const engine::Tokenizer& tokenizer, const std::string& text,
                             const Flags& flags) {
  MILLRACE_TRY(check_text(text));
  std::string out;
  JsonWriter writer(out);
  openai::write_ids(writer, tokenizer.tokenize(text, {.add_special_tokens = flags.special,
                                                      .parse_special = flags.parse_special}));
  return out;
}

Result<std::string> text_line(const engine::Tokenizer& tokenizer, const std::string& line) {
  const json value = json::parse(line, nullptr, false);
  Tokens ids;
  bool sound = value.is_array();
  for (std::size_t i = 0; sound && i < value.size(); ++i) {
    sound = value[i].is_number_unsigned() && value[i].get<std::uint64_t>() <= UINT32_MAX;
    if (sound) {
      ids.push_back(value[i].get<TokenId>());
    }
  }
  if (!sound) {
    return fail(Code::invalid_value, "not a JSON array of token ids", "write it like [1, 2, 3]");
  }
  return tokenizer.detokenize(ids, {.render_special = true, .drop_space_prefix = true});
}

std::string json_string(const std::string& text) {
  std::string out;
  JsonWriter(out).value(text);
  return out;
}

// Returns whether every line was sound. Names the others on standard error.
Result<bool> convert(const engine::Tokenizer& tokenizer, TextInput& input, const Flags& flags,
                     bool as_json) {
  bool sound = true;
  for (std::string line; std::ferror(stdout) == 0;) {
    MILLRACE_ASSIGN(const bool more, input.next(line));
    if (!more) {
      break;
    }
    auto out = flags.decode ? text_line(tokenizer, line) : ids_line(tokenizer, line, flags);
    if (!out) {
      Error error = std::move(out).error();
      error.message = "line " + std::to_string(input.number()) + ": " + error.message;
      print_error(error, as_json);
      sound = false;
      continue;
    }
    const std::string printed = flags.decode && as_json ? json_string(*out) : *std::move(out);
    std::fwrite(printed.data(), 1, printed.size(), stdout);
    std::fputc('\n', stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(Code::io_error, "cannot write to standard output",
                "check the file or the pipe that it is redirected to");
  }
  return sound;
}

int run(const Flags& flags, bool as_json) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) {
    return report_error(tokenizer.error(), as_json);
  }
  auto input = TextInput::open(flags.input);
  if (!input) {
    return report_error(input.error(), as_json);
  }
  const auto sound = convert(*tokenizer, *input, flags, as_json);
  if (!sound) {
    return report_error(sound.error(), as_json);
  }
  return *sound ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "tokenize",
      "Turn lines of text into token ids, or ids into text.\n\n"
      "Ids are JSON arrays, one a line. Decoded text is printed as it is; with --json as a JSON "
      "string, which keeps its newlines.\n\n"
      "Examples:\n"
      "  echo 'Hello world' | millrace tokenize --model M.gguf\n"
      "  echo '[19556, 905]' | millrace tokenize --model M.gguf --decode");
  auto flags = std::make_shared<Flags>();
  command->add_option("-m,--model", flags->model, "model file (GGUF) or folder")
      ->type_name("FILE")
      ->required();
  command->add_option("input", flags->input, "file of lines [standard input]");
  command->add_flag("--decode", flags->decode, "turn arrays of ids into text");
  command->add_flag("--add-special", flags->special,
                    "put BOS before each line if the model's file says so");
  command->add_flag(
      "--parse-special", flags->parse_special,
      "turn text that spells a control token into that token, as a job's prompt does");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
