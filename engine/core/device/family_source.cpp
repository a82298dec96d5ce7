#include "engine/core/device/family_source.hpp"

#include "kernels/sources.hpp"

namespace millrace::engine {

std::string family_source(const Device& device, std::string_view folder) {
  const std::string start = std::string(folder) + "/";
  const std::string own = start + std::string(family_name(device.family())) + ".cl";
  return kernels::find_source(own) != nullptr ? own : start + "generic.cl";
}

}  // namespace millrace::engine
