#include <nlohmann/json.hpp>

#include "bench/queue_load/loads.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/codec.hpp"

namespace millrace::bench {
namespace {

// A SUB socket that hears the rings of one stream.
net::Socket doorbell_of(net::Context& context, const Link& link, const std::string& stream) {
  const Welcome& welcome = link.welcome();
  if (welcome.doorbell.empty()) die("the broker has no doorbell");
  auto bell = must(net::Socket::open(context, net::Kind::sub));
  must(bell.connect(welcome.doorbell));
  must(bell.subscribe(welcome.doorbell_prefix + stream));
  return bell;
}

Fetch fetch_from(const std::string& stream, std::uint64_t number) {
  Fetch fetch;
  fetch.stream = stream;
  fetch.from = number;
  return fetch;
}

}  // namespace

std::string run(const Place& place, const FollowLoad& load) {
  net::Context context;
  Link link(context, place, client_hello());
  auto bell = doorbell_of(context, link, load.stream);
  net::Poller poller;
  poller.add(bell);
  const SystemClock clock;
  std::vector<double> latencies_ms;
  for (std::uint64_t from = 1; latencies_ms.size() < load.results;) {
    const auto data = link.ask<Data>(fetch_from(load.stream, from));
    const auto now_us = clock.wall_us();
    for (const auto& entry : data.entries) {
      const auto result = must(decode_result(entry.body));
      latencies_ms.push_back(1e-3 * static_cast<double>(now_us - result.ended_us));
      from = entry.number + 1;
    }
    if (!data.entries.empty()) continue;
    must(poller.wait(1'000));
    while (must(bell.receive())) {
    }
  }
  return nlohmann::json{{"load", "follow"},
                        {"results", latencies_ms.size()},
                        {"p50_ms", percentile(latencies_ms, 0.5)},
                        {"p99_ms", percentile(latencies_ms, 0.99)}}
      .dump();
}

std::string run(const Place& place, const ReplayLoad& load) {
  net::Context context;
  Link link(context, place, client_hello());
  std::uint64_t bytes = 0, results = 0, unanswered = 0;
  const double begin = seconds_now();
  const auto send = [&](Message message) {
    link.send(std::move(message));
    ++unanswered;
  };
  // As the client's StreamReader does: the next entries are on their way meanwhile.
  for (send(fetch_from(load.stream, 1)); unanswered > 0; --unanswered) {
    const Envelope answer = link.next();
    const auto* data = std::get_if<Data>(&answer.message);
    if (data == nullptr && !std::holds_alternative<Acknowledged>(answer.message)) {
      die("the broker answered with another kind of message");
    }
    if (data == nullptr || data->entries.empty()) continue;
    const std::uint64_t last = data->entries.back().number;
    send(fetch_from(load.stream, last + 1));
    if (!load.cursor.empty()) send(Acknowledge{load.stream, load.cursor, last});
    for (const auto& entry : data->entries) bytes += entry.body.size();
    results += data->entries.size();
  }
  const double seconds = seconds_now() - begin;
  return nlohmann::json{{"load", "replay"},
                        {"results", results},
                        {"bytes", bytes},
                        {"seconds", seconds},
                        {"megabytes_per_second", 1e-6 * static_cast<double>(bytes) / seconds},
                        {"per_second", static_cast<double>(results) / seconds}}
      .dump();
}

}  // namespace millrace::bench
