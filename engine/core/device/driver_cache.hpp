#pragma once
// PoCL's own cache, which holds code that it compiles at a kernel's first launch. No OpenCL call
// tells where it is, but users must know: PoCL shows no device when it cannot write there, and
// damage there ends the process inside the driver.
// Thread safety: reads the environment, as PoCL does.
#include <optional>
#include <string>

namespace millrace::engine {

// The folder, by PoCL's rules (POCL_CACHE_DIR, XDG_CACHE_HOME, HOME). It need not exist yet.
std::string pocl_cache_folder();

// Says, for a message, why PoCL cannot use that folder; nothing if it can.
std::optional<std::string> pocl_cache_trouble();

}  // namespace millrace::engine
