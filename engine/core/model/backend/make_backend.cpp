// The one place that asks for the device's family: its backend, its modes, and its row in the tuned
// table.
#include <memory>
#include <string>
#include <utility>

#include "engine/core/model/backend/cpu/cpu_backend.hpp"
#include "engine/core/model/backend/generic/generic_backend.hpp"
#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"

namespace millrace::engine {

kernels::DeviceKey tuning_key(const Device& device) {
  return {.family = family_name(device.family()),
          .device = device.info().name,
          .dot = dot_name(device.dot()),
          .lanes = device.info().vector_width_float};
}

Status check_math(const Device& device, MathMode math) {
  if (math != MathMode::int8 || device.family() == Family::nvidia) return {};
  return fail(
      Code::invalid_value,
      "--math int8 needs an NVIDIA GPU of compute capability 8.0 or newer, and the device is " +
          device.info().name,
      "give --math fast, which also rounds to 8 bits where weights are quantized");
}

std::unique_ptr<Backend> make_backend(Target target) {
  switch (target.device->family()) {
    case Family::cpu:
      return std::make_unique<CpuBackend>(std::move(target));
    case Family::generic:
      return std::make_unique<GenericBackend>(std::move(target));
    case Family::nvidia:
      return std::make_unique<NvidiaBackend>(std::move(target));
  }
  std::unreachable();
}

}  // namespace millrace::engine
