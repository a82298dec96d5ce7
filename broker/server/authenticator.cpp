#include "broker/server/authenticator.hpp"

#include <pthread.h>
#include <zmq.h>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "broker/server/refusal_log.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/net/poller.hpp"

namespace millrace::broker {
namespace {

// The frames of a ZAP request and of its answer (ZeroMQ RFC 27).
enum Ask : std::size_t { version, request, domain, address, identity, mechanism, credentials };
constexpr std::size_t ask_frames = 7, key_bytes = 32;
constexpr const char* zap_version = "1.0";

// The client's public key as text; empty where the request is not one about a CURVE key.
std::string key_of(const net::Frames& ask) {
  if (ask.size() != ask_frames || ask[mechanism] != "CURVE" || ask[domain] != net::zap_domain ||
      ask[credentials].size() != key_bytes) {
    return {};
  }
  std::array<char, public_key_bytes + 1> text{};
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(ask[credentials].data());
  if (::zmq_z85_encode(text.data(), bytes, key_bytes) == nullptr) return {};
  return text.data();
}

}  // namespace

struct Authenticator::State {
  State(net::Socket socket, std::unique_ptr<net::Waker> waker, const Clock& time, Keyring keys,
        std::function<void()> tell)
      : handler(std::move(socket)),
        stop(std::move(waker)),
        clock(time),
        wake(std::move(tell)),
        keyring(std::move(keys)) {
    learn();
  }

  net::Socket handler;  // of the thread
  const std::unique_ptr<net::Waker> stop;
  const Clock& clock;
  const std::function<void()> wake;
  std::thread thread;

  mutable std::mutex mutex;  // guards the members below
  bool stopping = false;
  Keyring keyring;
  std::set<std::string> allowed;  // of its list
  bool changed = false;           // the list, since somebody took it
  std::string stranger;
  RefusalLog log;
  std::optional<Error> failure;

  void learn() {
    allowed.clear();
    for (const Grant& grant : keyring.grants()) allowed.insert(grant.key);
  }
  void refresh(bool anyway);
  bool admits(const std::string& key, const net::Frames& ask);
  Status answer(const net::Frames& ask);
  Status serve();
  void run();
};

// The caller has the lock.
void Authenticator::State::refresh(bool anyway) {
  const auto read = keyring.refresh(anyway);
  if (!read) {
    log_error("the list of keys has changed and cannot be used; the list before stays in force",
              read.error());
  } else if (*read) {
    learn();
    changed = true;
  }
}

bool Authenticator::State::admits(const std::string& key, const net::Frames& ask) {
  const std::lock_guard lock(mutex);
  if (!key.empty()) {
    if (!allowed.contains(key)) refresh(false);
    if (allowed.contains(key)) return true;
  }
  if (key.empty() || key != stranger) {
    const std::string from = ask.size() > address ? ask[address] : "unknown";
    log.refused("peer " + from, key.empty() ? "no key" : "the key " + key + " is not allowed",
                clock.monotonic_us());
  }
  return false;
}

Status Authenticator::State::answer(const net::Frames& ask) {
  const std::string key = key_of(ask);
  const bool yes = admits(key, ask);
  const std::string id = ask.size() > request ? ask[request] : "";
  return handler.send({zap_version, id, yes ? "200" : "400", yes ? "OK" : "this key is not allowed",
                       yes ? key : "", ""});
}

Status Authenticator::State::serve() {
  net::Poller poller;
  poller.add(handler);
  poller.add(*stop);
  while (true) {
    MILLRACE_TRY(poller.wait(-1));
    {
      const std::lock_guard lock(mutex);
      if (stopping) return {};
    }
    while (true) {
      MILLRACE_ASSIGN(auto ask, handler.receive());
      if (!ask) break;
      MILLRACE_TRY(answer(*ask));
    }
  }
}

void Authenticator::State::run() {
  pthread_setname_np(pthread_self(), "millrace-zap");
  const Status status = serve();
  if (status) return;
  {
    const std::lock_guard lock(mutex);
    failure = status.error();
    failure->message = "the thread that checks keys has ended: " + failure->message;
  }
  wake();
}

Authenticator::Authenticator(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Authenticator>> Authenticator::start(net::Context& context,
                                                            const Clock& clock, Keyring keyring,
                                                            std::function<void()> wake) {
  MILLRACE_ASSIGN(auto handler, net::Socket::open(context, net::Kind::rep, {.linger_ms = 0}));
  MILLRACE_TRY(handler.bind(net::zap_endpoint));
  MILLRACE_ASSIGN(auto stop, net::Waker::create());
  handler.hand_over();
  auto state = std::make_unique<State>(std::move(handler), std::move(stop), clock,
                                       std::move(keyring), std::move(wake));
  state->thread = std::thread([s = state.get()] { s->run(); });
  return std::unique_ptr<Authenticator>(new Authenticator(std::move(state)));
}

Authenticator::~Authenticator() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->stop->wake();
  state_->thread.join();
}

void Authenticator::refresh(bool anyway) {
  const std::lock_guard lock(state_->mutex);
  state_->refresh(anyway);
}

std::optional<std::vector<Grant>> Authenticator::take_change() {
  const std::lock_guard lock(state_->mutex);
  if (!std::exchange(state_->changed, false)) return std::nullopt;
  return state_->keyring.grants();
}

void Authenticator::expect_stranger(const std::string& public_key) {
  const std::lock_guard lock(state_->mutex);
  state_->stranger = public_key;
}

std::optional<Error> Authenticator::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

std::uint64_t Authenticator::refused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->log.count();
}

}  // namespace millrace::broker
