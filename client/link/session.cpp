#include "client/link/session.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "schemas/base/net/endpoint_list.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t hello_id = 1;  // questions have higher ids

struct Question {
  std::string frame;
  std::int64_t sent_us = 0;  // 0: not sent on this connection yet
};

class BrokerSession final : public Session {
 public:
  BrokerSession(SessionOptions options, const Clock& clock, std::unique_ptr<BrokerSocket> socket)
      : options_(std::move(options)),
        endpoints_(options_.endpoint),
        clock_(clock),
        socket_(std::move(socket)),
        heard_us_(clock.monotonic_us()),
        greeting_ms_(options_.greeting_ms) {}

  Status greet();

  std::uint64_t ask(Message message) override {
    const std::uint64_t id = ++last_id_;
    questions_[id].frame = encode({.id = id, .message = std::move(message)});
    return id;
  }
  void forget(std::uint64_t id) override { questions_.erase(id); }
  Status subscribe(const std::string& stream) override {
    streams_.push_back(stream);
    return socket_->subscribe(stream);
  }
  Status unsubscribe(const std::string& stream) override {
    const auto found = std::ranges::find(streams_, stream);
    if (found == streams_.end()) return {};
    streams_.erase(found);
    return socket_->unsubscribe(stream);
  }
  void watch(const std::string& stream) override {
    std::uint64_t& question = watched_[stream];
    if (ready_) {
      ask_to_watch(stream, question);
    }
  }
  Status poll(std::uint32_t timeout_ms, std::vector<Envelope>& answers,
              std::vector<Bell>& bells) override;

  bool ready() const override { return ready_; }
  std::uint64_t away_ms() const override {
    return ready_ ? 0 : static_cast<std::uint64_t>(now() - heard_us_) / us_per_ms;
  }
  const Welcome& welcome() const override { return welcome_; }
  std::size_t unanswered() const override { return questions_.size(); }
  const std::string& endpoint() const override { return endpoints_.current(); }
  bool keyed() const override { return !options_.key.public_key.empty(); }

 private:
  std::int64_t now() const { return clock_.monotonic_us(); }
  Status lose(const std::string& reason);
  Status check_patience();
  Status send_questions();
  Status take(Envelope envelope, std::vector<Envelope>& answers);
  Status welcomed(Welcome welcome);
  void ask_to_watch(const std::string& stream, std::uint64_t& question);

  SessionOptions options_;
  net::EndpointList endpoints_;
  const Clock& clock_;
  std::unique_ptr<BrokerSocket> socket_;
  std::map<std::uint64_t, Question> questions_;
  std::vector<std::string> streams_;
  std::map<std::string, std::uint64_t> watched_;  // the last question about each stream; 0: none
  std::uint64_t last_id_ = hello_id;
  Welcome welcome_;
  bool ready_ = false;
  bool told_away_ = false;
  std::int64_t heard_us_;
  std::int64_t greeted_us_ = 0;
  std::uint32_t greeting_ms_;
  std::optional<Error> put_off_;  // the last hello was refused for want of room
  std::string farewell_;          // the broker has said goodbye, and it has not been told yet
};

// Opens a new connection and sends a hello. Both sides drop what was in flight on the last one.
Status BrokerSession::greet() {
  MILLRACE_TRY(socket_->connect(endpoints_.current()));
  Hello hello;
  hello.role = Role::client;
  hello.name = options_.name;
  hello.software = "millrace";
  hello.capabilities = {"not_found"};
  MILLRACE_TRY(socket_->send(encode({.id = hello_id, .message = std::move(hello)})));
  ready_ = false;
  greeted_us_ = now();
  for (auto& [id, question] : questions_) {
    question.sent_us = 0;
  }
  return {};
}

Status BrokerSession::lose(const std::string& reason) {
  if (!ready_) {
    greeting_ms_ = std::min(greeting_ms_ * 2, options_.greeting_max_ms);
  }
  endpoints_.next();
  MILLRACE_TRY(greet());
  told_away_ = true;
  if (options_.on_event) {
    options_.on_event({.kind = LinkEvent::Kind::away,
                       .reason = reason,
                       .retry_ms = greeting_ms_,
                       .away_ms = away_ms()});
  }
  return {};
}

Status BrokerSession::welcomed(Welcome welcome) {
  welcome_ = std::move(welcome);
  ready_ = true;
  greeting_ms_ = options_.greeting_ms;
  if (std::exchange(told_away_, false) && options_.on_event) {
    options_.on_event({.kind = LinkEvent::Kind::back,
                       .reason = {},
                       .retry_ms = 0,
                       .away_ms = static_cast<std::uint64_t>(now() - heard_us_) / us_per_ms});
  }
  if (!welcome_.doorbell.empty()) {
    MILLRACE_TRY(socket_->connect_doorbell(welcome_.doorbell, welcome_.doorbell_prefix, streams_));
  }
  for (auto& [stream, question] : watched_) {
    ask_to_watch(stream, question);
  }
  return send_questions();
}

