// The link over real sockets, with a scripted broker on the other end.
#include "engine/worker/link.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "schemas/codec.hpp"
#include "tests/unit/worker/fake_executor.hpp"

namespace millrace::worker {
namespace {

constexpr int patience_ms = 20'000;  // only a broken test waits so long

class ScriptedBroker {
 public:
  ScriptedBroker(net::Context& context, const std::string& endpoint, std::string id)
      : id_(std::move(id)), socket_(*net::Socket::open(context, net::Kind::router, quick())) {
    // libzmq closes a socket in the background, so the previous broker may still be listening.
    Status bound = socket_.bind(endpoint);
    const SystemClock clock;
    const auto end_us = clock.monotonic_us() + patience_ms * 1000;
    while (!bound && clock.monotonic_us() < end_us) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      bound = socket_.bind(endpoint);
    }
    EXPECT_TRUE(bound) << bound.error().text();
  }

  // Returns the next message of a kind. Answers hellos and skips other kinds until then.
  template <class T>
  T expect() {
    net::Poller poller;
    poller.add(socket_);
    const SystemClock clock;
    const auto end_us = clock.monotonic_us() + patience_ms * 1000;
    while (clock.monotonic_us() < end_us) {
      auto message = socket_.receive();
      if (!message || !*message) {
        EXPECT_TRUE(poller.wait(100));
        continue;
      }
      peer_ = (*message)->front();
      auto envelope = decode_envelope((*message)->back());
      EXPECT_TRUE(envelope);
      if (!envelope) break;
      if (std::holds_alternative<Hello>(envelope->message)) {
        Welcome welcome;
        welcome.broker = id_;
        welcome.heartbeat_ms = 50;
        say(welcome, envelope->id);
        greeted_ = true;
      } else if (!greeted_) {
        say(Refused{{Code::unexpected_message, "no session is open", "say hello"}}, envelope->id);
        continue;
      } else if (std::holds_alternative<Heartbeat>(envelope->message)) {
        say(HeartbeatAnswer{}, envelope->id);
      }
      if (const T* found = std::get_if<T>(&envelope->message)) return *found;
    }
    ADD_FAILURE() << "the message did not come";
    return {};
  }

  void say(Message message, std::uint64_t id = 0) {
    const Status sent = socket_.send({peer_, encode(Envelope{id, std::move(message)})});
    EXPECT_TRUE(sent) << sent.error().text();
  }

 private:
  static net::SocketOptions quick() {
    net::SocketOptions options;
    options.linger_ms = 100;
    return options;
  }
  std::string id_, peer_;
  bool greeted_ = false;
  net::Socket socket_;
};

SessionOptions session_options() {
  SessionOptions options;
  options.name = "e";
  options.instance = "i1";
  options.hello_ms = 50;
  options.hello_most_ms = 200;
  options.silence_ms = 500;
  return options;
}

TEST(Link, RunsJobsOverInprocAndDrains) {
  net::Context context;
  FakeExecutor executor;
  executor.answer_at_once();
  const SystemClock clock;
  ScriptedBroker broker(context, "inproc://engines", "b1");
  auto link = Link::open(context, "inproc://engines", {}, session_options(), executor, clock);
  ASSERT_TRUE(link) << link.error().text();
  Status ended;
  std::thread thread([&] { ended = (*link)->run(); });
  EXPECT_EQ(broker.expect<Hello>().instance, "i1");
  EXPECT_EQ(broker.expect<Heartbeat>().credit, 8u);
  broker.say(Leases{{make_lease(1), make_lease(2)}});
  std::vector<LeaseId> got;
  while (got.size() < 2) {
    const Ends ends = broker.expect<Ends>();
    ASSERT_FALSE(ends.ends.empty());
    for (const JobEnd& end : ends.ends) got.push_back(end.lease);
  }
  EXPECT_EQ(got, (std::vector<LeaseId>{1, 2}));
  broker.say(Committed{{1, 2}, {}});
  (*link)->stop();
  broker.expect<Goodbye>();
  thread.join();
  EXPECT_TRUE(ended);
}

TEST(Link, ComesBackToANewBrokerWithItsResults) {
  const auto path =
      std::filesystem::temp_directory_path() / ("millrace-link-test-" + std::to_string(::getpid()));
  const std::string endpoint = "ipc://" + path.string();
  net::Context context;
  FakeExecutor executor;
  executor.answer_at_once();
  const SystemClock clock;
  auto link =
      Link::open(context, endpoint, {}, session_options(), executor, clock);  // before there is one
  ASSERT_TRUE(link) << link.error().text();
  Status ended;
  std::thread thread([&] { ended = (*link)->run(); });
  {
    ScriptedBroker broker(context, endpoint, "b1");
    broker.expect<Heartbeat>();
    broker.say(Leases{{make_lease(7)}});
    EXPECT_EQ(broker.expect<Ends>().ends.at(0).lease, 7u);
  }  // the broker ends without goodbye, before the result was committed
  ScriptedBroker broker(context, endpoint, "b2");
  broker.expect<Hello>();
  EXPECT_EQ(broker.expect<Heartbeat>().leases, std::vector<LeaseId>{7});
  EXPECT_EQ(broker.expect<Ends>().ends.at(0).lease, 7u);
  broker.say(Committed{{7}, {}});
  (*link)->stop();
  broker.expect<Goodbye>();
  thread.join();
  EXPECT_TRUE(ended);
  std::filesystem::remove(path);
}

TEST(Link, TurnsToTheNextBrokerWithItsLeases) {
  net::Context context;
  FakeExecutor executor;
  const SystemClock clock;
  std::optional<ScriptedBroker> first;
  first.emplace(context, "inproc://first", "b1");
  ScriptedBroker second(context, "inproc://second", "b2");
  auto link = Link::open(context, "inproc://nobody,inproc://first,inproc://second", {},
                         session_options(), executor, clock);
  ASSERT_TRUE(link) << link.error().text();
  Status ended;
  std::thread thread([&] { ended = (*link)->run(); });
  first->expect<Heartbeat>();
  first->say(Leases{{make_lease(7)}});
  while (first->expect<Heartbeat>().leases.empty()) {
  }
  first.reset();  // without goodbye
  EXPECT_EQ(second.expect<Heartbeat>().leases, std::vector<LeaseId>{7});
  executor.answer_at_once();
  (*link)->stop();
  (*link)->stop();
  thread.join();
  EXPECT_TRUE(ended);
}

TEST(Link, AMistakeInAnyOfTheEndpointsIsRefused) {
  net::Context context;
  FakeExecutor executor;
  const SystemClock clock;
  const auto link =
      Link::open(context, "inproc://first,tcp://nonsense", {}, session_options(), executor, clock);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Code::usage);
}

TEST(Link, StopsWithoutABroker) {
  net::Context context;
  FakeExecutor executor;
  const SystemClock clock;
  auto link = Link::open(context, "tcp://127.0.0.1:1", {}, session_options(), executor, clock);
  ASSERT_TRUE(link) << link.error().text();
  (*link)->stop();
  EXPECT_TRUE((*link)->run());
}

TEST(Link, AnEndpointThatCannotBeIsRefused) {
  net::Context context;
  FakeExecutor executor;
  const SystemClock clock;
  const auto link = Link::open(context, "nonsense", {}, session_options(), executor, clock);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Code::usage);
}

}  // namespace
}  // namespace millrace::worker
