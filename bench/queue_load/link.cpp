#include "bench/queue_load/link.hpp"

#include <algorithm>

#include "schemas/base/clock.hpp"
#include "schemas/codec.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace::bench {
namespace {

constexpr std::int64_t silence_ms = 60'000;

net::Socket opened(net::Context& context, const Place& place) {
  net::SocketOptions options;
  if (!place.key.empty()) {
    const KeyPair key = must(read_client_key(place.key));
    options.curve = {key.public_key, key.secret_key, key.broker_key};
  }
  auto socket = must(net::Socket::open(context, net::Kind::dealer, options));
  must(socket.connect(place.endpoint));
  return socket;
}

}  // namespace

Hello client_hello() {
  Hello hello;
  hello.name = "queue_load";
  return hello;
}

double seconds_now() {
  static const SystemClock clock;
  return static_cast<double>(clock.monotonic_us()) * 1e-6;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto index = static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

Link::Link(net::Context& context, const Place& place, const Hello& hello)
    : socket_(opened(context, place)) {
  poller_->add(socket_);
  poller_->watch_writable(0, true);
  if (!must(poller_->wait(silence_ms))) die("no broker answers at " + place.endpoint);
  poller_->watch_writable(0, false);
  welcome_ = ask<Welcome>(hello);
}

std::uint64_t Link::send(Message message) {
  must(socket_.send_frame(encode({next_id_, std::move(message)})));
  return next_id_++;
}

std::optional<Envelope> Link::receive() {
  auto received = must(socket_.receive());
  if (!received) return std::nullopt;
  auto envelope = must(decode_envelope(received->back()));
  if (const auto* refused = std::get_if<Refused>(&envelope.message)) die(refused->error);
  return envelope;
}

Envelope Link::next() {
  while (true) {
    if (auto some = receive()) return *std::move(some);
    if (!must(poller_->wait(silence_ms))) die("the broker does not answer");
  }
}

void Link::wait(std::int64_t timeout_ms) {
  must(poller_->wait(timeout_ms));
}

}  // namespace millrace::bench
