#include "client/link/event_loop.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "client/link/listener_probe.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::client {
namespace {

// The question of request(), which waits for its answer.
class PendingAnswer final : public EventHandler {
 public:
  explicit PendingAnswer(std::uint64_t id) : id_(id) {}
  Result<bool> take(Envelope& answer) override {
    if (answer.id != id_) {
      return false;
    }
    answer_ = std::move(answer.message);
    return true;
  }
  std::uint64_t id() const { return id_; }
  std::optional<Message>& answer() { return answer_; }

 private:
  std::uint64_t id_;
  std::optional<Message> answer_;
};

std::unexpected<Error> unreachable(const Session& session) {
  std::string more;  // that is worth a look
  if (session.keyed()) more += ", or the key file's `broker` line is not this broker's key";
  if (session.endpoint() == net::local_endpoint(net::clients_socket)) {
    more +=
        "; by default both meet in $XDG_RUNTIME_DIR/millrace, or in /tmp/millrace-UID where that "
        "is not set";
  }
  const std::string tried =
      " (tried for " + std::to_string((session.away_ms() + 500) / 1'000) + " s)";
  const Listener listener = probe_listener(session.endpoint());
  if (listener == Listener::none) {
    return fail(Code::unreachable, "nobody listens at " + session.endpoint() + tried,
                "start the broker, or name its client endpoint with --broker" + more);
  }
  if (listener == Listener::there) {
    const std::string key = session.keyed() ? "" : "it may want a key (--key FILE); ";
    return fail(Code::unreachable,
                "a program listens at " + session.endpoint() +
                    ", but it does not answer as a broker does" + tried,
                key + "the broker may be stopped or overloaded, or it is another program" + more);
  }
  return fail(Code::unreachable, "the broker at " + session.endpoint() + " does not answer" + tried,
              "check that it runs and that --broker names its client endpoint" + more);
}

}  // namespace

Status EventLoop::run(Handlers handlers, const std::function<bool()>& done) {
  while (!done()) {
    if (options_.interrupted && options_.interrupted()) {
      return fail(Code::interrupted, "stopped by a signal");
    }
    MILLRACE_TRY(check_absence());
    for (EventHandler* handler : handlers) {
      MILLRACE_TRY(handler->tick());
    }
    const bool busy = std::ranges::any_of(handlers, &EventHandler::busy);
    MILLRACE_TRY(session_.poll(busy ? 0 : options_.tick_ms, answers_, bells_));
    MILLRACE_TRY(dispatch(handlers));
  }
  return {};
}

Status EventLoop::check_absence() {
  ever_connected_ = ever_connected_ || session_.ready();
  const bool endured = ever_connected_ && options_.absence == Absence::endured;
  if (endured || options_.timeout_ms == 0 || session_.away_ms() <= options_.timeout_ms) {
    return {};
  }
  return unreachable(session_);
}

Status EventLoop::dispatch(Handlers handlers) {
  for (const Bell& bell : std::exchange(bells_, {})) {
    for (EventHandler* handler : handlers) {
      handler->rang(bell.stream);
    }
  }
  for (Envelope& answer : std::exchange(answers_, {})) {
    for (EventHandler* handler : handlers) {
      MILLRACE_ASSIGN(const bool taken, handler->take(answer));
      if (taken) {
        break;
      }
    }
  }
  return {};
}

Result<Message> EventLoop::request(Message message) {
  PendingAnswer question(session_.ask(std::move(message)));
  const std::int64_t end_us = clock_.monotonic_us() + options_.timeout_ms * us_per_ms;
  const auto late = [&] { return options_.timeout_ms != 0 && clock_.monotonic_us() >= end_us; };
  const Status waited = run({&question}, [&] { return question.answer() || late(); });
  if (!question.answer()) {
    session_.forget(question.id());
    MILLRACE_TRY(waited);
    return session_.ready() ? fail(Code::timed_out,
                                   "no answer from the broker within " +
                                       std::to_string(options_.timeout_ms) + " ms",
                                   "its log says what it does; --timeout gives it longer")
                            : unreachable(session_);
  }
  if (auto* refused = std::get_if<Refused>(&*question.answer())) {
    return fail(std::move(refused->error));
  }
  return *std::move(question.answer());
}

}  // namespace millrace::client
