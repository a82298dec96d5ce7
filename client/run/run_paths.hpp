#pragma once
// The files that a run reads and writes, as the command line names them.
// Errors: usage (a file that the run cannot use, or two that are the same), io_error (no folder).
// Thread safety: pure functions, apart from the file system.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

inline constexpr std::string_view standard_stream = "-";  // names standard input or output

struct RunPaths {
  std::vector<std::string> inputs;  // at most one of them is "-", standard input
  std::string output;
  std::string errors{};  // of failed lines; empty: they go into the output
  // If given, receives the output's text in place of the file `output`, beside which the folder is.
  std::function<Status(std::string_view)> print{};
  std::function<bool()> interrupted{};  // ends the reading of standard input
};

Status check_paths(const RunPaths& paths);
// Follows a link to its target, which need not exist: a run moves and makes the file itself.
std::string linked_file(std::filesystem::path path);
// The output, and the file of errors if there is one; links are followed.
std::vector<std::string> outputs_of(const RunPaths& paths);

}  // namespace millrace::client
