// What clients do wrong on purpose: it is refused, the others are served, and memory has a bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <vector>

#include "raw_client.hpp"

namespace millrace::http {
namespace {

void expect_served(const Server& server) {
  RawClient client(server.url());
  EXPECT_EQ(client.ask(get("/echo/a")).status, 200);
}

TEST(Hostile, TooMuchIsRefused) {
  ServerLimits limits;
  limits.body_bytes = 1'000;
  Routes routes = echo_routes();
  routes.add("POST", "/large", echo, 5'000);
  const auto server = start(std::move(routes), limits);
  RawClient announced(server->url());
  EXPECT_EQ(
      announced.ask("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n").status,
      413);
  RawClient chunked(server->url());
  EXPECT_EQ(
      chunked
          .ask("POST /echo/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5dc\r\n" +
               std::string(1'500, 'x') + "\r\n0\r\n\r\n")
          .status,
      413);
  RawClient endless(server->url());
  endless.send("POST /echo/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "3e8\r\n" + std::string(1'000, 'x') + "\r\n";
  int chunks = 0;
  while (endless.send(chunk) && ++chunks < 100'000) {
  }
  EXPECT_LT(chunks, 100'000);  // it is closed soon after the limit
  RawClient large(server->url());
  EXPECT_EQ(large.ask(post("/large", std::string(5'000, 'x'))).status, 200);
  RawClient header(server->url());
  EXPECT_EQ(header.ask("GET /echo/a HTTP/1.1\r\nHost: a\r\nX: " + std::string(100'000, 'x')).status,
            431);
  RawClient line(server->url());
  EXPECT_EQ(line.ask("GET /" + std::string(100'000, 'x')).status, 414);
  expect_served(*server);
}

TEST(Hostile, BodiesTogetherHaveABound) {
  ServerLimits limits;
  limits.body_bytes = 1'000;
  limits.all_body_bytes = 2'500;
  const auto server = start(echo_routes(), limits);
  std::vector<RawClient> slow;
  for (int i = 0; i < 4; ++i) {
    slow.emplace_back(server->url());
    slow.back().send("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" +
                     std::string(900, 'x'));
  }
  int refused = 0;
  for (RawClient& one : slow) {
    one.send(std::string(100, 'x'));
    const int status = one.answer().status;
    EXPECT_TRUE(status == 200 || status == 503) << status;
    if (status == 503) ++refused;
  }
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 3);
  RawClient client(server->url());
  EXPECT_EQ(client.ask(post("/echo/a", std::string(1'000, 'x'))).status, 200);
}

// Clients whose bodies have stopped before their end.
std::vector<RawClient> stalled_clients(const Server& server, int count, std::size_t sent) {
  std::vector<RawClient> clients;
  for (int i = 0; i < count; ++i) {
    clients.emplace_back(server.url());
    clients.back().send("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" +
                        std::string(sent, 'x'));
  }
  return clients;
}

TEST(Hostile, StalledBodiesMakeRoomForOthers) {
  ServerLimits limits;
  limits.body_bytes = 1'000;
  limits.all_body_bytes = 2'500;
  limits.make_room_ms = 0;
  const auto server = start(echo_routes(), limits);
  for (int i = 0; i < 20; ++i) {
    const auto stalled = stalled_clients(*server, 4, 900);
    RawClient client(server->url());
    EXPECT_EQ(client.ask(post("/echo/a", std::string(1'000, 'x'))).status, 200);
  }
  EXPECT_GE(server->counts().evicted, 20u);
}

TEST(Hostile, StalledBodiesThatMayStillComeAreWaitedFor) {
  ServerLimits limits;
  limits.body_bytes = 1'000;
  limits.all_body_bytes = 2'500;
  const auto server = start(echo_routes(), limits);
  auto stalled = stalled_clients(*server, 2, 900);
  RawClient::Answer answer;
  for (int i = 0; i < 1'000 && answer.status != 503; ++i) {  // until both have been read
    RawClient client(server->url());
    answer = client.ask(post("/echo/a", std::string(1'000, 'x')));
  }
  EXPECT_EQ(answer.status, 503);
  expect_served(*server);
  for (RawClient& one : stalled) EXPECT_EQ(one.ask(std::string(100, 'x')).status, 200);
}

TEST(Hostile, HalfSentRequestsMakeRoomForOtherConnections) {
  ServerLimits limits;
  limits.connections = 4;
  limits.make_room_ms = 0;
  const auto server = start(echo_routes(), limits);
  for (int i = 0; i < 20; ++i) {
    std::vector<RawClient> stalled;
    for (std::uint32_t one = 0; one < limits.connections; ++one) {
      stalled.emplace_back(server->url());
      stalled.back().send(
          "POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
      EXPECT_TRUE(stalled.back().read_until("100 Continue"));  // its head has been read
    }
    expect_served(*server);
  }
}

TEST(Hostile, BodiesCountUntilTheyAreTaken) {
  std::vector<std::shared_ptr<Exchange>> waiting;
  std::promise<void> both;
  Routes routes = echo_routes();
  routes.add("POST", "/wait", [&](const std::shared_ptr<Exchange>& exchange) {
    waiting.push_back(exchange);
    if (waiting.size() == 2) both.set_value();
  });
  ServerLimits limits;
  limits.all_body_bytes = 2'500;
  const auto server = start(std::move(routes), limits);
  RawClient one(server->url()), two(server->url()), other(server->url());
  const std::string text(1'000, 'x');
  one.send(post("/wait", text));
  two.send(post("/wait", text));
  both.get_future().wait();
  EXPECT_EQ(other.ask(post("/echo/a", text)).status, 503);
  EXPECT_EQ(waiting[0]->take_body(), text);
  EXPECT_TRUE(waiting[0]->request().body.empty());
  RawClient again(server->url());
  EXPECT_EQ(again.ask(post("/echo/a", text)).status, 200);
  for (const auto& exchange : waiting) exchange->respond({});
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(two.answer().status, 200);
}

TEST(Hostile, NonsenseIsRefused) {
  const auto server = start(echo_routes());
  const std::string head = "POST /echo/a HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& bad :
       {std::string("\x16\x03\x01\x02\x01 not HTTP\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /echo/a HTTP/9.9\r\n\r\n"), std::string("GET /echo/a HTTP/1.1\r\n\r\n"),
        head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n12",
        head + "Content-Length : 2\r\n\r\n12", head + "Content-Length\t: 2\r\n\r\n12",
        head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: identity\r\n\r\n", head + "Host: b\r\n\r\n",
        head + "Content-Length: -1\r\n\r\n", head + "Content-Length: x\r\n\r\n",
        head + "Content-Length: 99999999999999999999\r\n\r\n",
        head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawClient client(server->url());
    client.send(bad);
    const auto answer = client.answer();
    EXPECT_TRUE(answer.status == 0 || answer.status >= 400) << answer.status << " for " << bad;
    EXPECT_TRUE(client.closed()) << bad;
  }
  expect_served(*server);
}

// The end of these comes together with their last bytes. The time limit of a silent connection is
// 75 s, and of a body 60 s.
TEST(Hostile, ClientsThatGoAmidARequestAreForgotten) {
  const auto server = start(echo_routes());
  for (int i = 0; i < 50; ++i) {
    RawClient head(server->url()), body(server->url());
    head.send("POST /echo/a HT");
    body.send("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" +
              std::string(900, 'x'));
  }
  for (int i = 0; i < 300 && server->counts().connections > 0; ++i) ::usleep(100'000);
  EXPECT_EQ(server->counts().connections, 0u);
}

TEST(Hostile, AClientThatClosesItsSideGetsItsAnswer) {
  const auto server = start(echo_routes());
  RawClient client(server->url());
  client.send(post("/echo/a", std::string(3'000'000, 'x')));
  client.close_side();
  EXPECT_EQ(std::ranges::count(client.answer().body, 'x'), 3'000'000);
}

TEST(Hostile, PipelinedRequestsAreAnsweredInTheirOrder) {
  const auto server = start(echo_routes());
  RawClient client(server->url());
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += i % 2 == 0 ? get("/echo/a?q=" + std::to_string(i)) : post("/echo/b", std::to_string(i));
  }
  client.send(all);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(client.answer().body,
              i % 2 == 0 ? "GET a " + std::to_string(i) + " " : "POST b  " + std::to_string(i));
  }
}

TEST(Hostile, SlowClientsAreClosed) {
  ServerLimits limits;
  limits.idle_ms = 1'000;
  limits.request_ms = 1'000;
  const auto server = start(echo_routes(), limits);
  RawClient silent(server->url()), head(server->url()), body(server->url());
  head.send("GET /echo/a HT");
  body.send("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  int sent = 0;
  while (body.send("x") && ++sent < 1'000) ::usleep(50'000);  // never silent, never done
  EXPECT_LT(sent, 1'000);
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(head.closed());
  expect_served(*server);
}

TEST(Hostile, IdleConnectionsMakeRoomForOthers) {
  ServerLimits limits;
  limits.connections = 20;
  const auto server = start(echo_routes(), limits);
  std::vector<RawClient> idle;
  for (int i = 0; i < 500; ++i) {
    idle.emplace_back(server->url());
    if (i % 3 == 0) idle.back().send("GET /echo/a HTTP/1.1\r\n");  // a head that never ends
  }
  expect_served(*server);
  const auto counts = server->counts();
  EXPECT_LE(counts.connections, 20u + 64u);
  EXPECT_GE(counts.evicted, 400u);
}

TEST(Hostile, ConnectionsAtWorkAreNeverClosedForOthers) {
  std::vector<std::shared_ptr<Exchange>> waiting;
  std::promise<void> all;
  Routes routes = echo_routes();
  routes.add("GET", "/wait", [&](const std::shared_ptr<Exchange>& exchange) {
    waiting.push_back(exchange);
    if (waiting.size() == 4) all.set_value();
  });
  ServerLimits limits;
  limits.connections = 4;
  const auto server = start(std::move(routes), limits);
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(server->url());
    clients.back().send(get("/wait"));
  }
  all.get_future().wait();
  RawClient other(server->url());
  const auto refused = other.ask(get("/echo/a"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.head.contains("Connection: close"));
  for (const auto& exchange : waiting) exchange->respond({});
  for (RawClient& client : clients) EXPECT_EQ(client.answer().status, 200);
  EXPECT_TRUE(other.closed());
  expect_served(*server);
}

TEST(Hostile, AReaderThatStandsStillCostsItsQueueAlone) {
  std::promise<std::shared_ptr<Exchange>> asked;
  Routes routes = echo_routes();
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    asked.set_value(exchange);
  });
  ServerLimits limits;
  limits.stream_bytes = 64 * 1024;
  limits.stream_wait_ms = 0;
  limits.idle_ms = 1'000;
  const auto server = start(std::move(routes), limits);
  RawClient client(server->url(), 4'096);
  client.send(get("/events"));
  const auto exchange = asked.get_future().get();
  const std::string event = "data: " + std::string(1'000, 'x') + "\n\n";
  std::size_t taken = 0;
  int refused = 0;
  while (refused < 100 && !exchange->gone()) {
    if (exchange->write(event)) {
      taken += event.size();
      refused = 0;
    } else {
      ++refused;
      ::usleep(1'000);
    }
  }
  // The kernel's buffers and our queue are full; the client has read nothing.
  EXPECT_LT(taken, 16u * 1024 * 1024);
  EXPECT_FALSE(exchange->write(event));
  expect_served(*server);
  std::promise<void> gone;
  exchange->on_gone([&] { gone.set_value(); });
  gone.get_future().wait();  // after idle_ms without progress
}

}  // namespace
}  // namespace millrace::http
