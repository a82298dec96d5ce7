#pragma once
// Waits for sockets, wake-ups from other threads, and time. Thread safety: a Poller belongs to the
// thread that owns its sockets; Waker::wake is safe anywhere, signal handlers included.
#include <cstddef>
#include <memory>
#include <vector>

#include "schemas/base/net/socket.hpp"

namespace millrace::net {

// An eventfd: a thread that waits in a Poller is woken with it.
class Waker {
 public:
  static Result<std::unique_ptr<Waker>> create();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  void wake() const noexcept;
  void drain() const noexcept;  // after it was seen; wakes before this count as seen
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

  // Each returns the place to ask readable() and writable() about. What is added must outlive it.
  std::size_t add(const Socket& socket);
  std::size_t add(int descriptor);
  std::size_t add(const Waker& waker) { return add(waker.descriptor()); }
  // A socket is watched for reading; for room to send only while this is on.
  void watch_writable(std::size_t place, bool on);
  void watch_readable(std::size_t place, bool on);

  // True: something is ready. False: the time has passed, or a signal came. -1 waits for ever.
  Result<bool> wait(std::int64_t timeout_ms);
  bool readable(std::size_t place) const;
  bool writable(std::size_t place) const;

 private:
  struct Items;
  std::unique_ptr<Items> items_;
};

}  // namespace millrace::net
