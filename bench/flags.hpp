#pragma once
// The device as the benchmarks take it that open one themselves. Thread safety: plain values.
#include "engine/core/device/device.hpp"

namespace CLI {
class App;
}

namespace millrace::bench {

// --device, and --cores with what this process may use as its limit, as the engine has it.
void add_device_options(CLI::App& app, engine::DeviceOptions& options);

}  // namespace millrace::bench
