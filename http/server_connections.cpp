#include "http/server_connections.hpp"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include <exception>
#include <span>
#include <utility>

#include "http/body_length.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t stream_block_bytes = 8 * 1024;  // libmicrohttpd keeps one for each stream
constexpr std::size_t file_block_bytes = 64 * 1024;
// Time for what a client has sent before it closed its side. What is left of it fits into the
// kernel's buffer.
constexpr std::int64_t left_us = 2'000 * us_per_ms;

std::int64_t now_us() {
  return SystemClock().monotonic_us();
}

std::string peer_of(MHD_Connection* handle) {
  const auto* info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return {};
  const auto bytes = static_cast<socklen_t>(
      info->client_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  char host[NI_MAXHOST];
  const int error =
      ::getnameinfo(info->client_addr, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? host : std::string();
}

MHD_Result add_header(void* to, MHD_ValueKind /*kind*/, const char* key, std::size_t key_bytes,
                      const char* value, std::size_t value_bytes) {
  static_cast<Headers*>(to)->emplace_back(std::string(key, key_bytes),
                                          value == nullptr ? "" : std::string(value, value_bytes));
  return MHD_YES;
}

Headers values_of(MHD_Connection* handle, MHD_ValueKind kind) {
  Headers values;
  MHD_get_connection_values_n(handle, kind, &add_header, &values);
  return values;
}

ssize_t read_stream(void* context, std::uint64_t /*position*/, char* to, std::size_t most) {
  auto& connection = *static_cast<Connection*>(context);
  return connection.owner->read(connection, to, most);
}

// A client that takes a file slowly holds no more of it than libmicrohttpd's block.
ssize_t read_file_piece(void* context, std::uint64_t position, char* to, std::size_t most) {
  File& file = **static_cast<std::shared_ptr<File>*>(context);
  const auto got = file.read_at(position, std::span(to, most));
  if (got && *got > 0) return static_cast<ssize_t>(*got);
  if (!got) log_error("a file cannot be sent", got.error());
  return MHD_CONTENT_READER_END_WITH_ERROR;  // it is shorter than it was
}

MHD_Response* file_response(const Response& head) {
  auto* const file = new std::shared_ptr<File>(head.file);
  const auto let_go = [](void* its) { delete static_cast<std::shared_ptr<File>*>(its); };
  MHD_Response* const response = MHD_create_response_from_callback(
      head.file_bytes, file_block_bytes, &read_file_piece, file, let_go);
  if (response == nullptr) let_go(file);
  return response;
}

}  // namespace

Connection& Connections::opened(MHD_Connection* handle, int descriptor) {
  // The connection that has been idle for longest makes room; it may be one that sends slowly.
  const bool full = open_ >= options_.limits.connections;
  bool excess = full && idle_.empty();
  if (excess) {
    excess = !make_room(Room::connection, nullptr);
  } else if (full) {
    ::shutdown(idle_.front().descriptor, SHUT_RDWR);
    idle_.splice(idle_.end(), idle_, idle_.begin());
    ++evicted_;
  }
  Connection& connection = idle_.emplace_back();
  connection.self = std::prev(idle_.end());
  connection.owner = this;
  connection.handle = handle;
  connection.descriptor = descriptor;
  connection.since_us = now_us();
  connection.excess = excess;
  ++open_;
  return connection;
}

void Connections::closed(Connection& connection) {
  if (connection.exchange) ended(connection, false);
  --open_;
  idle_.erase(connection.self);
}

void Connections::move_to(Connection& connection, Connection::State state) {
  auto& from = list_of(connection.state);
  auto& to = list_of(state);
  connection.state = state;
  connection.since_us = now_us();
  to.splice(to.end(), from, connection.self);
}

std::list<Connection>& Connections::list_of(Connection::State state) {
  if (state == Connection::State::idle) return idle_;
  return state == Connection::State::receiving ? receiving_ : at_work_;
}

void Connections::hung_up(Connection& connection) {
  connection.hung_up = true;
  connection.hung_up_us = now_us();
  if (connection.state != Connection::State::working &&
      connection.state != Connection::State::answering) {
    return;  // libmicrohttpd reads to the end and closes it, or close_slow() does
  }
  if (!connection.suspended) return;  // an answer that is being sent meets the end by itself
  connection.exchange->leave();
  resume(connection);
}

void Connections::resume(Connection& connection) {
  if (!std::exchange(connection.suspended, false)) return;
  MHD_resume_connection(connection.handle);
}

std::optional<Response> Connections::judge(Connection& connection, Request& request,
                                           const char* url) {
  if (draining_) return refusal(503, {Code::overloaded, "the server stops", {}, {}});
  if (connection.excess) {
    return refusal(503, {Code::overloaded, "the server has as many connections as it may", {}, {}});
  }
  const auto length = body_length(request.headers);
  if (!length) return refusal(400, length.error());
  for (auto& [name, value] : request.query) {
    auto plain = unescape(value);
    if (!plain) return refusal(400, plain.error());
    value = *std::move(plain);
  }
  const auto path = split_path(url);
  if (!path) return refusal(400, path.error());
  for (const auto& segment : *path) request.path += "/" + segment;
  if (const auto may = options_.origins.check(request); !may) return refusal(403, may.error());
  if (OriginPolicy::is_question(request)) return options_.origins.answer(request);
  auto match = routes_.find(request.method, *path);
  if (match.route == nullptr && match.allowed.empty()) {
    return refusal(404,
                   {Code::not_found, "there is no " + request.path, routes_.hint_for(*path), {}});
  }
  if (match.route == nullptr) {
    std::string allowed;
    for (const auto& method : match.allowed) allowed += (allowed.empty() ? "" : ", ") + method;
    auto answer = refusal(405, {Code::invalid_value,
                                request.path + " does not take " + request.method,
                                "it takes " + allowed,
                                {}});
    answer.headers.emplace_back("Allow", allowed);
    return answer;
  }
  connection.route = match.route;
  request.parts = std::move(match.parts);
  if (options_.admit) {
    if (auto answer = options_.admit(request)) return answer;
  }
  connection.body_limit =
      match.route->body_bytes > 0 ? match.route->body_bytes : options_.limits.body_bytes;
  if (length->value_or(0) > connection.body_limit) {
    connection.too_large = true;
    return refusal(413, {Code::too_large,
                         "the body has " + std::to_string(**length) + " bytes, and at most " +
                             std::to_string(connection.body_limit) + " are taken",
                         {},
                         {}});
  }
  const bool holds = !match.route->make_form;
  if (holds && length->value_or(0) > 0 && !room_for(**length, connection)) {
    connection.no_room = true;
    return crowded();
  }
  return std::nullopt;
}

bool Connections::begin(Connection& connection, const char* url, const char* method) {
  ++requests_;
  connection.too_large = connection.no_room = false;
  connection.form_error.reset();
  connection.received = 0;
  connection.route = nullptr;
  Request request;
  request.method = method;
  request.headers = values_of(connection.handle, MHD_HEADER_KIND);
  request.query = values_of(connection.handle, MHD_GET_ARGUMENT_KIND);
  request.peer = peer_of(connection.handle);
  auto refused = judge(connection, request, url);
  const ServerLimits& limits = options_.limits;
  connection.exchange = std::make_shared<Exchange>(
      std::move(request), inbox_,
      QueueBounds{limits.stream_bytes, limits.most_stream_bytes, limits.stream_wait_ms});
  connection.exchange->connection_ = &connection;
  move_to(connection, Connection::State::receiving);
  if (!refused && connection.route->make_form) refused = begin_form(connection);
  return refused ? refuse(connection, *std::move(refused)) : true;
}

bool Connections::proceed(Connection& connection) {
  Exchange& exchange = *connection.exchange;
  if (connection.state == Connection::State::receiving) {
    if (connection.too_large) {
      return refuse(connection, refusal(413, {Code::too_large,
                                              "the body has more than the " +
                                                  std::to_string(connection.body_limit) +
                                                  " bytes that are taken",
                                              {},
                                              {}}));
    }
    if (connection.no_room) return refuse(connection, crowded());
    if (connection.leaving) return false;
    end_form(connection, true);
    if (const auto& wrong = connection.form_error) {
      return refuse(connection, refusal(code_http_status(wrong->code), *wrong));
    }
    move_to(connection, Connection::State::working);
    try {
      connection.route->handler(connection.exchange);
    } catch (const std::exception& error) {
      log_error("a request failed", {{"path", exchange.request().path}, {"why", error.what()}});
      exchange.respond(refusal(500, {Code::internal, "the request failed", {}, {}}));
    }
  }
  if (exchange.answered()) return send(connection);
  if (connection.hung_up) {
    exchange.leave();
    return false;
  }
  connection.suspended = true;
  MHD_suspend_connection(connection.handle);
  return true;
}

Response Connections::refusal(int status, const Error& error) const {
  if (options_.refuse) return options_.refuse(status, error);
  return {.status = status, .body = error.message + "\n", .type = "text/plain", .headers = {}};
}

bool Connections::refuse(Connection& connection, Response response) {
  if (response.status >= 400) ++refused_;
  connection.exchange->respond(std::move(response));
  return send(connection);
}

bool Connections::send(Connection& connection) {
  Exchange& exchange = *connection.exchange;
  move_to(connection, Connection::State::answering);
  using Phase = Exchange::Phase;
  bool whole = false;
  {
    const std::scoped_lock lock(exchange.mutex_);
    if (exchange.gone_ || exchange.phase_ == Phase::aborted) return false;
    whole = exchange.phase_ == Phase::responded;
  }
  // Once it is answered, nobody changes the head or the body.
  const Response& head = exchange.response_;
  MHD_Response* const response =
      head.file ? file_response(head)
      : whole   ? MHD_create_response_from_buffer(
                      head.body.size(), const_cast<char*>(head.body.data()), MHD_RESPMEM_PERSISTENT)
              : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, stream_block_bytes,
                                                  &read_stream, &connection, nullptr);
  if (response == nullptr) return false;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) MHD_add_response_header(response, name.c_str(), value.c_str());
  };
  add("Content-Type", head.type);
  for (const auto& [name, value] : head.headers) add(name, value);
  for (const auto& [name, value] : options_.origins.headers(exchange.request())) add(name, value);
  if (draining_ || connection.excess) add("Connection", "close");
  const auto queued =
      MHD_queue_response(connection.handle, static_cast<unsigned>(head.status), response);
  MHD_destroy_response(response);
  return queued == MHD_YES;
}

