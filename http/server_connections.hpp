#pragma once
// The server's connections and what libmicrohttpd reports of them: the callbacks of server.cpp call
// these member functions. Only server*.cpp includes this.
// Thread safety: the server's thread alone, but for counts().
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/multipart.hpp"
#include "http/server.hpp"

struct MHD_Connection;

namespace millrace::http {

class Connections;

// A connection has requests one after the other.
struct Connection {
  enum class State : std::uint8_t {
    idle,       // no request yet, or its head is not complete
    receiving,  // the body arrives
    working,    // the handler has it
    answering   // the answer is being sent
  };
  Connections* owner = nullptr;
  MHD_Connection* handle = nullptr;
  int descriptor = -1;
  State state = State::idle;
  std::int64_t since_us = 0;  // of the state
  bool excess = false;        // opened when all others were at work
  bool suspended = false;
  bool hung_up = false;  // the client has closed its side
  std::int64_t hung_up_us = 0;
  bool leaving = false;    // closed by us to make room
  bool too_large = false;  // its body
  bool no_room = false;    // for its body, beside those of others
  std::uint64_t body_limit = 0;
  std::uint64_t received = 0;       // of the body
  std::optional<Multipart> form{};  // takes the body apart on a route for forms
  std::shared_ptr<FormReader> reader{};
  std::optional<Error> form_error{};  // why it is refused
  const Route* route = nullptr;
  std::shared_ptr<Exchange> exchange;
  std::list<Connection>::iterator self;
};

class Connections {
 public:
  Connections(const ServerOptions& options, const Routes& routes, std::shared_ptr<Inbox> inbox)
      : options_(options), routes_(routes), inbox_(std::move(inbox)) {}

  // What happens to a connection.
  Connection& opened(MHD_Connection* handle, int descriptor);
  void closed(Connection& connection);
  void hung_up(Connection& connection);  // the client has closed its side

  // What happens to a request. False: the connection has to be closed.
  bool begin(Connection& connection, const char* url, const char* method);
  void receive(Connection& connection, const char* data, std::size_t bytes);
  bool proceed(Connection& connection);  // the request is complete, or its answer is ready
  long read(Connection& connection, char* to, std::size_t most);  // the next piece of a stream
  void ended(Connection& connection, bool complete);

  void take_inbox();  // lets connections go on whose answers have grown
  void close_slow();  // ends what has had its time
  // No more requests: idle connections are closed. Then whether an answer is still under way.
  void drain();
  bool busy() const { return !at_work_.empty() || !receiving_.empty(); }
  // Requests without an answer get 503, and all other connections are closed.
  void refuse_all();
  void close_all();
  bool empty() const { return !busy() && idle_.empty(); }

  ServerCounts counts() const;

 private:
  std::optional<Response> judge(Connection& connection, Request& request, const char* url);
  bool refuse(Connection& connection, Response response);
  Response refusal(int status, const Error& error) const;
  bool send(Connection& connection);
  void move_to(Connection& connection, Connection::State state);
  void resume(Connection& connection);
  void close(Connection& connection);
  void drop_body(Connection& connection);
  // Forms: server_forms.cpp.
  std::optional<Response> begin_form(Connection& connection);  // none: it has begun
  Status make_form(Connection& connection);
  static void take_form_data(Connection& connection, const char* data, std::size_t bytes);
  static void end_form(Connection& connection, bool complete);
  bool room_for(std::uint64_t bytes, const Connection& of);
  enum class Room : std::uint8_t { connection, bytes };
  bool make_room(Room of, const Connection* beside);
  Response crowded() const;
  std::list<Connection>& list_of(Connection::State state);

  const ServerOptions& options_;
  const Routes& routes_;
  const std::shared_ptr<Inbox> inbox_;
  std::list<Connection> idle_;       // the longest idle first
  std::list<Connection> receiving_;  // the longest first
  std::list<Connection> at_work_;    // working and answering
  bool draining_ = false;
  std::atomic<std::uint64_t> requests_ = 0, refused_ = 0, evicted_ = 0;
  std::atomic<std::uint32_t> open_ = 0;
};

}  // namespace millrace::http
