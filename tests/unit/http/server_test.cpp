// Requests, answers from other threads, streams, and the end of the server.
#include "http/server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "raw_client.hpp"

namespace millrace::http {
namespace {

TEST(Server, AnswersRequestsOfOneConnectionInTurn) {
  const auto server = start(echo_routes());
  RawClient client(server->url());
  const auto first = client.ask(get("/echo/a%20b?q=1+2%2B3"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET a b 1 2+3 ");
  EXPECT_TRUE(first.head.contains("Content-Type: text/plain"));
  EXPECT_EQ(client.ask(post("/echo/a", "text")).body, "POST a  text");
  const std::string large(1'000'000, 'x');
  EXPECT_EQ(client.ask(post("/echo/a", large)).body, "POST a  " + large);
  EXPECT_EQ(client
                .ask("POST /echo/a HTTP/1.1\r\nHost: localhost\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")
                .body,
            "POST a  abcd");
  client.send("HEAD /echo/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.answer(false).status, 200);
  const auto not_taken = client.ask("PUT /echo/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(not_taken.status, 405);
  EXPECT_TRUE(not_taken.head.contains("Allow: GET, HEAD, POST"));
  RawClient other(server->url());
  EXPECT_EQ(other.ask(get("/nothing")).status, 404);
  EXPECT_EQ(server->counts().requests, 7u);
}

TEST(Server, AnswersLaterFromAnotherThread) {
  std::thread worker;
  Routes routes;
  routes.add("GET", "/later", [&](const std::shared_ptr<Exchange>& exchange) {
    worker = std::thread([exchange] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      exchange->respond({.status = 202, .body = "late", .type = "text/plain", .headers = {}});
      exchange->respond({.status = 500, .body = "twice", .type = "text/plain", .headers = {}});
    });
  });
  const auto server = start(std::move(routes));
  RawClient client(server->url());
  const auto answer = client.ask(get("/later"));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body, "late");
  worker.join();
}

TEST(Server, AHandlerThatThrowsCostsItsRequestAlone) {
  Routes routes = echo_routes();
  routes.add("GET", "/bad", [](const auto&) { throw std::runtime_error("no"); });
  const auto server = start(std::move(routes));
  RawClient client(server->url());
  EXPECT_EQ(client.ask(get("/bad")).status, 500);
  EXPECT_EQ(client.ask(get("/echo/a")).status, 200);
}

TEST(Server, StreamsEventsAsTheyCome) {
  std::thread worker;
  std::promise<void> go_on;
  Routes routes;
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    worker = std::thread([&, exchange] {
      exchange->begin_stream(
          {.status = 200, .body = {}, .type = "text/event-stream", .headers = {}});
      EXPECT_TRUE(exchange->write("data: 0\n\n"));
      go_on.get_future().wait();  // the client has the first before the second is written
      for (int i = 1; i < 1'000; ++i) {
        while (!exchange->write("data: " + std::to_string(i) + "\n\n")) std::this_thread::yield();
      }
      exchange->end();
    });
  });
  const auto server = start(std::move(routes));
  RawClient client(server->url());
  client.send(get("/events") + get("/events/none"));
  const auto head = client.answer(false);
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.head.contains("text/event-stream"));
  EXPECT_TRUE(client.read_until("data: 0\n\n"));
  EXPECT_FALSE(client.unread().contains("data: 1\n\n"));
  go_on.set_value();
  EXPECT_TRUE(client.read_until("\r\n0\r\n\r\n"));  // the end of the chunks
  std::size_t at = 0;
  for (int i = 0; i < 1'000; ++i) {
    at = client.unread().find("data: " + std::to_string(i) + "\n\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_TRUE(client.read_until("404 Not Found"));  // the connection goes on
  worker.join();
}

TEST(Server, AnEventMayBeLargerThanTheQueue) {
  const std::string event = "data: " + std::string(3'000'000, 'x') + "\n\n";
  Routes routes;
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    EXPECT_TRUE(exchange->write("data: first\n\n"));
    EXPECT_TRUE(exchange->write(event));
    EXPECT_FALSE(exchange->write("data: too much\n\n"));
    exchange->end();
  });
  ServerLimits limits;
  limits.stream_bytes = 64 * 1024;
  limits.stream_wait_ms = 0;
  const auto server = start(std::move(routes), limits);
  RawClient client(server->url());
  client.send(get("/events"));
  ASSERT_TRUE(client.read_until("\r\n0\r\n\r\n"));  // the end of the chunks
  EXPECT_EQ(std::ranges::count(client.unread(), 'x'), 3'000'000);
  EXPECT_FALSE(client.unread().contains("too much"));
}

// The handler runs on the server's thread, which can send nothing meanwhile.
TEST(Server, EventsThatComeFasterThanTheServerSendsAllArrive) {
  const std::string event = "data: " + std::string(100'000, 'x') + "\n\n";
  Routes routes;
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(exchange->write(event));
    exchange->end();
  });
  const auto server = start(std::move(routes), {});
  RawClient client(server->url());
  client.send(get("/events"));
  ASSERT_TRUE(client.read_until("\r\n0\r\n\r\n"));
  EXPECT_EQ(std::ranges::count(client.unread(), 'x'), 5'000'000);
}

