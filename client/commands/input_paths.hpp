#pragma once
// The inputs of a command that reads them more than once, as they are named on the command line:
// files, or "-" for standard input. Errors: usage, interrupted, io_error, disk_full.
// Thread safety: the main thread.
#include <memory>
#include <string>
#include <vector>

#include "client/lines/input_files.hpp"
#include "client/run/run_folder.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

// Checks that each is a regular file or standard input, which may be named once.
Status check_inputs(const std::vector<std::string>& inputs);
// Reads standard input to its end, into a temporary file that has no name.
Result<std::unique_ptr<InputFiles>> open_inputs(Env& env, const std::vector<std::string>& inputs);

}  // namespace millrace::client
