#include "bench/flags.hpp"

#include <CLI/CLI.hpp>

#include "engine/core/device/cores.hpp"

namespace millrace::bench {

void add_device_options(CLI::App& app, engine::DeviceOptions& options) {
  app.add_option("--device", options.device, "OpenCL device, like the engine's option");
  app.add_option("--cores", options.cores, "most cores of a CPU device")
      ->check(CLI::Range(1u, engine::usable_cores()));
}

}  // namespace millrace::bench
