#pragma once
// A client that sends any bytes and reads what comes back. Waits at most ten seconds for an answer.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "http/server.hpp"

namespace millrace::http {

class RawClient {
 public:
  explicit RawClient(const std::string& url, int receive_bytes = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    int port = 0;
    const std::string digits = url.substr(url.rfind(':') + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), port);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        buffer_(std::move(other.buffer_)) {}
  ~RawClient() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // Sends no more, and still reads.
  void close_side() const { ::shutdown(socket_, SHUT_WR); }
  bool connected() const { return connected_; }
  // False: the server has closed the connection.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  struct Answer {
    int status = 0;  // 0: none came
    std::string head, body;
  };
  // The next answer with a Content-Length, or a head alone for HEAD and for streams.
  Answer answer(bool with_body = true) {
    Answer answer;
    while (!buffer_.contains("\r\n\r\n")) {
      if (!more()) return answer;
    }
    const auto end = buffer_.find("\r\n\r\n") + 4;
    answer.head = buffer_.substr(0, end);
    buffer_.erase(0, end);
    answer.status = std::stoi(answer.head.substr(9, 3));
    const auto length = answer.head.find("Content-Length: ");
    if (!with_body || length == std::string::npos) return answer;
    const auto bytes = std::stoul(answer.head.substr(length + 16));
    while (buffer_.size() < bytes && more()) {
    }
    answer.body = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return answer;
  }
  Answer ask(std::string_view bytes) {
    send(bytes);
    return answer();
  }
  // Reads until the text has come. False: the connection ended before.
  bool read_until(std::string_view text) {
    while (!buffer_.contains(text)) {
      if (!more()) return false;
    }
    return true;
  }
  // True once the server has closed the connection.
  bool closed() {
    while (more()) {
    }
    return ended_;
  }
  const std::string& unread() const { return buffer_; }

 private:
  bool more() {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, 10'000) <= 0) return false;
    char bytes[4096];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  int socket_ = -1;
  bool connected_ = false, ended_ = false;
  std::string buffer_;
};

inline std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}
inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

inline std::unique_ptr<Server> start(Routes routes, ServerLimits limits = {},
                                     OriginPolicy origins = {}) {
  auto server = Server::start({.listen = "127.0.0.1:0",
                               .certificate = {},
                               .key = {},
                               .origins = std::move(origins),
                               .limits = limits,
                               .admit = {},
                               .refuse = {}},
                              std::move(routes));
  EXPECT_TRUE(server) << server.error().text();
  return server ? *std::move(server) : nullptr;
}

// Answers with the method, the path's part `name`, the query's `q` and the body.
inline void echo(const std::shared_ptr<Exchange>& exchange) {
  const Request& request = exchange->request();
  exchange->respond({.status = 200,
                     .body = request.method + " " + std::string(request.part("name")) + " " +
                             std::string(request.argument("q")) + " " + request.body,
                     .type = "text/plain",
                     .headers = {}});
}

inline Routes echo_routes() {
  Routes routes;
  routes.add("GET", "/echo/{name}", echo);
  routes.add("POST", "/echo/{name}", echo);
  return routes;
}

}  // namespace millrace::http
