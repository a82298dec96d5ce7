#include "engine/core/device/variant.hpp"

#include <cstdlib>
#include <string_view>
#include <utility>

namespace millrace::engine {
namespace {

// PoCL's devices on other machines have the same names as local ones. It looks for them only when
// POCL_DEVICES names them.
bool may_be_remote() {
  const char* const drivers = std::getenv("POCL_DEVICES");
  return drivers != nullptr && std::string_view(drivers).find("remote") != std::string_view::npos;
}

// PoCL's CPU devices run on this process's processor, and its compiler accepts instructions that it
// would not choose itself. For other drivers and machines neither is known.
Dot dot_for(const DeviceInfo& info) {
  const bool here = info.type == DeviceType::cpu && is_pocl(info) && !may_be_remote();
  return here ? best_dot() : Dot::plain;
}

}  // namespace

std::string_view family_name(Family family) {
  switch (family) {
    case Family::cpu:
      return "cpu";
    case Family::generic:
      return "generic";
    case Family::nvidia:
      return "nvidia";
  }
  std::unreachable();
}

Result<Variant> variant_for(const DeviceInfo& info, const std::string& name) {
  constexpr std::string_view with_dot = "cpu-";
  if (name == "generic") return Variant{};
  if (name == "cpu") return Variant{Family::cpu, dot_for(info)};
  if (name == "nvidia") return Variant{Family::nvidia, Dot::plain};
  if (name.empty()) {
    if (info.has_matrix_unit()) return Variant{Family::nvidia, Dot::plain};
    return info.type == DeviceType::cpu ? Variant{Family::cpu, dot_for(info)} : Variant{};
  }
  if (name.starts_with(with_dot)) {
    const auto dot = find_dot(std::string_view(name).substr(with_dot.size()));
    if (dot && processor_has(*dot)) return Variant{Family::cpu, *dot};
    if (dot) {
      return fail(Code::invalid_value,
                  "this processor cannot run the kernel variant \"" + name + "\"",
                  "leave it out to choose by the processor");
    }
  }
  return fail(Code::invalid_value, "no kernel variant \"" + name + "\"",
              "use \"generic\", \"cpu\" or \"nvidia\", or leave it out to choose by the device");
}

}  // namespace millrace::engine
