#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::net {
namespace {

// A limit that no machine should reach. A test that passes does not wait this long.
constexpr std::int64_t patience_ms = 20'000;

Socket open(Context& context, Kind kind, const SocketOptions& options = {.linger_ms = 0}) {
  auto socket = Socket::open(context, kind, options);
  EXPECT_TRUE(socket) << socket.error().text();
  return *std::move(socket);
}
std::string bind_any(Socket& socket) {
  EXPECT_TRUE(socket.bind("tcp://127.0.0.1:*"));
  return socket.last_endpoint().value();
}
Frames receive(Socket& socket) {
  Poller poller;
  poller.add(socket);
  while (true) {
    const auto ready = poller.wait(patience_ms);
    if (!ready || !*ready) break;
    auto received = socket.receive();
    EXPECT_TRUE(received) << received.error().text();
    if (received && *received) return **received;
  }
  ADD_FAILURE() << "nothing arrived";
  return {};
}
// Waits for room and sends. A DEALER with `immediate` has no room until its peer has connected.
void send_when_ready(Socket& socket, std::string_view frame) {
  Poller poller;
  const std::size_t place = poller.add(socket);
  poller.watch_readable(place, false);
  poller.watch_writable(place, true);
  ASSERT_TRUE(poller.wait(patience_ms).value());
  ASSERT_TRUE(socket.send_frame(frame));
}
bool saw(Monitor& monitor, ConnectionEvent::Kind kind) {
  Poller poller;
  poller.add(monitor.events());
  while (poller.wait(patience_ms).value_or(false)) {
    while (true) {
      const auto event = monitor.next();
      if (!event || !*event) break;
      if ((*event)->kind == kind) return true;
    }
  }
  return false;
}

TEST(Net, DealerAndRouterTalkBothWays) {
  Context context;
  Socket router = open(context, Kind::router);
  const std::string endpoint = bind_any(router);
  Socket dealer = open(context, Kind::dealer, {.linger_ms = 0, .routing_id = "worker-1"});
  ASSERT_TRUE(dealer.connect(endpoint));
  send_when_ready(dealer, "hello");
  EXPECT_EQ(receive(router), (Frames{"worker-1", "hello"}));
  ASSERT_TRUE(router.send({"worker-1", "welcome"}));
  EXPECT_EQ(receive(dealer), (Frames{"welcome"}));
  EXPECT_FALSE(dealer.receive().value());
}

TEST(Net, APortThatIsNoneIsRefused) {
  Context context;
  Socket router = open(context, Kind::router);
  Socket dealer = open(context, Kind::dealer);
  for (const char* port : {"99999", "65536", "-1", "5x", "", "0x10"}) {
    const std::string endpoint = std::string("tcp://127.0.0.1:") + port;
    for (const Status& done : {router.bind(endpoint), dealer.connect(endpoint)}) {
      ASSERT_FALSE(done) << endpoint;
      EXPECT_EQ(done.error().code, Code::usage);
      EXPECT_NE(done.error().message.find("65535"), std::string::npos);
    }
  }
  for (const char* port : {"0", "*"}) {
    const std::string endpoint = std::string("tcp://127.0.0.1:") + port;
    EXPECT_TRUE(router.bind(endpoint)) << endpoint;
    EXPECT_FALSE(dealer.connect(endpoint)) << endpoint;
  }
}

TEST(Net, SendToAnUnknownPeerIsUnreachable) {
  Context context;
  Socket router = open(context, Kind::router);
  bind_any(router);
  const Status sent = router.send({"nobody", "x"});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::unreachable);
}

TEST(Net, SendToAFullQueueIsOverloaded) {
  Context context;
  Socket dealer = open(context, Kind::dealer);
  ASSERT_TRUE(dealer.connect("tcp://127.0.0.1:9"));
  const Status sent = dealer.send_frame("x");  // nothing is queued without a connected peer
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::overloaded);

  Socket push = open(context, Kind::push, {.linger_ms = 0, .send_queue = 2, .receive_queue = 2});
  Socket pull = open(context, Kind::pull, {.linger_ms = 0, .send_queue = 2, .receive_queue = 2});
  ASSERT_TRUE(pull.bind("inproc://full"));
  ASSERT_TRUE(push.connect("inproc://full"));
  Status status;
  int taken = 0;
  while (status && taken < 100) {
    status = push.send_frame("x");
    if (status) ++taken;
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::overloaded);
  EXPECT_EQ(taken, 4);  // an inproc queue has the sum of both ends' limits
}

