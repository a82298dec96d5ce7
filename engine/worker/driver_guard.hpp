#pragma once
// Guards the start of a program that uses OpenCL against damage in the cache of the driver PoCL.
//
// PoCL keeps compiled kernels in files and trusts them. A file that a full disk or a power cut has
// truncated ends the process inside the driver, or makes a call fail, and does so at every start.
// The damage shows only when the kernel of that file is loaded, so a probe with another kernel
// would not find it. Therefore the start itself is the probe. PoCL's cache is in a folder of ours.
// When a start ends by a fault, or with an error that damage can cause, the guard empties the
// folder and starts the program again in the same process. It does so once; a second failure is
// reported. A start that succeeds has no extra cost.
//
// When the user has set POCL_CACHE_DIR, the folder is theirs: the guard does not empty it, and the
// error names it. Thread safety: the main thread, before others begin.
#include <cstdint>
#include <string>

#include "engine/core/device/device.hpp"
#include "engine/worker/crash_note.hpp"
#include "schemas/base/error.hpp"

namespace millrace::worker {

class DriverGuard {
 public:
  // Call this before the first OpenCL call of the process; the constructor makes that call.
  // `arguments` are main's; `device` says what the program will open.
  DriverGuard(std::string program, char** arguments, const engine::DeviceOptions& device);

  // Call this when the start has failed. Either starts the program again and does not return, or
  // returns the error to report.
  Error failed(Error error);
  // Call this when the start has succeeded. From now on a fault ends the process.
  void succeeded();

 private:
  bool take_folder();
  void empty_folder(const std::string& about);
  std::string hint() const;

  std::string program_, folder_;
  StartAgain again_;
  bool ours_ = false;  // the folder is ours, not one that the user chose
  bool pocl_ = false;  // the device is PoCL's; no other driver's fault is the folder's
  enum class Start : std::uint8_t { first, again, over };
  Start start_ = Start::first;  // again: the previous start failed
  std::uint64_t files_ = 0;     // files in the folder after the previous start
};

}  // namespace millrace::worker
