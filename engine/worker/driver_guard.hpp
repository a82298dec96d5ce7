#pragma once
// Guards the start of a program that uses OpenCL against damage in the cache of the driver PoCL.
//
// PoCL keeps compiled kernels in files and trusts them. A file that a full disk or a power cut has
// cut short ends the process inside the driver, or fails a call, and does so at every start. The
// damage shows only when the very kernel of that file is loaded; a probe with a kernel of its own
// would not meet it. So the start itself is the probe: PoCL keeps its cache in a folder of ours,
// and a start that ends by a fault, or with an error that damage gives, is made again in this
// process after the folder was emptied. That happens once; what fails again is reported. A start
// that succeeds costs nothing more.
//
// Where the user has set POCL_CACHE_DIR the folder is theirs: nothing is emptied, and what fails
// names it. Thread safety: the main thread, before others begin.
#include <cstdint>
#include <string>

#include "engine/worker/crash_note.hpp"
#include "schemas/base/error.hpp"

namespace millrace::worker {

class DriverGuard {
 public:
  // Before the first OpenCL call; makes it. `arguments` are main's, `cores` as DeviceOptions has
  // it.
  DriverGuard(std::string program, char** arguments, std::uint32_t cores);

  // The start has failed: makes it again and does not return, or returns what is to be reported.
  Error failed(Error error);
  // The start has succeeded. From now on a fault ends the process.
  void succeeded();

 private:
  bool take_folder();
  void empty_folder(const std::string& about);
  std::string hint() const;

  std::string program_, folder_;
  StartAgain again_;
  bool ours_ = false;  // the folder
  enum class Start : std::uint8_t { first, again, over };
  Start start_ = Start::first;  // again: the one before it failed
  std::uint64_t files_ = 0;     // that were in the folder then
};

}  // namespace millrace::worker
