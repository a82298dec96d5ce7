#pragma once
// Hands bytes over from one device to another, through pinned memory of the host.
//
//   MILLRACE_TRY(over.take(hidden_of_one, bytes));    // enqueued on the first device
//   MILLRACE_TRY(over.give(hidden_of_other));         // waits for them, enqueues on the second
//
// What is taken first is given first. Between the two calls more work may be enqueued on both
// devices. The wait is the host's, because the devices have a context each, and an event serves
// within its context alone. The memory of a hand-over is used again once its bytes have arrived;
// take() waits for that if all are in use.
//
// Errors: device_error, out_of_memory; internal for more than `most` hand-overs that were taken and
// not given, or none. Thread safety: the owner thread of both devices.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class HandOver {
 public:
  // The devices must outlive it. `what` names the bytes in errors. At most `most` hand-overs are
  // under way at once.
  HandOver(Device& from, Device& to, std::uint32_t most, std::string what);
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;
  ~HandOver();  // waits until the devices are done with the memory

  // Copies the first `bytes` of a buffer of the first device. It does not wait for them.
  Status take(const Buffer& buffer, std::uint64_t bytes);
  // Copies what was taken to the beginning of a buffer of the second device.
  Status give(const Buffer& buffer);
  // How many were taken and not given.
  std::uint32_t waiting() const { return static_cast<std::uint32_t>(taken_ - given_); }
  bool full() const { return waiting() == places_.size(); }
  // Forgets those, after an error.
  void drop() { given_ = taken_; }

 private:
  struct Place {
    HostMemory memory;
    std::uint64_t bytes = 0;
    DeviceEvent read, written;
  };
  Status wait(Place& place);

  Device *from_, *to_;
  std::string what_;
  std::vector<Place> places_;
  std::uint64_t taken_ = 0, given_ = 0;
};

}  // namespace millrace::engine
