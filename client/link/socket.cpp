#include "client/link/socket.hpp"

#include <optional>
#include <utility>

#include "schemas/base/net/local_endpoint.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t frames_at_once = 256;

net::SocketOptions options(const KeyPair& key) {
  net::SocketOptions chosen;
  chosen.linger_ms = 0;      // the session repeats unanswered questions on the next connection
  chosen.immediate = false;  // the hello may wait for the connection
  chosen.reconnect_most_ms = 1'000;
  chosen.curve = {key.public_key, key.secret_key, key.broker_key};
  return chosen;
}

// The members are in the order in which they must be made; they are destroyed in reverse.
struct Connection {
  Connection(net::Socket a, net::Monitor b) : dealer(std::move(a)), monitor(std::move(b)) {}
  net::Socket dealer;
  net::Monitor monitor;
};

// A broker that listens on all interfaces names its doorbell 0.0.0.0: it is on the host that the
// client reached the broker at.
std::string reachable(const std::string& endpoint, const std::string& broker) {
  for (const std::string any : {"tcp://0.0.0.0:", "tcp://[::]:"}) {
    if (!endpoint.starts_with(any) || !broker.starts_with("tcp://")) continue;
    return broker.substr(0, broker.rfind(':') + 1) + endpoint.substr(any.size());
  }
  return endpoint;
}

class NetBrokerSocket final : public BrokerSocket {
 public:
  NetBrokerSocket(KeyPair key, int wake) : key_(std::move(key)), wake_(wake) {}

  Status connect(const std::string& endpoint) override {
    poller_.reset();
    bell_.reset();
    connection_.reset();
    MILLRACE_ASSIGN(net::Socket dealer,
                    net::Socket::open(context_, net::Kind::dealer, options(key_)));
    MILLRACE_ASSIGN(net::Monitor monitor, net::Monitor::watch(context_, dealer));
    connection_.emplace(std::move(dealer), std::move(monitor));
    poller_.emplace();
    poller_->add(connection_->dealer);
    poller_->add(connection_->monitor.events());
    if (wake_ >= 0) poller_->add(wake_);
    MILLRACE_TRY(net::prepare_endpoint(endpoint));
    broker_ = endpoint;
    return connection_->dealer.connect(endpoint);
  }

  Status connect_doorbell(const std::string& endpoint, const std::string& prefix,
                          const std::vector<std::string>& streams) override {
    prefix_ = prefix;
    MILLRACE_ASSIGN(net::Socket bell, net::Socket::open(context_, net::Kind::sub, options(key_)));
    bell_.emplace(std::move(bell));
    for (const std::string& stream : streams) {
      MILLRACE_TRY(bell_->subscribe(prefix_ + stream));
    }
    poller_->add(*bell_);
    return bell_->connect(reachable(endpoint, broker_));
  }

  Status subscribe(const std::string& stream) override {
    return bell_ ? bell_->subscribe(prefix_ + stream) : Status();
  }

  Status unsubscribe(const std::string& stream) override {
    return bell_ ? bell_->unsubscribe(prefix_ + stream) : Status();
  }

  Result<bool> send(const std::string& frame) override {
    const Status sent = connection_->dealer.send_frame(frame);
    if (!sent && sent.error().code != Code::overloaded) {
      return fail(sent.error());
    }
    return sent.has_value();
  }

  Status wait(std::uint32_t timeout_ms, Happened& happened) override {
    MILLRACE_ASSIGN(const bool ready, poller_->wait(timeout_ms));
    if (!ready) {
      return {};
    }
    for (std::size_t i = 0; i < frames_at_once; ++i) {
      MILLRACE_ASSIGN(std::optional<net::Frames> received, connection_->dealer.receive());
      if (!received) {
        break;
      }
      if (!received->empty()) {
        happened.frames.push_back(std::move(received->front()));
      }
    }
    while (true) {
      MILLRACE_ASSIGN(const auto event, connection_->monitor.next());
      if (!event) {
        break;
      }
      if (!happened.refused) happened.refused = net::key_refusal(*event);
      happened.lost = happened.lost || event->kind == net::ConnectionEvent::Kind::disconnected;
    }
    return receive_bells(happened);
  }

 private:
  Status receive_bells(Happened& happened) {
    while (bell_) {
      MILLRACE_ASSIGN(std::optional<net::Frames> received, bell_->receive());
      if (!received) {
        break;
      }
      if (received->empty() || !received->front().starts_with(prefix_)) {
        continue;
      }
      std::string stream = received->front().substr(prefix_.size());
      if (happened.bells.empty() || happened.bells.back() != stream) {
        happened.bells.push_back(std::move(stream));
      }
    }
    return {};
  }

  const KeyPair key_;
  const int wake_;
  std::string broker_, prefix_;  // the endpoint; what begins each topic of the doorbell
  net::Context context_;
  std::optional<Connection> connection_;
  std::optional<net::Socket> bell_;
  std::optional<net::Poller> poller_;
};

}  // namespace

Result<std::unique_ptr<BrokerSocket>> BrokerSocket::open(const KeyPair& key, int wake) {
  return std::make_unique<NetBrokerSocket>(key, wake);
}

}  // namespace millrace::client
