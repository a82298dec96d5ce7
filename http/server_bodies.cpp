// The bodies of requests: what of them is kept, and who makes room where there is too much.
#include <sys/socket.h>

#include "http/server_connections.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::http {

void Connections::receive(Connection& connection, const char* data, std::size_t bytes) {
  // An answer can be given only once the body is read, so what is too much is read and dropped.
  connection.received += bytes;
  if (connection.received > connection.body_limit) {
    connection.too_large = true;
    drop_body(connection);
    if (connection.received > 4 * connection.body_limit) {
      ::shutdown(connection.descriptor, SHUT_RDWR);
    }
  }
  if (connection.too_large || connection.no_room || connection.leaving) return;
  if (connection.route->make_form) return take_form_data(connection, data, bytes);
  if (!room_for(bytes, connection)) {
    connection.no_room = true;
    drop_body(connection);
    return;
  }
  connection.exchange->add_to_body(data, bytes);
}

void Connections::drop_body(Connection& connection) {
  end_form(connection, false);
  if (connection.exchange) connection.exchange->take_body();
}

// Closes the connection, `beside` excepted, whose body has taken longest, if that is too long.
bool Connections::make_room(Room of, const Connection* beside) {
  const std::int64_t patience_us = std::int64_t{options_.limits.make_room_ms} * us_per_ms;
  const std::int64_t now = SystemClock().monotonic_us();
  for (Connection& connection : receiving_) {
    if (connection.leaving || &connection == beside) continue;
    if (now - connection.since_us < patience_us) return false;  // the others began later
    if (of == Room::bytes && connection.exchange->request().body.empty()) continue;
    connection.leaving = true;
    drop_body(connection);
    ::shutdown(connection.descriptor, SHUT_RDWR);
    receiving_.splice(receiving_.end(), receiving_, connection.self);
    ++evicted_;
    return true;
  }
  return false;
}

// Whether so much more of a body can be kept.
bool Connections::room_for(std::uint64_t bytes, const Connection& of) {
  while (inbox_->held_bytes() + bytes > options_.limits.all_body_bytes) {
    if (!make_room(Room::bytes, &of)) return false;
  }
  return true;
}

Response Connections::crowded() const {
  return refusal(503, {Code::overloaded, "the server has as many bytes of requests as it may",
                       "send the request again later", 1'000});
}

}  // namespace millrace::http
