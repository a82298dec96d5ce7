#pragma once
// Ends the process when its first steps do not end, while the engine is not yet an executor, which
// watches its own steps. Only the end of the process stops a kernel that hangs.
// Thread safety: one thread owns a watch; the process may end in another.
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace millrace::worker {

class StartWatch {
 public:
  // After `limit_s` seconds prints the error and ends the process as one that has lost its device.
  StartWatch(std::string program, std::uint32_t limit_s);
  ~StartWatch();  // the first steps have ended

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace millrace::worker
