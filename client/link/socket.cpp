#include "client/link/socket.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <zmq.hpp>

#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

constexpr int ping_ms = 2'000;
constexpr int silence_ms = 10'000;  // generous: a large frame delays pings
constexpr int reconnect_ms = 100;
constexpr int reconnect_max_ms = 2'000;
constexpr std::size_t frames_at_once = 256;

std::unexpected<Error> zmq_failure(const std::string& what, const zmq::error_t& error, Code code) {
  return fail(code, what + ": " + error.what(), "an endpoint reads tcp://HOST:PORT or ipc://PATH");
}

void set_common_options(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, std::int64_t{limits::frame_bytes});
  socket.set(zmq::sockopt::sndhwm, int{limits::socket_high_water_mark});
  socket.set(zmq::sockopt::rcvhwm, int{limits::socket_high_water_mark});
  socket.set(zmq::sockopt::heartbeat_ivl, ping_ms);
  socket.set(zmq::sockopt::heartbeat_timeout, silence_ms);
  socket.set(zmq::sockopt::reconnect_ivl, reconnect_ms);
  socket.set(zmq::sockopt::reconnect_ivl_max, reconnect_max_ms);
}

class ZmqBrokerSocket final : public BrokerSocket {
 public:
  ~ZmqBrokerSocket() override { close_dealer(); }

  Status connect(const std::string& endpoint) override {
    try {
      close_dealer();
      bell_ = zmq::socket_t();
      dealer_ = zmq::socket_t(context_, zmq::socket_type::dealer);
      set_common_options(dealer_);
      const std::string watch = "inproc://watch-" + std::to_string(++watches_);
      if (zmq_socket_monitor(dealer_.handle(), watch.c_str(), ZMQ_EVENT_DISCONNECTED) != 0) {
        return fail(Code::io_error, std::string("socket monitor: ") + zmq_strerror(zmq_errno()));
      }
      watch_ = zmq::socket_t(context_, zmq::socket_type::pair);
      watch_.set(zmq::sockopt::linger, 0);
      watch_.connect(watch);
      dealer_.connect(endpoint);
      return {};
    } catch (const zmq::error_t& error) {
      return zmq_failure("cannot connect to " + endpoint, error, Code::unreachable);
    }
  }

  Status connect_doorbell(const std::string& endpoint,
                          const std::vector<std::string>& streams) override {
    try {
      bell_ = zmq::socket_t(context_, zmq::socket_type::sub);
      set_common_options(bell_);
      for (const std::string& stream : streams) {
        bell_.set(zmq::sockopt::subscribe, stream);
      }
      bell_.connect(endpoint);
      return {};
    } catch (const zmq::error_t& error) {
      return zmq_failure("cannot connect to the doorbell " + endpoint, error, Code::io_error);
    }
  }

  void subscribe(const std::string& stream) override {
    if (bell_) {
      bell_.set(zmq::sockopt::subscribe, stream);
    }
  }

  Result<bool> send(const std::string& frame) override {
    try {
      return dealer_.send(zmq::buffer(frame), zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      return zmq_failure("cannot send", error, Code::io_error);
    }
  }

  Status wait(std::uint32_t timeout_ms, Happened& happened) override {
    try {
      std::array<zmq::pollitem_t, 3> items{{{dealer_.handle(), 0, ZMQ_POLLIN, 0},
                                            {watch_.handle(), 0, ZMQ_POLLIN, 0},
                                            {bell_.handle(), 0, ZMQ_POLLIN, 0}}};
      const std::size_t count = bell_ ? 3 : 2;
      zmq::poll(items.data(), count, std::chrono::milliseconds(timeout_ms));
      receive(happened);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) {
        return zmq_failure("cannot receive", error, Code::io_error);
      }
    }
    return {};
  }

 private:
  void close_dealer() {
    if (dealer_) {
      zmq_socket_monitor(dealer_.handle(), nullptr, 0);
    }
    watch_ = zmq::socket_t();
    dealer_ = zmq::socket_t();
  }

  void receive(Happened& happened) {
    zmq::message_t part;
    for (std::size_t i = 0; i < frames_at_once; ++i) {
      if (!dealer_.recv(part, zmq::recv_flags::dontwait)) {
        break;
      }
      happened.frames.push_back(part.to_string());
    }
    while (watch_.recv(part, zmq::recv_flags::dontwait)) {
      std::uint16_t event = 0;
      if (part.size() >= sizeof event && part.more()) {
        std::memcpy(&event, part.data(), sizeof event);
        happened.lost = happened.lost || event == ZMQ_EVENT_DISCONNECTED;
      }
    }
    while (bell_ && bell_.recv(part, zmq::recv_flags::dontwait)) {
      std::string stream = part.to_string();
      while (part.more() && bell_.recv(part, zmq::recv_flags::dontwait)) {
      }
      if (happened.bells.empty() || happened.bells.back() != stream) {
        happened.bells.push_back(std::move(stream));
      }
    }
  }

  zmq::context_t context_{1};
  zmq::socket_t dealer_, watch_, bell_;
  std::uint64_t watches_ = 0;
};

}  // namespace

Result<std::unique_ptr<BrokerSocket>> BrokerSocket::open() {
  try {
    return std::make_unique<ZmqBrokerSocket>();
  } catch (const zmq::error_t& error) {
    return fail(Code::io_error, std::string("cannot set up ZeroMQ: ") + error.what());
  }
}

}  // namespace millrace::client
