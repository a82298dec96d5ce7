#pragma once
// Tells whether a model is the one that a run began with. Errors: those of Env. Thread safety: any
// thread.
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::client {

// Returns a short identity of a model file, without reading all of it: its size and, as hex, a hash
// of blocks spread over the file; of a split model or a folder of a hub, a hash of this of all
// parts, or of all files that the engine reads.
Result<std::string> model_identity(Env& env, const std::string& path);

}  // namespace millrace::client