// Asks only a broker that knows the question: another one would refuse it each time. Forgets the
// earlier question, because every connection would repeat it as long as it has no answer.
void BrokerSession::ask_to_watch(const std::string& stream, std::uint64_t& question) {
  forget(question);
  const auto& known = welcome_.capabilities;
  if (std::find(known.begin(), known.end(), "partials") != known.end()) {
    question = ask(Watch{.stream = stream});
  }
}

Status BrokerSession::send_questions() {
  for (auto& [id, question] : questions_) {
    if (question.sent_us != 0) {
      continue;
    }
    MILLRACE_ASSIGN(const bool sent, socket_->send(question.frame));
    if (!sent) {
      break;
    }
    question.sent_us = now();
  }
  return {};
}

Status BrokerSession::check_patience() {
  if (!ready_) {
    if (now() - greeted_us_ > greeting_ms_ * us_per_ms) {
      const auto refusal = std::exchange(put_off_, std::nullopt);
      return lose(refusal ? refusal->text() : "no answer from " + endpoints_.current());
    }
    return {};
  }
  for (const auto& [id, question] : questions_) {
    const std::int64_t since = std::max(question.sent_us, heard_us_);
    if (question.sent_us != 0 && now() - since > options_.answer_ms * us_per_ms) {
      return lose("the broker does not answer");
    }
  }
  return {};
}

Status BrokerSession::take(Envelope envelope, std::vector<Envelope>& answers) {
  if (auto* welcome = std::get_if<Welcome>(&envelope.message)) {
    if (!ready_) {
      MILLRACE_TRY(welcomed(std::move(*welcome)));
    }
    heard_us_ = now();
    return {};
  }
  heard_us_ = now();
  if (const auto* refused = std::get_if<Refused>(&envelope.message)) {
    const bool of_hello = !ready_ && envelope.id == hello_id;
    if (of_hello && refused->error.code != Code::overloaded &&
        refused->error.code != Code::draining) {
      return fail(refused->error);
    }
    if (of_hello) {
      put_off_ = refused->error;
      greeting_ms_ =
          std::min(refused->error.retry_ms.value_or(greeting_ms_), limits::retry_most_ms);
    }
    if (ready_ && refused->error.code == Code::unexpected_message) {
      return lose("the broker has restarted");
    }
  }
  if (const auto* goodbye = std::get_if<Goodbye>(&envelope.message)) {
    // The session ends, and not always because the broker does.
    farewell_ = "the broker said goodbye" + (goodbye->reason.empty() ? "" : ": " + goodbye->reason);
    return {};
  }
  if (questions_.erase(envelope.id) != 0 || std::holds_alternative<Partials>(envelope.message)) {
    answers.push_back(std::move(envelope));
  }
  return {};
}

Status BrokerSession::poll(std::uint32_t timeout_ms, std::vector<Envelope>& answers,
                           std::vector<Bell>& bells) {
  // The answers that came with a goodbye may be all that was asked for: they are handed over first.
  if (!farewell_.empty()) {
    MILLRACE_TRY(lose(std::exchange(farewell_, {})));
  }
  if (ready_) {
    MILLRACE_TRY(send_questions());
  }
  BrokerSocket::Happened happened;
  MILLRACE_TRY(socket_->wait(timeout_ms, happened));
  if (happened.refused) {
    return fail(*std::move(happened.refused));
  }
  for (const std::string& frame : happened.frames) {
    MILLRACE_ASSIGN(Envelope envelope, decode_envelope(frame));
    MILLRACE_TRY(take(std::move(envelope), answers));
  }
  for (std::string& stream : happened.bells) {
    bells.push_back({std::move(stream)});
  }
  if (!farewell_.empty() && answers.empty()) {
    return lose(std::exchange(farewell_, {}));
  }
  if (happened.lost && ready_ && farewell_.empty()) {
    return lose("the connection to " + endpoints_.current() + " broke");
  }
  return check_patience();
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(SessionOptions options, const Clock& clock) {
  MILLRACE_ASSIGN(auto socket, BrokerSocket::open(options.key));
  return open(std::move(options), clock, std::move(socket));
}

Result<std::unique_ptr<Session>> Session::open(SessionOptions options, const Clock& clock,
                                               std::unique_ptr<BrokerSocket> socket) {
  auto session = std::make_unique<BrokerSession>(std::move(options), clock, std::move(socket));
  MILLRACE_TRY(session->greet());
  return session;
}

}  // namespace millrace::client
