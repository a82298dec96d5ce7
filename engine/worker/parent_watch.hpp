#pragma once
// Makes the kernel kill this process when the thread of the parent that started it ends, for
// whatever reason. Errors: io_error; interrupted when the parent has ended already. Thread safety:
// call it once, at the start.
#include "schemas/base/error.hpp"

namespace millrace::worker {

Status die_with_parent();

}  // namespace millrace::worker
