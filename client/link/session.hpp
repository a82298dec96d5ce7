#pragma once
// A client's session with a broker: hello, questions and their answers, doorbells; and what to do
// when the broker is away: say so, try again with growing pauses, and send every question that has
// no answer yet once more. That is safe, because submits are idempotent by job id, and fetch,
// acknowledge, status and cancel may be repeated.
//
// Nothing blocks but poll(), for as long as it is told to. Who waits for more than one answer does
// so in an EventLoop (event_loop.hpp).
// Errors: unreachable (bad endpoint), what the broker refuses a hello with, malformed_frame.
// Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/link/socket.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"

namespace millrace::client {

// What a person may want to know about the connection.
struct LinkEvent {
  enum class Kind : std::uint8_t { away, back };
  Kind kind = Kind::away;
  std::string reason;          // of away
  std::uint32_t retry_ms = 0;  // away: the next try comes within this time
  std::uint64_t away_ms = 0;   // since the broker was last heard
};

struct SessionOptions {
  std::string endpoint;               // "tcp://127.0.0.1:5551", "ipc:///run/millrace/client"
  std::string name;                   // for people: host and process
  std::uint32_t greeting_ms = 1'000;  // first wait for a Welcome; doubles up to the next
  std::uint32_t greeting_max_ms = 8'000;
  std::uint32_t answer_ms = 30'000;  // a question this old means that the broker is away
  std::function<void(const LinkEvent&)> on_event;  // may be empty
};

struct Bell {  // something was written to a stream that was subscribed to
  std::string stream;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options, const Clock& clock);
  // The same over a socket of the caller's.
  static Result<std::unique_ptr<Session>> open(SessionOptions options, const Clock& clock,
                                               std::unique_ptr<BrokerSocket> socket);
  virtual ~Session() = default;

  // Queues a question and returns its id, which the answer will carry.
  virtual std::uint64_t ask(Message message) = 0;
  // Drops a question; a late answer is not given out.
  virtual void forget(std::uint64_t id) = 0;
  // Rings for this stream appear in poll()'s bells.
  virtual Status subscribe(const std::string& stream) = 0;
  // Partials of jobs of this stream that ask for them appear among poll()'s answers, with id 0, as
  // they come; after a loss of the connection they are asked for again. Some may be missed.
  virtual void watch(const std::string& stream) = 0;

  // Waits at most timeout_ms for something to happen; appends what came. An error ends the session.
  virtual Status poll(std::uint32_t timeout_ms, std::vector<Envelope>& answers,
                      std::vector<Bell>& bells) = 0;

  virtual bool ready() const = 0;              // welcomed, and not lost since
  virtual std::uint64_t away_ms() const = 0;   // 0 while ready
  virtual const Welcome& welcome() const = 0;  // of the last time it was ready
  virtual std::size_t unanswered() const = 0;
  virtual const std::string& endpoint() const = 0;
};

}  // namespace millrace::client
