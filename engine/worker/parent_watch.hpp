#pragma once
// Ends this process when its parent's thread that started it ends, however that comes about.
// Errors: io_error; interrupted where the parent has gone already. Thread safety: call it once, at
// the start.
#include "schemas/base/error.hpp"

namespace millrace::worker {

Status die_with_parent();

}  // namespace millrace::worker
