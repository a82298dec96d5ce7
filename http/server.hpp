#pragma once
// An HTTP/1.1 server on one thread. Handlers run on that thread and answer at once or later
// (exchange.hpp). It is hardened against clients that send too much, too slowly or nonsense, and
// against many of them: what is refused gets a status and a body, and the others are served. What
// libmicrohttpd itself refuses, before a request is whole (a head that is too long, 431 and 414, or
// broken, 400), has a short page of HTML as its body, and ServerOptions::refuse is not asked.
//
//   Routes routes;
//   routes.add("GET", "/health", [](const auto& exchange) { exchange->respond({.body = "{}"}); });
//   MILLRACE_ASSIGN(auto server, Server::start({.listen = "127.0.0.1:8080"}, std::move(routes)));
//   ...
//   server->stop(5'000);
//
// Errors of start: usage (address, certificate), io_error (the address is in use, no thread).
// Thread safety: any thread may call the member functions.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/exchange.hpp"
#include "http/origin.hpp"
#include "http/request.hpp"
#include "http/routes.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

struct ServerLimits {
  std::uint32_t connections = 4'096;  // beyond them one makes room, see make_room_ms
  std::uint32_t files = 1'024;  // descriptors beside theirs, for files that forms and answers have
  std::uint32_t header_bytes = 32 * 1024;  // request line and headers
  std::uint64_t body_bytes = 16ull * 1024 * 1024;
  std::uint64_t all_body_bytes = 256ull * 1024 * 1024;  // kept, of all requests; more get 503
  std::uint32_t idle_ms = 75'000;  // a connection without a request, or whose client stands still
  std::uint32_t request_ms = 60'000;  // from the headers to the end of the body
  // Where a limit of all connections or bodies is reached, idle connections make room, and then
  // those whose body takes longer than this, the longest first. If none does, the answer is 503.
  std::uint32_t make_room_ms = 5'000;
  // A stream of which more than stream_bytes wait for longer than stream_wait_ms, or more than
  // most_stream_bytes at all, takes no more events.
  std::size_t stream_bytes = 256 * 1024, most_stream_bytes = 64 * 1024 * 1024;
  std::uint32_t stream_wait_ms = 30'000;
};

struct ServerOptions {
  std::string listen;            // see address.hpp
  std::string certificate, key;  // PEM files; both or neither
  OriginPolicy origins;
  ServerLimits limits;
  // Judges a request by its head, before the body is read. None: it may pass. May be empty.
  std::function<std::optional<Response>(const Request&)> admit;
  // Writes the body of what the server itself refuses. May be empty: a line of text.
  std::function<Response(int status, const Error& error)> refuse;
};

struct ServerCounts {
  std::uint64_t requests = 0, refused = 0;  // refused by the server, not by a handler
  std::uint32_t connections = 0;            // open now
  std::uint64_t evicted = 0;                // closed to make room for others
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Routes routes);
  virtual ~Server() = default;  // stops at once
  // Takes no new connections and requests, waits at most this long for the answers that are under
  // way, and closes all connections. A request that has no answer by then gets 503 (`draining`),
  // and a stream is cut. Another call may shorten the wait. Handlers and callbacks do not run any
  // more when it returns.
  virtual void stop(std::uint32_t wait_ms) = 0;
  virtual const std::string& url() const = 0;  // "http://127.0.0.1:40123"
  virtual ServerCounts counts() const = 0;
};

}  // namespace millrace::http
