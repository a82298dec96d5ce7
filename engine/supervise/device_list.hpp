#pragma once
// Asks an engine program which devices it would run on. A process of its own lists them, because a
// supervisor must not hold a driver: a device that is lost may then not be reset.
// Errors: the program's own (no_device, usage), io_error, not_found, engine_failed (no answer).
// Thread safety: as ChildProcess; the call waits for the process.
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::supervise {

struct NamedDevice {
  std::string id;        // "0:1", platform and device
  std::string argument;  // of --device: the uuid, which stays when another device disappears, or id
  std::string name;      // for people
};

// `arguments` are those of an engine, with --devices.
Result<std::vector<NamedDevice>> list_devices(const std::string& program,
                                              std::vector<std::string> arguments);

}  // namespace millrace::supervise
