#include "client/commands/device_flags.hpp"

#include <CLI/CLI.hpp>

namespace millrace::client {

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "OpenCL device, as the engine takes it");
  app.add_option("--cores", flags.cores, "cores of a CPU device [all that the process may use]")
      ->check(CLI::Range(1u, 1'000'000u));
  app.add_option("--math", flags.math, "arithmetic: fast (8-bit activations) or exact (fp32)")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->capture_default_str();
  app.add_option("--step-tokens", flags.step_tokens,
                 "tokens in one step: less takes less memory for logits, and changes no figure")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
}

}  // namespace millrace::client
