#pragma once
// Device options of the benchmarks that open a device themselves. Thread safety: plain values.
#include "engine/core/device/device.hpp"

namespace CLI {
class App;
}

namespace millrace::bench {

// Adds --device and --cores, which work like the engine's. --cores may be at most the number of
// cores that this process may use.
void add_device_options(CLI::App& app, engine::DeviceOptions& options);

}  // namespace millrace::bench
