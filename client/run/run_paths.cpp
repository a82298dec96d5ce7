#include "client/run/run_paths.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // the limit of Linux

Status check_input(const std::string& input) {
  std::error_code ignored;
  const fs::file_status found = fs::status(input, ignored);
  if (!fs::exists(found)) {
    return fail(Code::usage, "the input " + input + " does not exist", "check --input");
  }
  if (!fs::is_regular_file(found)) {
    return fail(Code::usage, "the input " + input + " is not a regular file",
                "write it to a file first, or pipe it in with --input -: a run must be able to "
                "read it again");
  }
  return {};
}

// `what` is "output" or "file of errors", `option` the one that names it.
Status check_output(const std::string& output, const std::vector<std::string>& inputs,
                    const std::string& what, const std::string& option) {
  std::error_code ignored;
  const fs::file_status found = fs::status(output, ignored);
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    return fail(Code::usage, "the " + what + " " + output + " is not a regular file",
                "name a file: a run must be able to go on where it stopped");
  }
  for (const std::string& input : inputs) {
    if (fs::exists(found) && input != standard_stream && fs::equivalent(input, output, ignored)) {
      return fail(Code::usage, "input and " + what + " are the same file, " + input,
                  "name another " + option);
    }
  }
  const std::string parent = parent_directory(output);
  if (!fs::is_directory(parent, ignored)) {
    return fail(Code::io_error, "the folder of the " + what + ", " + parent + ", does not exist",
                "make it, or name another " + option);
  }
  return {};
}

}  // namespace

Status check_paths(const RunPaths& paths) {
  for (const std::string& input : paths.inputs) {
    MILLRACE_TRY(input == standard_stream ? Status() : check_input(input));
  }
  if (std::ranges::count(paths.inputs, standard_stream) > 1) {
    return fail(Code::usage, "standard input is named twice", "give --input - once");
  }
  MILLRACE_TRY(check_output(paths.output, paths.inputs, "output", "--output"));
  if (paths.errors.empty()) {
    return {};
  }
  MILLRACE_TRY(check_output(paths.errors, paths.inputs, "file of errors", "--errors"));
  std::error_code ignored;
  if (fs::absolute(paths.errors).lexically_normal() ==
          fs::absolute(paths.output).lexically_normal() ||
      fs::equivalent(paths.errors, paths.output, ignored)) {
    return fail(Code::usage, "--errors and --output are the same file, " + paths.output,
                "name another file for --errors, or leave it out");
  }
  return {};
}

std::string linked_file(fs::path path) {
  std::error_code error;
  for (int links = 0; links < most_links && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) {
      break;
    }
    path = path.parent_path() / target;  // an absolute target replaces the path
  }
  return path.string();
}

std::vector<std::string> outputs_of(const RunPaths& paths) {
  std::vector<std::string> outputs = {linked_file(paths.output)};
  if (!paths.errors.empty()) {
    outputs.push_back(linked_file(paths.errors));
  }
  return outputs;
}

}  // namespace millrace::client
