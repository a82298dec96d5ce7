#pragma once
// PoCL's cache of its own, of code it specializes at a kernel's first launch. No OpenCL call tells
// of it, and it matters twice: where it cannot be written PoCL shows no device, and damage in it
// ends the process inside the driver. Known here so that people can be told which folder it is.
// Thread safety: reads the environment, as PoCL does.
#include <optional>
#include <string>

namespace millrace::engine {

// By PoCL's own rules (POCL_CACHE_DIR, XDG_CACHE_HOME, HOME); it need not be there yet.
std::string pocl_cache_folder();

// Why PoCL cannot use that folder, for a person; nothing where it can.
std::optional<std::string> pocl_cache_trouble();

}  // namespace millrace::engine
