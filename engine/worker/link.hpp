#pragma once
// Carries a Session over a socket: one DEALER to the broker's engine endpoint, which reconnects by
// itself. Errors of open: those of the endpoint and the socket. Errors of run: those of the socket,
// and the session's outcome.
// Thread safety: one thread creates and runs it; stop() may be called anywhere, signal handlers
// included.
#include <atomic>
#include <memory>
#include <string>

#include "engine/worker/session.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::worker {

class Link {
 public:
  // `keys` empty: plain connections.
  static Result<std::unique_ptr<Link>> open(net::Context& context, const std::string& broker,
                                            const net::CurveKeys& keys, SessionOptions options,
                                            Executor& executor, const Clock& clock);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Runs until the session is over: drained, refused for good, or the executor failed.
  Status run();
  // The first call drains, the second one leaves at once.
  void stop() noexcept;

 private:
  Link(net::Socket socket, net::Monitor monitor, std::unique_ptr<net::Waker> waker,
       SessionOptions options, Executor& executor, const Clock& clock);
  Result<bool> flush();  // true: the socket is full, and frames remain
  Status receive();

  Executor& executor_;
  const Clock& clock_;
  Status check_refusal();  // an error when the broker refused the key

  net::Socket socket_;
  net::Monitor monitor_;  // of the socket
  std::unique_ptr<net::Waker> waker_;
  Session session_;
  std::atomic<int> stops_{0};
};

}  // namespace millrace::worker
