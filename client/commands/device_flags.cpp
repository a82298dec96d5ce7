#include "client/commands/device_flags.hpp"

#include <CLI/CLI.hpp>

namespace millrace::client {

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device,
                 "OpenCL device, as PLATFORM:DEVICE numbers or a part of its name "
                 "[$MILLRACE_DEVICE, else the first GPU]")
      ->type_name("DEVICE");
  app.add_option("--cores", flags.cores, "cores of a CPU device [all that the process may use]")
      ->check(CLI::Range(1u, 1'000'000u));
  app.add_option(
         "--math", flags.math,
         "activations rounded (fast), in fp32 (exact), or bytes times bytes (int8, on NVIDIA GPUs)")
      ->type_name("MODE")
      ->check(CLI::IsMember({"fast", "exact", "int8"}))
      ->capture_default_str();
  app.add_option("--step-tokens", flags.step_tokens,
                 "tokens in one step; fewer take less memory and change no figure")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
}

}  // namespace millrace::client
