#include "client/commands/input_paths.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "client/commands/command.hpp"
#include "client/run/standard_input.hpp"
#include "client/run/temporary_place.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

Status check_file(const std::string& input) {
  MILLRACE_TRY(check_named(input, "the input"));
  std::error_code ignored;
  const fs::file_status found = fs::status(input, ignored);
  if (!fs::exists(found)) {
    return fail(Code::usage, "the input " + input + " does not exist", "check the path");
  }
  if (!fs::is_regular_file(found)) {
    return fail(Code::usage, "the input " + input + " is not a regular file",
                "write the jobs to a file first, or pipe them in and name - as the input");
  }
  return {};
}

}  // namespace

Status check_inputs(const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    MILLRACE_TRY(input == standard_stream ? Status() : check_file(input));
  }
  if (std::ranges::count(inputs, standard_stream) > 1) {
    return fail(Code::usage, "standard input is named twice", "name - once");
  }
  return {};
}

// The copy stays readable after its place is gone, because it is open.
Result<std::unique_ptr<InputFiles>> open_inputs(Env& env, const std::vector<std::string>& inputs) {
  MILLRACE_TRY(check_inputs(inputs));
  std::vector<std::string> files = inputs, names = inputs;
  TemporaryPlace place;
  const auto standard = std::ranges::find(files, standard_stream);
  if (standard != files.end()) {
    MILLRACE_ASSIGN(place, TemporaryPlace::make("stdin"));
    *standard = place.path() + "/stdin";
    names[static_cast<std::size_t>(standard - files.begin())] = "standard input";
    MILLRACE_TRY(keep_standard_input(env, *standard, "", interrupted));
  }
  return InputFiles::open(env, files, std::move(names));
}

}  // namespace millrace::client
