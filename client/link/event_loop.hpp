#pragma once
// The one place where a client waits: for answers, for doorbells, for the next attempt to reach the
// broker, for a timeout and for a signal. A command writes what it wants from the broker as
// handlers, and run() calls them until the work is done.
//
//   Submitter submitter(session, clock, jobs);
//   StreamReader reader(session, clock, stream, results);
//   MILLRACE_TRY(loop.run({&submitter, &reader}, [&] { return submitter.done() && all_read(); }));
//
//   state        meaning                              what ends it
//   connecting   the broker has not answered yet      Welcome -> connected
//                                                     the timeout -> `unreachable`
//   connected    the broker has answered the Hello    silence, Goodbye, a lost connection -> away
//   away         the broker has stopped answering     Welcome -> connected
//                                                     the timeout, where absence is a failure ->
//                                                     `unreachable`
//
//   event                       what happens
//   between two waits           each handler's tick() asks the questions that are due
//   a signal was caught         run() returns `interrupted` and asks nothing more
//   an answer came              the handler that asked takes it; if none did, it is dropped
//   a doorbell rang             rang() of each handler is called
//   a doorbell was lost         readers ask by themselves after a while
//   the connection was lost     the session greets the broker again and repeats open questions
//   a handler has more to do    the next wait is empty: the loop only polls the socket
//
// Errors: interrupted, unreachable, timed_out (of request), and those of the session and handlers.
// Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/link/session.hpp"

namespace millrace::client {

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  // Called before each wait. Asks what is due and returns at once.
  virtual Status tick() { return {}; }
  // True if tick() has more to do as soon as the socket has been polled.
  virtual bool busy() const { return false; }
  virtual void rang(const std::string& /*stream*/) {}
  // Takes the answer if this handler asked for it. False: another handler asked.
  virtual Result<bool> take(Envelope& /*answer*/) { return false; }
};

enum class Absence : std::uint8_t {
  endured,     // once a broker has answered, the loop waits for it however long it is away
  is_failure,  // an absence longer than the timeout ends the loop at any time
};

struct EventLoopOptions {
  std::uint32_t timeout_ms = 0;  // for the first Welcome, and for request(); 0: no limit
  Absence absence = Absence::endured;
  std::uint32_t tick_ms = 50;         // the longest wait between two ticks
  std::function<bool()> interrupted;  // a signal was caught; may be empty
};

class EventLoop {
 public:
  EventLoop(Session& session, const Clock& clock, EventLoopOptions options)
      : session_(session), clock_(clock), options_(std::move(options)) {}

  using Handlers = std::initializer_list<EventHandler*>;

  // Runs until `done` returns true, or until the first error. Offers each answer to the handlers in
  // their order.
  Status run(Handlers handlers, const std::function<bool()>& done);
  // Asks one question and waits for its answer. Errors: unreachable or timed_out after the timeout,
  // and the broker's refusal.
  Result<Message> request(Message message);
  // The same for one kind of answer; another kind is an error.
  template <class Answer>
  Result<Answer> request_as(Message message) {
    MILLRACE_ASSIGN(Message answer, request(std::move(message)));
    if (auto* wanted = std::get_if<Answer>(&answer)) {
      return std::move(*wanted);
    }
    return fail(Code::unexpected_message, "the broker answered with another kind of message",
                "report it: client and broker disagree on the protocol");
  }

 private:
  Status check_absence();
  Status dispatch(Handlers handlers);

  Session& session_;
  const Clock& clock_;
  EventLoopOptions options_;
  std::vector<Envelope> answers_;  // of the last wait
  std::vector<Bell> bells_;
  bool ever_connected_ = false;
};

}  // namespace millrace::client
