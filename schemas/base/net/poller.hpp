#pragma once
// Waits for sockets, wake-ups from other threads, and time. Thread safety: a Poller belongs to the
// thread that owns its sockets; any thread and any signal handler may call Waker::wake.
#include <cstddef>
#include <memory>
#include <vector>

#include "schemas/base/net/socket.hpp"

namespace millrace::net {

// An eventfd that wakes a thread which waits in a Poller.
class Waker {
 public:
  static Result<std::unique_ptr<Waker>> create();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  void wake() const noexcept;
  void drain() const noexcept;  // marks all earlier wakes as seen
  int descriptor() const { return descriptor_; }

 private:
  explicit Waker(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

class Poller {
 public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Each returns the place that readable() takes. What is added must outlive the Poller.
  std::size_t add(const Socket& socket);
  std::size_t add(int descriptor);
  std::size_t add(const Waker& waker) { return add(waker.descriptor()); }
  // A socket is watched for reading by default; these turn watching on and off.
  void watch_writable(std::size_t place, bool on);
  void watch_readable(std::size_t place, bool on);

  // True: something is ready. False: the time has passed, or a signal came. -1 waits for ever.
  Result<bool> wait(std::int64_t timeout_ms);
  bool readable(std::size_t place) const;

 private:
  struct Items;
  std::unique_ptr<Items> items_;
};

}  // namespace millrace::net
