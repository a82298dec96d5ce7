#pragma once
// The doorbell: a socket that announces a stream's last number to those who subscribed to it.
// Without keys it is a PUB socket, and the topic is the stream's name. With keys the topic is the
// tenant's name, a slash and the stream's name, and the socket (XPUB) takes only subscriptions to
// the topics of the tenant whose key the subscriber has: what it does not take is never answered,
// like a stream without entries.
// Thread safety: the owner's thread only.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/server/refusal_log.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::broker {

class DoorbellSocket {
 public:
  // `curve` empty: no keys. Errors: those of binding.
  static Result<DoorbellSocket> open(net::Context& context, const std::string& endpoint,
                                     const net::CurveKeys& curve, const std::vector<Grant>& grants);

  const std::string& endpoint() const { return endpoint_; }  // as bound
  net::Monitor& monitor() { return *monitor_; }              // where there are keys
  void hand_over() {
    if (socket_) socket_->hand_over();
  }
  Status ring(const Ring& ring);
  // Takes new subscriptions; refused ones are counted in `refusals`, as are failed handshakes.
  // Errors: the socket failed.
  Status subscribe(RefusalLog& refusals, std::int64_t now_us);
  // Closes all connections, so that each subscriber has to show its key again. The socket is bound
  // anew by the next calls of `subscribe`, once the system has freed the endpoint.
  void replace(const std::vector<Grant>& grants);

 private:
  DoorbellSocket(net::Context& context, net::CurveKeys curve)
      : context_(&context), curve_(std::move(curve)) {}
  Status bind();
  void learn(const std::vector<Grant>& grants);

  net::Context* context_;
  net::CurveKeys curve_;
  std::string endpoint_;
  std::optional<net::Socket> socket_;           // none: not bound yet
  std::optional<net::Monitor> monitor_;         // of the socket
  std::map<std::string, std::string> tenants_;  // of the keys that may read
};

// Counts the handshakes that failed, except for refused keys, which the authenticator counts.
Status count_failures(net::Monitor& monitor, RefusalLog& refusals, std::int64_t now_us);

}  // namespace millrace::broker
