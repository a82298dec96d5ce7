// `millrace tokenize`: text lines to arrays of token ids, and back with --decode.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "client/commands/command.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/lines/json_writer.hpp"
#include "client/lines/result_fields.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

struct Flags {
  std::string model;
  std::string input;
  bool decode = false;
  bool special = false;  // add BOS where the file says so
  bool parse_special = false;
};

std::string ids_line(const engine::Tokenizer& tokenizer, const std::string& text,
                     const Flags& flags) {
  std::string out;
  JsonWriter writer(out);
  write_ids(writer, tokenizer.tokenize(text, {.add_special_tokens = flags.special,
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
    return fail(Code::invalid_value, "not a JSON array of token ids", "e.g. [1, 2, 3]");
  }
  return tokenizer.detokenize(ids, {.render_special = true});
}

void print_text(const std::string& text, bool as_json) {
  if (as_json) {
    std::string out;
    JsonWriter(out).value(text);
    std::printf("%s\n", out.c_str());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
  }
}

int run(const Flags& flags, bool as_json) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) {
    return report_error(tokenizer.error(), as_json);
  }
  std::ifstream file;
  if (!flags.input.empty()) {
    file.open(flags.input, std::ios::binary);
    if (!file) {
      return report_error({Code::io_error, "cannot read " + flags.input, "check the path"},
                          as_json);
    }
  }
  std::istream& input = flags.input.empty() ? std::cin : file;
  std::string line;
  bool failed = false;
  for (std::uint64_t number = 1; std::ferror(stdout) == 0 && std::getline(input, line); ++number) {
    if (!flags.decode) {
      std::printf("%s\n", ids_line(*tokenizer, line, flags).c_str());
      continue;
    }
    if (const auto text = text_line(*tokenizer, line)) {
      print_text(*text, as_json);
    } else {
      Error error = text.error();
      error.message = "line " + std::to_string(number) + ": " + error.message;
      print_error(error, as_json);
      failed = true;
    }
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report_error({Code::io_error, "cannot write to standard output", "check where it goes"},
                        as_json);
  }
  return failed ? exit_some_failed : exit_all_done;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "tokenize",
      "Text lines in, JSON arrays of token ids out; with --decode the other way\n\n"
      "Examples:\n"
      "  echo 'Hello world' | millrace tokenize --model M.gguf\n"
      "  echo '[19556, 905]' | millrace tokenize --model M.gguf --decode\n"
      "Decoded text is printed as it is; with --json as a JSON string, which keeps its newlines.");
  auto flags = std::make_shared<Flags>();
  command->add_option("-m,--model", flags->model, "model file (GGUF)")->required();
  command->add_option("input", flags->input, "a file; without it, standard input");
  command->add_flag("--decode", flags->decode, "arrays of ids in, text out");
  command->add_flag("--add-special", flags->special, "put BOS before where the model says so");
  command->add_flag("--parse-special", flags->parse_special,
                    "control tokens written in the text become those tokens");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