TEST(Net, DoorbellReachesOnlyItsSubscribers) {
  Context context;
  Socket pub = open(context, Kind::pub);
  const std::string endpoint = bind_any(pub);
  Socket sub = open(context, Kind::sub);
  ASSERT_TRUE(sub.subscribe("b"));
  ASSERT_TRUE(sub.connect(endpoint));
  Poller poller;
  poller.add(sub);
  bool heard = false;  // a subscription may arrive late, so the doorbell repeats
  for (int i = 0; i < 2'000 && !heard; ++i) {
    ASSERT_TRUE(pub.send({"a", "epoch", "1"}));
    ASSERT_TRUE(pub.send({"b", "epoch", "2"}));
    heard = poller.wait(10).value();
  }
  ASSERT_TRUE(heard);
  EXPECT_EQ(receive(sub), (Frames{"b", "epoch", "2"}));
}

TEST(Net, OversizedMessagesDisconnectThePeer) {
  Context context;
  Socket router = open(context, Kind::router, {.linger_ms = 0, .message_bytes = 1000});
  auto monitor = Monitor::watch(context, router);
  ASSERT_TRUE(monitor);
  const std::string endpoint = bind_any(router);
  Socket dealer = open(context, Kind::dealer);
  ASSERT_TRUE(dealer.connect(endpoint));
  send_when_ready(dealer, std::string(1000, 'x'));
  EXPECT_EQ(receive(router).back().size(), 1000u);
  send_when_ready(dealer, std::string(1001, 'x'));
  EXPECT_TRUE(saw(*monitor, ConnectionEvent::Kind::disconnected));
}

TEST(Net, MessagesOfTooManyFramesAreDropped) {
  Context context;
  Socket pull = open(context, Kind::pull);
  ASSERT_TRUE(pull.bind("inproc://parts"));
  Socket push = open(context, Kind::push);
  ASSERT_TRUE(push.connect("inproc://parts"));
  static_assert(frames_most == 8);
  ASSERT_TRUE(push.send({"x", "x", "x", "x", "x", "x", "x", "x", "x"}));
  ASSERT_TRUE(push.send({"y", "y", "y", "y", "y", "y", "y", "y"}));
  EXPECT_EQ(pull.receive().error().code, Code::too_large);
  EXPECT_EQ(pull.receive().value()->size(), frames_most);
}

// libzmq aborts at a heartbeat of such a connection.
TEST(Net, APeerThatGoesWhileItsMessagesWaitForRoomHarmsNobody) {
  constexpr int messages = 200, longer_than_between_heartbeats_ms = 2'500;
  const std::string endpoint = "ipc://" + testing::TempDir() + "net-" + std::to_string(getpid());
  Context context, others;
  Socket router = open(context, Kind::router, {.linger_ms = 0, .receive_queue = 4});
  ASSERT_TRUE(router.bind(endpoint));
  {
    Socket dealer = open(others, Kind::dealer, {.routing_id = "gone"});
    ASSERT_TRUE(dealer.connect(endpoint));
    for (int i = 0; i < messages / 2; ++i) send_when_ready(dealer, "before");
    std::this_thread::sleep_for(std::chrono::milliseconds(longer_than_between_heartbeats_ms));
    for (int i = 0; i < messages / 2; ++i) send_when_ready(dealer, "after");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(longer_than_between_heartbeats_ms));
  Socket next = open(others, Kind::dealer, {.linger_ms = 0, .routing_id = "next"});
  ASSERT_TRUE(next.connect(endpoint));
  send_when_ready(next, "hello");
  Frames got;  // first what has arrived of the other one's messages
  do got = receive(router);
  while (!got.empty() && got.front() == "gone");
  EXPECT_EQ(got, (Frames{"next", "hello"}));
}