// The kernel takes 4 MiB at most. When the client has read the others, too, the time counts anew.
TEST(Server, AReaderThatCatchesUpGetsMore) {
  std::promise<std::shared_ptr<Exchange>> asked;
  Routes routes;
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    asked.set_value(exchange);
  });
  ServerLimits limits;
  limits.stream_wait_ms = 0;
  const auto server = start(std::move(routes), limits);
  RawClient client(server->url(), 64 * 1024);
  client.send(get("/events"));
  const auto exchange = asked.get_future().get();
  EXPECT_TRUE(exchange->write(std::string(8'000'000, 'x') + "#"));
  EXPECT_FALSE(exchange->write("too early"));
  ASSERT_TRUE(client.read_until("#"));
  EXPECT_TRUE(exchange->write("!"));
  ASSERT_TRUE(client.read_until("!"));
}

TEST(Server, AClientThatGoesIsNoticed) {
  std::promise<std::shared_ptr<Exchange>> asked, streaming;
  std::promise<void> gone, stream_gone;
  Routes routes;
  routes.add("GET", "/wait", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->on_gone([&] { gone.set_value(); });
    asked.set_value(exchange);
  });
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    exchange->on_gone([&] { stream_gone.set_value(); });
    streaming.set_value(exchange);
  });
  const auto server = start(std::move(routes));
  RawClient waits(server->url()), reads(server->url());
  waits.send(get("/wait"));
  reads.send(get("/events"));
  const auto exchange = asked.get_future().get();
  const auto stream = streaming.get_future().get();
  EXPECT_FALSE(exchange->gone());
  waits.close();
  gone.get_future().wait();
  EXPECT_TRUE(exchange->gone());
  EXPECT_TRUE(stream->write("data\n"));
  reads.close();
  stream_gone.get_future().wait();
  EXPECT_FALSE(stream->write("data\n"));
  bool called = false;
  stream->on_gone([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST(Server, AnAbortedStreamIsCut) {
  Routes routes;
  routes.add("GET", "/events", [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin_stream({});
    exchange->write("data");
    exchange->abort();
  });
  const auto server = start(std::move(routes));
  RawClient client(server->url());
  client.send(get("/events"));
  EXPECT_TRUE(client.closed());
  EXPECT_FALSE(client.unread().contains("0\r\n\r\n"));
}

TEST(Server, StopsAfterTheAnswersUnderWay) {
  std::promise<std::shared_ptr<Exchange>> asked;
  Routes routes;
  routes.add("GET", "/wait", [&](const auto& exchange) { asked.set_value(exchange); });
  const auto server = start(std::move(routes));
  RawClient idle(server->url()), client(server->url());
  client.send(get("/wait"));
  const auto exchange = asked.get_future().get();
  std::thread stop([&] { server->stop(60'000); });
  EXPECT_TRUE(idle.closed());
  EXPECT_FALSE(RawClient(server->url()).connected());
  exchange->respond({.status = 200, .body = "done", .type = "text/plain", .headers = {}});
  EXPECT_EQ(client.answer().body, "done");
  EXPECT_TRUE(client.closed());
  stop.join();
  EXPECT_EQ(server->counts().connections, 0u);
}

TEST(Server, RefusesWhatHasNoAnswerAfterTheWait) {
  std::promise<std::shared_ptr<Exchange>> asked, streaming;
  std::promise<void> gone;
  Routes routes;
  routes.add("GET", "/wait", [&](const auto& exchange) {
    exchange->on_gone([&] { gone.set_value(); });
    asked.set_value(exchange);
  });
  routes.add("GET", "/events", [&](const auto& exchange) {
    exchange->begin_stream({});
    streaming.set_value(exchange);
  });
  auto server = start(std::move(routes));
  RawClient client(server->url()), reader(server->url()), idle(server->url());
  client.send(get("/wait"));
  reader.send(get("/events"));
  const auto exchange = asked.get_future().get();
  const auto stream = streaming.get_future().get();
  EXPECT_EQ(reader.answer(false).status, 200);
  std::thread patient([&] { server->stop(3'600'000); });
  EXPECT_TRUE(idle.closed());  // the stop has begun
  server->stop(10);            // shortens the wait of the other
  patient.join();
  const auto answer = client.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "the server stops\n");
  EXPECT_TRUE(client.closed());
  gone.get_future().wait();  // so that the work is cancelled
  EXPECT_TRUE(reader.closed());
  EXPECT_FALSE(reader.unread().contains("0\r\n\r\n"));
  EXPECT_TRUE(stream->gone());
  server.reset();
  exchange->respond({});  // the exchange outlives the server
}

TEST(Server, JudgesTheHeadBeforeTheBody) {
  ServerOptions options{.listen = "127.0.0.1:0",
                        .certificate = {},
                        .key = {},
                        .origins = {},
                        .limits = {},
                        .admit = {},
                        .refuse = {}};
  options.admit = [](const Request& request) -> std::optional<Response> {
    if (request.header("authorization") == "Bearer x") return std::nullopt;
    return Response{.status = 401, .body = "no", .type = "text/plain", .headers = {}};
  };
  options.refuse = [](int status, const Error& error) {
    return Response{.status = status, .body = "[" + error.message + "]", .headers = {}};
  };
  auto server = Server::start(std::move(options), echo_routes());
  ASSERT_TRUE(server);
  RawClient client((*server)->url());
  EXPECT_EQ(client.ask("POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n").status,
            401);
  RawClient other((*server)->url());
  EXPECT_EQ(other.ask("GET /echo/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n").status,
            200);
  EXPECT_EQ(other.ask(get("/nothing")).body, "[there is no /nothing]");
}

TEST(Server, RefusesWhatItCannotStartWith) {
  const auto start_with = [](std::string listen, std::string certificate, std::string key) {
    ServerOptions options{.listen = std::move(listen),
                          .certificate = std::move(certificate),
                          .key = std::move(key),
                          .origins = {},
                          .limits = {},
                          .admit = {},
                          .refuse = {}};
    return Server::start(std::move(options), {}).error().code;
  };
  EXPECT_EQ(start_with("nonsense", "", ""), Code::usage);
  EXPECT_EQ(start_with("127.0.0.1:0", "certificate.pem", ""), Code::usage);
  EXPECT_EQ(start_with("127.0.0.1:0", "/no/such/file", "/no/such/file"), Code::not_found);
  EXPECT_EQ(start_with("127.0.0.1:0", "/etc/passwd", "/etc/passwd"), Code::usage);
  const auto first = start({});
  EXPECT_EQ(start_with(first->url().substr(7), "", ""), Code::io_error);
}

}  // namespace
}  // namespace millrace::http
