#include "schemas/base/net/poller.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <zmq.hpp>

namespace millrace::net {

Result<std::unique_ptr<Waker>> Waker::create() {
  const int descriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0) {
    return fail(Code::io_error, std::string("cannot make an eventfd: ") + std::strerror(errno));
  }
  return std::unique_ptr<Waker>(new Waker(descriptor));
}
Waker::~Waker() {
  ::close(descriptor_);
}
void Waker::wake() const noexcept {
  const std::uint64_t one = 1;
  // The write fails only after 2^64-2 unseen wakes, when the eventfd is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}
void Waker::drain() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(descriptor_, &count, sizeof count);
}

struct Poller::Items {
  std::vector<zmq::pollitem_t> list;
};

namespace {
void set_flag(short& events, short flag, bool on) {
  events = static_cast<short>(on ? events | flag : events & ~flag);
}
}  // namespace

Poller::Poller() : items_(std::make_unique<Items>()) {}
Poller::~Poller() = default;

std::size_t Poller::add(const Socket& socket) {
  items_->list.push_back({socket.handle().handle(), 0, ZMQ_POLLIN, 0});
  return items_->list.size() - 1;
}
std::size_t Poller::add(int descriptor) {
  items_->list.push_back({nullptr, descriptor, ZMQ_POLLIN, 0});
  return items_->list.size() - 1;
}
void Poller::watch_writable(std::size_t place, bool on) {
  set_flag(items_->list[place].events, ZMQ_POLLOUT, on);
}
void Poller::watch_readable(std::size_t place, bool on) {
  set_flag(items_->list[place].events, ZMQ_POLLIN, on);
}

Result<bool> Poller::wait(std::int64_t timeout_ms) {
  auto& list = items_->list;
  try {
    return zmq::poll(list, std::chrono::milliseconds(timeout_ms)) > 0;
  } catch (const zmq::error_t& error) {
    for (auto& item : list) item.revents = 0;
    if (error.num() == EINTR) return false;
    return fail(Code::io_error, std::string("cannot poll: ") + error.what());
  }
}
bool Poller::readable(std::size_t place) const {
  return (items_->list[place].revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0;
}

}  // namespace millrace::net
