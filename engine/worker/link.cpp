#include "engine/worker/link.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::worker {
namespace {

constexpr std::int64_t longest_wait_ms = 1'000;
constexpr std::int64_t last_frames_us = 1'000'000;  // time for sending the goodbye
constexpr int frames_at_once = 256;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(net::Context& context, const std::string& broker,
                                         const net::CurveKeys& keys, SessionOptions options,
                                         Executor& executor, const Clock& clock) {
  MILLRACE_ASSIGN(auto waker, net::Waker::create());
  const std::string name = options.name;
  std::unique_ptr<Link> link(
      new Link(context, broker, keys, std::move(waker), std::move(options), executor, clock));
  // Each one is tried, so that a mistake in one shows at once and not when it is needed.
  for (std::size_t i = 0; i < link->brokers_.all().size(); ++i) {
    link->brokers_.next();
    MILLRACE_TRY(link->connect());
  }
  log_info("connecting to the broker", {{"broker", link->brokers_.current()}, {"name", name}});
  return link;
}

Link::Link(net::Context& context, const std::string& brokers, net::CurveKeys keys,
           std::unique_ptr<net::Waker> waker, SessionOptions options, Executor& executor,
           const Clock& clock)
    : executor_(executor),
      clock_(clock),
      context_(context),
      brokers_(brokers),
      keys_(std::move(keys)),
      waker_(std::move(waker)),
      session_(std::move(options), executor, clock) {
  executor.on_change([w = waker_.get()] { w->wake(); });
}

Link::~Link() {
  executor_.on_change({});  // the executor may still be in a step, and the waker ends here
}

// What was queued on the last connection is dropped with it.
Status Link::connect() {
  poller_.reset();
  connection_.reset();
  MILLRACE_TRY(net::prepare_endpoint(brokers_.current()));
  MILLRACE_ASSIGN(net::Socket socket,
                  net::Socket::open(context_, net::Kind::dealer, {.curve = keys_}));
  MILLRACE_ASSIGN(net::Monitor monitor,
                  net::Monitor::watch(context_, socket, net::Monitor::Events::failed_handshakes));
  MILLRACE_TRY(socket.connect(brokers_.current()));
  connection_.emplace(std::move(socket), std::move(monitor));
  return {};
}

void Link::watch() {
  poller_.emplace();
  socket_place_ = poller_->add(connection_->socket);
  poller_->add(connection_->monitor.events());
  waker_place_ = poller_->add(*waker_);
}

void Link::stop() noexcept {
  ++stops_;
  waker_->wake();
}

Result<bool> Link::flush() {
  while (const std::string* frame = session_.next_frame()) {
    if (const Status sent = connection_->socket.send_frame(*frame); !sent) {
      if (sent.error().code == Code::overloaded || sent.error().code == Code::unreachable)
        return true;
      return fail(sent.error());
    }
    session_.frame_sent();
  }
  return false;
}

Status Link::receive() {
  for (int i = 0; i < frames_at_once; ++i) {
    auto message = connection_->socket.receive();
    if (!message) {
      if (message.error().code != Code::too_large) return fail(message.error());
      log_warn("a message from the broker was dropped", message.error());
      continue;
    }
    if (!*message) return {};
    if (!(*message)->empty()) session_.received((*message)->back());
  }
  return {};
}

// ZeroMQ does not connect again after such a refusal, so that the engine would wait for ever.
Status Link::check_refusal() {
  while (true) {
    MILLRACE_ASSIGN(const auto event, connection_->monitor.next());
    if (!event) return {};
    if (auto refusal = net::key_refusal(*event)) return fail(*std::move(refusal));
  }
}

Status Link::run() {
  int stops_seen = 0;
  std::int64_t give_up_us = 0;
  for (;;) {
    for (; stops_seen < stops_.load(); ++stops_seen) session_.drain("a signal asks for it");
    session_.pump();
    if (session_.take_move() && !brokers_.alone()) {
      brokers_.next();
      log_info("turning to the next broker", {{"broker", brokers_.current()}});
      MILLRACE_TRY(connect());
    }
    if (!poller_) watch();
    MILLRACE_ASSIGN(const bool blocked, flush());
    if (session_.finished()) break;
    const std::int64_t now = clock_.monotonic_us();
    if (session_.state() == Session::State::finished) {
      if (give_up_us == 0) give_up_us = now + last_frames_us;
      if (now >= give_up_us) break;
    }
    poller_->watch_writable(socket_place_, blocked);
    const std::int64_t due_ms = (session_.due_us() - now + 999) / 1'000;
    MILLRACE_TRY(poller_->wait(std::clamp<std::int64_t>(due_ms, 0, longest_wait_ms)));
    MILLRACE_TRY(check_refusal());
    if (poller_->readable(waker_place_)) waker_->drain();
    if (poller_->readable(socket_place_)) MILLRACE_TRY(receive());
  }
  return session_.outcome();
}

}  // namespace millrace::worker
