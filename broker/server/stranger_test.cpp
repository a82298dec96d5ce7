#include "broker/server/stranger_test.hpp"

#include "schemas/base/clock.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t patience_ms = 10'000;

Status is_refused(net::Kind kind, const std::string& endpoint, const net::CurveKeys& keys,
                  const char* who) {
  net::Context context;  // another than the broker's, as another process has
  MILLRACE_ASSIGN(auto socket, net::Socket::open(context, kind, {.linger_ms = 0, .curve = keys}));
  MILLRACE_ASSIGN(auto monitor, net::Monitor::watch(context, socket));
  MILLRACE_TRY(socket.connect(endpoint));
  net::Poller poller;
  poller.add(monitor.events());
  const SystemClock clock;
  const std::int64_t until_us = clock.monotonic_us() + 1000 * patience_ms;
  while (clock.monotonic_us() < until_us) {
    MILLRACE_TRY(poller.wait((until_us - clock.monotonic_us()) / 1000 + 1));
    MILLRACE_ASSIGN(const auto event, monitor.next());
    if (!event) continue;
    if (event->kind == net::ConnectionEvent::Kind::handshake_failed) return {};
    if (event->kind == net::ConnectionEvent::Kind::ready) {
      return fail(Code::unauthorized, "the start-up test: " + endpoint + " admitted " + who,
                  "do not use this broker with keys: its ZeroMQ library does not enforce them");
    }
  }
  return fail(Code::io_error,
              "the start-up test: " + endpoint + " neither admitted nor refused " + who,
              "check that a process of this machine can connect to it");
}

}  // namespace

Status refuses_strangers(net::Kind kind, const std::string& endpoint, const KeyPair& stranger,
                         const std::string& broker_key) {
  MILLRACE_TRY(is_refused(kind, endpoint, {stranger.public_key, stranger.secret_key, broker_key},
                          "a key that is not allowed"));
  return is_refused(kind, endpoint, {}, "a peer without a key");
}

}  // namespace millrace::broker
