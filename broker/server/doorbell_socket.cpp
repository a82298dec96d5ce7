#include "broker/server/doorbell_socket.hpp"

#include <utility>

#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::broker {
namespace {

constexpr char subscribes = 1;  // the first byte of a subscription; 0 ends one

}  // namespace

Result<DoorbellSocket> DoorbellSocket::open(net::Context& context, const std::string& endpoint,
                                            const net::CurveKeys& curve,
                                            const std::vector<Grant>& grants) {
  DoorbellSocket bell(context, curve);
  bell.endpoint_ = endpoint;
  bell.learn(grants);
  MILLRACE_TRY(net::prepare_endpoint(endpoint));
  MILLRACE_TRY(bell.bind());
  return bell;
}

Status DoorbellSocket::bind() {
  const auto kind = curve_.empty() ? net::Kind::pub : net::Kind::xpub;
  MILLRACE_ASSIGN(auto socket, net::Socket::open(*context_, kind, {.curve = curve_}));
  if (!curve_.empty()) {
    MILLRACE_ASSIGN(auto monitor, net::Monitor::watch(*context_, socket,
                                                      net::Monitor::Events::failed_handshakes));
    monitor_.reset();
    monitor_.emplace(std::move(monitor));
  }
  MILLRACE_TRY(socket.bind(endpoint_));
  MILLRACE_ASSIGN(endpoint_, socket.last_endpoint());
  socket_ = std::move(socket);
  return {};
}

void DoorbellSocket::learn(const std::vector<Grant>& grants) {
  tenants_.clear();
  for (const Grant& grant : grants) {
    if (grant.roles.allow(KeyRole::read)) tenants_[grant.key] = grant.tenant;
  }
}

void DoorbellSocket::replace(const std::vector<Grant>& grants) {
  learn(grants);
  monitor_.reset();
  socket_.reset();
}

Status DoorbellSocket::subscribe(RefusalLog& refusals, std::int64_t now_us) {
  if (curve_.empty()) return {};
  if (!socket_) {
    const Status bound = bind();
    // The endpoint is in use until the socket before has been closed.
    if (!bound && bound.error().code != Code::io_error) return bound;
    if (!bound) return {};
  }
  MILLRACE_TRY(count_failures(*monitor_, refusals, now_us));
  while (true) {
    net::Sender sender;
    MILLRACE_ASSIGN(const auto message, socket_->receive(&sender));
    if (!message) return {};
    if (message->size() != 1 || message->front().empty()) continue;
    const std::string topic = message->front().substr(1);
    const auto tenant = tenants_.find(sender.user);
    const bool own =
        tenant != tenants_.end() && topic.starts_with(doorbell_prefix(tenant->second, true));
    if (message->front().front() != subscribes) {
      if (own) MILLRACE_TRY(socket_->unsubscribe(topic));
    } else if (own) {
      MILLRACE_TRY(socket_->subscribe(topic));
    } else {
      refusals.refused("the doorbell",
                       "the key " + sender.user + " may not subscribe to what it asked for",
                       now_us);
    }
  }
}

Status count_failures(net::Monitor& monitor, RefusalLog& refusals, std::int64_t now_us) {
  while (true) {
    MILLRACE_ASSIGN(const auto event, monitor.next());
    if (!event) return {};
    if (!event->key_refused) refusals.refused(event->endpoint, event->detail, now_us);
  }
}

Status DoorbellSocket::ring(const Ring& ring) {
  if (!socket_) return {};  // subscribers that were disconnected fetch by themselves after a while
  auto sent = socket_->send({doorbell_prefix(ring.tenant, !curve_.empty()) + ring.stream,
                             ring.epoch, std::to_string(ring.high)});
  if (!sent && sent.error().code != Code::overloaded) return sent;
  return {};
}

}  // namespace millrace::broker
