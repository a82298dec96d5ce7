// `millrace errors [CODE]`: prints the table of error codes, or one code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/nearest_name.hpp"

namespace millrace::client {
namespace {

constexpr Code all_codes[] = {
#define X(name, ...) Code::name,
    MILLRACE_ERROR_CODES(X)
#undef X
};

// With its advice, which has a line of its own; in JSON lines always.
void print_code(Code code, bool json, bool advice) {
  if (!json) {
    std::printf("%-24s %3d  %s\n", std::string(code_name(code)).c_str(), code_http_status(code),
                std::string(code_summary(code)).c_str());
    if (advice) std::printf("%29s %s\n", "", std::string(code_advice(code)).c_str());
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("code", code_name(code))
      .field("status", code_http_status(code))
      .field("meaning", code_summary(code))
      .field("advice", code_advice(code))
      .end_object();
  std::printf("%s\n", line.c_str());
}

Error unknown_code(const std::string& name) {
  std::vector<std::string> names;
  for (const Code code : all_codes) names.emplace_back(code_name(code));
  return {Code::usage, "no error code is named " + name,
          did_you_mean(name, names) + "millrace errors prints all of them"};
}

int run(const std::string& name, bool json) {
  if (name.empty()) {
    for (const Code code : all_codes) {
      print_code(code, json, false);
    }
    return exit_all_done;
  }
  const std::optional<Code> code = code_from_name(name);
  if (!code) return report_error(unknown_code(name), json);
  print_code(*code, json, true);
  return exit_all_done;
}

}  // namespace

void add_errors_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("errors",
                                     "Explain error codes.\n\n"
                                     "A line has the code, the status_code of a result that failed "
                                     "with it, and what it means. For one code the next line says "
                                     "what to do; an error that knows better says it itself, in "
                                     "brackets or as its hint.\n\n"
                                     "Example: millrace errors kv_exceeded");
  auto name = std::make_shared<std::string>();
  command->add_option("code", *name, "a code [all]");
  command->callback([&invocation, name] {
    invocation.action = [&invocation, name] { return run(*name, invocation.json); };
  });
}

}  // namespace millrace::client
