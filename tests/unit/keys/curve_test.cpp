// CURVE on real sockets: nobody is admitted where nobody checks keys.
#include <gtest/gtest.h>

#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace {
namespace {

constexpr std::int64_t patience_ms = 20'000;
using Kind = net::ConnectionEvent::Kind;

// Connects with a key and returns how the handshake ended.
net::ConnectionEvent handshake(const std::string& endpoint, const std::string& broker_key) {
  const KeyPair key = new_key_pair();
  net::Context context;
  auto socket =
      net::Socket::open(context, net::Kind::dealer,
                        {.linger_ms = 0, .curve = {key.public_key, key.secret_key, broker_key}});
  auto monitor = net::Monitor::watch(context, *socket);
  EXPECT_TRUE(socket->connect(endpoint));
  net::Poller poller;
  poller.add(monitor->events());
  while (poller.wait(patience_ms).value_or(false)) {
    const auto event = monitor->next();
    if (!event || !*event) continue;
    const Kind kind = (*event)->kind;
    if (kind == Kind::ready || kind == Kind::handshake_failed || kind == Kind::disconnected) {
      return **event;
    }
  }
  ADD_FAILURE() << "the handshake neither succeeded nor failed";
  return {};
}

TEST(Curve, WithoutAHandlerNobodyIsAdmitted) {
  const KeyPair own = new_key_pair();
  net::Context context;
  auto router = net::Socket::open(context, net::Kind::router,
                                  {.linger_ms = 0, .curve = {own.public_key, own.secret_key, {}}});
  ASSERT_TRUE(router) << router.error().text();
  ASSERT_TRUE(router->bind("tcp://127.0.0.1:*"));
  EXPECT_NE(handshake(router->last_endpoint().value(), own.public_key).kind, Kind::ready);
}

TEST(Curve, AKeyThatTheHandlerRefusesIsToldToItsOwner) {
  const KeyPair own = new_key_pair();
  net::Context context;
  auto handler = net::Socket::open(context, net::Kind::rep, {.linger_ms = 0});
  ASSERT_TRUE(handler->bind(net::zap_endpoint));
  auto router = net::Socket::open(context, net::Kind::router,
                                  {.linger_ms = 0, .curve = {own.public_key, own.secret_key, {}}});
  ASSERT_TRUE(router->bind("tcp://127.0.0.1:*"));
  handler->hand_over();
  std::thread refuses([&] {
    net::Poller poller;
    poller.add(*handler);
    ASSERT_TRUE(poller.wait(patience_ms).value_or(false));
    const auto ask = handler->receive();
    ASSERT_TRUE(ask && *ask && (*ask)->size() == 7);
    ASSERT_TRUE(handler->send({"1.0", (**ask)[1], "400", "no", "", ""}));
  });
  const auto event = handshake(router->last_endpoint().value(), own.public_key);
  refuses.join();
  EXPECT_TRUE(event.key_refused);
  const auto refusal = net::key_refusal(event);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, Code::unauthorized);
}

TEST(Curve, ASideWithoutKeysIsToldThatTheyDisagree) {
  net::Context context;
  auto router = net::Socket::open(context, net::Kind::router, {.linger_ms = 0});
  ASSERT_TRUE(router->bind("tcp://127.0.0.1:*"));
  net::ConnectionEvent event;
  for (int tries = 0; tries < 100 && !event.keys_mismatch; ++tries) {
    // Where the other side notices first, it closes the connection, and ZeroMQ connects again.
    event = handshake(router->last_endpoint().value(), new_key_pair().public_key);
    ASSERT_NE(event.kind, Kind::ready);
  }
  EXPECT_TRUE(event.keys_mismatch);
  EXPECT_TRUE(net::key_refusal(event));
}

}  // namespace
}  // namespace millrace
