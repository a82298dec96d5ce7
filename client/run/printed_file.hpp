#pragma once
// A file that cannot be read: what is written to it, in order, is handed to a function. A run whose
// output is standard output writes to it. Errors: those of the function. Thread safety: one thread.
#include <functional>
#include <memory>
#include <string_view>

#include "schemas/base/env.hpp"

namespace millrace::client {

std::unique_ptr<File> printed_file(std::function<Status(std::string_view)> print);

}  // namespace millrace::client
