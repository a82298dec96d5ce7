#pragma once
// The sockets of one connection to a broker: a DEALER for questions, a SUB for doorbells, and the
// monitor that reports a lost connection. Their queues are bounded, and ZeroMQ's heartbeats are on.
// Errors: unreachable (the endpoint is invalid), io_error. Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace::client {

class BrokerSocket {
 public:
  // An empty key: none. wait() also returns when the descriptor `wake` is readable, such as that of
  // a net::Waker by which other threads wake this one; -1: none. The caller reads it.
  static Result<std::unique_ptr<BrokerSocket>> open(const KeyPair& key = {}, int wake = -1);
  virtual ~BrokerSocket() = default;

  // Drops the last connection with everything that was queued on it, and opens another.
  virtual Status connect(const std::string& endpoint) = 0;
  // `prefix` comes before the stream's name in each topic.
  virtual Status connect_doorbell(const std::string& endpoint, const std::string& prefix,
                                  const std::vector<std::string>& streams) = 0;
  virtual Status subscribe(const std::string& stream) = 0;
  virtual Status unsubscribe(const std::string& stream) = 0;

  virtual Result<bool> send(const std::string& frame) = 0;  // false: the queue is full
  struct Happened {
    std::vector<std::string> frames;
    std::vector<std::string> bells;  // stream names
    bool lost = false;               // the connection broke
    std::optional<Error> refused{};  // the broker refused the key, or wants one
  };
  virtual Status wait(std::uint32_t timeout_ms, Happened& happened) = 0;
};

}  // namespace millrace::client
