#pragma once
// A client's session with a broker: hello, questions and their answers, and doorbells. When the
// broker is away, the session reports it, greets it again after growing pauses, and then repeats
// every unanswered question. That is safe, because submits are idempotent by job id, and fetch,
// acknowledge, status and cancel may be repeated.
//
// Only poll() blocks, for at most the time it is given. Commands wait in an EventLoop
// (event_loop.hpp), which calls it.
// Errors: unreachable (bad endpoint), the broker's refusal of a hello or of the key (unauthorized),
// malformed_frame.
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
  std::string reason;          // why the broker is away
  std::uint32_t retry_ms = 0;  // of away: an attempt runs now, and the next one follows after this
  std::uint64_t away_ms = 0;   // since the broker last sent something
};

struct SessionOptions {
  // "tcp://127.0.0.1:5551", "ipc:///run/millrace/client"; of several brokers on one ledger all, see
  // net::EndpointList: when one is away, the session turns to the next.
  std::string endpoint;
  std::string name;                   // for people: host and process
  KeyPair key{};                      // for a broker with keys; empty: none
  std::uint32_t greeting_ms = 1'000;  // first wait for a Welcome; doubles up to the next
  std::uint32_t greeting_max_ms = 8'000;
  std::uint32_t answer_ms = 30'000;  // a question this old means that the broker is away
  std::function<void(const LinkEvent&)> on_event;  // may be empty
};

struct Bell {  // a stream that was subscribed to has a new entry
  std::string stream;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options, const Clock& clock);
  // The same with a socket from the caller.
  static Result<std::unique_ptr<Session>> open(SessionOptions options, const Clock& clock,
                                               std::unique_ptr<BrokerSocket> socket);
  virtual ~Session() = default;

  // Queues a question and returns its id, which the answer will carry.
  virtual std::uint64_t ask(Message message) = 0;
  // Drops a question. Its answer, if one comes late, is dropped as well.
  virtual void forget(std::uint64_t id) = 0;
  // From now on poll() reports the rings for this stream.
  virtual Status subscribe(const std::string& stream) = 0;
  // Takes one subscription back.
  virtual Status unsubscribe(const std::string& stream) = 0;
  // From now on poll() returns the partials of this stream's jobs among its answers, with id 0. The
  // session asks for them again after it lost the connection. Some may be missed.
  virtual void watch(const std::string& stream) = 0;

  // Waits at most timeout_ms and appends what arrived. An error ends the session.
  virtual Status poll(std::uint32_t timeout_ms, std::vector<Envelope>& answers,
                      std::vector<Bell>& bells) = 0;

  virtual bool ready() const = 0;              // the broker has answered the last hello
  virtual std::uint64_t away_ms() const = 0;   // 0 while ready
  virtual const Welcome& welcome() const = 0;  // the last one
  virtual std::size_t unanswered() const = 0;
  virtual const std::string& endpoint() const = 0;  // that is in use
  virtual bool keyed() const = 0;                   // it has a key
};

}  // namespace millrace::client
