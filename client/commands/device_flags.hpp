#pragma once
// Device options of the commands that run a model themselves, `fidelity` and `calibrate`.
// Thread safety: plain values.
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace millrace::client {

struct DeviceFlags {
  std::string device, math = "fast";
  std::uint32_t cores = 0, step_tokens = 128;
};

void add_device_flags(CLI::App& app, DeviceFlags& flags);

}  // namespace millrace::client