long Connections::read(Connection& connection, char* to, std::size_t most) {
  const long got = connection.exchange->read(to, most);
  if (got > 0) return got;
  if (got == Exchange::at_end) return MHD_CONTENT_READER_END_OF_STREAM;
  if (got == Exchange::cut_off) return MHD_CONTENT_READER_END_WITH_ERROR;
  if (connection.hung_up) {
    connection.exchange->leave();
    return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  connection.suspended = true;
  MHD_suspend_connection(connection.handle);
  return 0;
}

void Connections::ended(Connection& connection, bool complete) {
  if (!connection.exchange) return;
  end_form(connection, false);
  const auto exchange = std::exchange(connection.exchange, nullptr);
  exchange->connection_ = nullptr;
  if (complete) {
    exchange->finish();
  } else {
    exchange->leave();
  }
  move_to(connection, Connection::State::idle);
  if (draining_) ::shutdown(connection.descriptor, SHUT_RDWR);
}

void Connections::take_inbox() {
  for (const auto& exchange : inbox_->take()) {
    if (exchange->connection_ != nullptr) resume(*exchange->connection_);
  }
}

void Connections::close_slow() {
  // libmicrohttpd ends those that are silent for idle_ms. A byte now and then does not help: a head
  // has to be complete a while after that, and the body within its own time.
  const std::int64_t now = now_us();
  const std::int64_t head_us = (std::int64_t{options_.limits.idle_ms} + 30'000) * us_per_ms;
  const std::int64_t body_us = std::int64_t{options_.limits.request_ms} * us_per_ms;
  // libmicrohttpd misses the end of a connection that comes together with the last bytes.
  const auto has_left = [now](const Connection& connection) {
    return connection.hung_up && now - connection.hung_up_us >= left_us;
  };
  for (const Connection& connection : idle_) {
    if (now - connection.since_us < head_us && !has_left(connection)) continue;
    ::shutdown(connection.descriptor, SHUT_RDWR);
  }
  for (const Connection& connection : receiving_) {
    const std::uint32_t own_ms = connection.route == nullptr ? 0 : connection.route->body_ms;
    const std::int64_t may_us = own_ms == 0 ? body_us : std::int64_t{own_ms} * us_per_ms;
    if (now - connection.since_us < may_us && !has_left(connection)) continue;
    ::shutdown(connection.descriptor, SHUT_RDWR);
  }
}

void Connections::drain() {
  draining_ = true;
  for (const Connection& connection : idle_) ::shutdown(connection.descriptor, SHUT_RDWR);
}

void Connections::refuse_all() {
  for (Connection& connection : receiving_) close(connection);
  for (Connection& connection : at_work_) {
    if (connection.state != Connection::State::working || connection.hung_up) {
      close(connection);
      continue;
    }
    connection.exchange->refuse(
        refusal(503, {Code::draining, "the server stops", "send the request again later", {}}));
    resume(connection);
  }
}

void Connections::close(Connection& connection) {
  if (connection.exchange) connection.exchange->leave();
  ::shutdown(connection.descriptor, SHUT_RDWR);
  connection.hung_up = true;
  resume(connection);
}

void Connections::close_all() {
  for (Connection& connection : receiving_) close(connection);
  for (Connection& connection : at_work_) close(connection);
  for (const Connection& connection : idle_) ::shutdown(connection.descriptor, SHUT_RDWR);
}

ServerCounts Connections::counts() const {
  return {requests_, refused_, open_, evicted_};
}

}  // namespace millrace::http