TEST(Net, MonitorReportsConnectsAndDisconnects) {
  Context context;
  Socket router = open(context, Kind::router);
  auto monitor = Monitor::watch(context, router);
  ASSERT_TRUE(monitor);
  const std::string endpoint = bind_any(router);
  {
    Socket dealer = open(context, Kind::dealer);
    ASSERT_TRUE(dealer.connect(endpoint));
    EXPECT_TRUE(saw(*monitor, ConnectionEvent::Kind::ready));
  }
  EXPECT_TRUE(saw(*monitor, ConnectionEvent::Kind::disconnected));
}

TEST(Net, UnusableEndpointsAreRefused) {
  Context context;
  Socket router = open(context, Kind::router);
  EXPECT_EQ(router.bind("nonsense").error().code, Code::usage);
  EXPECT_EQ(router.bind("carrier://pigeon").error().code, Code::usage);
  // Of no machine (RFC 5737). The address may come up later, so this is no wrong use.
  EXPECT_EQ(router.bind("tcp://192.0.2.1:5570").error().code, Code::io_error);
  const std::string endpoint = bind_any(router);
  Socket second = open(context, Kind::router);
  EXPECT_EQ(second.bind(endpoint).error().code, Code::io_error);
  EXPECT_EQ(second.unbind(endpoint).error().code, Code::io_error);
}

// libzmq alone would remove the first listener's socket file and replace the listener.
TEST(Net, AnIpcEndpointInUseIsNotTakenOver) {
  Context context;
  const std::string path = ::testing::TempDir() + "net-ipc-" + std::to_string(::getpid());
  Socket first = open(context, Kind::router);
  ASSERT_TRUE(first.bind("ipc://" + path));
  Socket second = open(context, Kind::router);
  const auto refused = second.bind("ipc://" + path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::io_error);
  EXPECT_NE(refused.error().hint.find("another process listens there"), std::string::npos);
}

TEST(Net, UnboundEndpointsAcceptNoNewPeers) {
  Context context;
  Socket router = open(context, Kind::router);
  const std::string endpoint = bind_any(router);
  ASSERT_TRUE(router.unbind(endpoint));
  Socket dealer = open(context, Kind::dealer);
  auto monitor = Monitor::watch(context, dealer);
  ASSERT_TRUE(monitor);
  ASSERT_TRUE(dealer.connect(endpoint));
  EXPECT_TRUE(saw(*monitor, ConnectionEvent::Kind::retrying));
}

TEST(Net, WakerEndsAWaitFromAnotherThread) {
  auto waker = Waker::create().value();
  Poller poller;
  const std::size_t place = poller.add(*waker);
  EXPECT_FALSE(poller.wait(0).value());
  std::thread other([&] { waker->wake(); });
  EXPECT_TRUE(poller.wait(patience_ms).value());
  EXPECT_TRUE(poller.readable(place));
  other.join();
  waker->drain();
  EXPECT_FALSE(poller.wait(0).value());
}

TEST(Net, AThreadThatDoesNotOwnASocketIsRefused) {
  Context context;
  Socket pull = open(context, Kind::pull);
  ASSERT_TRUE(pull.receive());
  std::thread([&] { EXPECT_EQ(pull.receive().error().code, Code::internal); }).join();
  pull.hand_over();
  std::thread([&] { EXPECT_TRUE(pull.receive()); }).join();
}

TEST(Net, RecognizesLoopbackAddresses) {
  for (const char* local : {"tcp://127.0.0.1:5555", "tcp://127.3.2.1:1", "tcp://localhost:5",
                            "tcp://[::1]:5", "ipc:///tmp/x", "inproc://x"}) {
    EXPECT_TRUE(is_loopback(local)) << local;
  }
  for (const char* remote : {"tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://10.0.0.1:5", "udp://x",
                             "tcp://127.example.org:5", "tcp://localhost.example.org:5"}) {
    EXPECT_FALSE(is_loopback(remote)) << remote;
  }
}

}  // namespace
}  // namespace millrace::net
