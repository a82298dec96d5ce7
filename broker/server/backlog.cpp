#include "broker/server/backlog.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t least_pause_us = 1'000, most_pause_us = 100'000;

}  // namespace

std::vector<std::string> Backlog::add(const std::string& route, std::string frame,
                                      std::int64_t now_us) {
  const auto peer = peers_.try_emplace(route).first;
  Waiting& waiting = peer->second;
  const bool first = waiting.frames.empty();
  if (!first && (waiting.bytes + frame.size() > limits::unread_bytes ||
                 waiting.frames.size() >= limits::unread_messages)) {
    drop(peer);
    return {route};
  }
  if (first) {
    waiting.pause_us = least_pause_us;
    waiting.due_us = now_us + waiting.pause_us;
  }
  waiting.bytes += frame.size();
  bytes_ += frame.size();
  waiting.frames.push_back(std::move(frame));
  std::vector<std::string> dropped;
  while (bytes_ > limits::unread_bytes_all) {
    const auto most = longest();
    dropped.push_back(most->first);
    drop(most);
  }
  return dropped;
}

Backlog::Peers::iterator Backlog::longest() {
  return std::max_element(peers_.begin(), peers_.end(), [](const auto& a, const auto& b) {
    return a.second.bytes < b.second.bytes;
  });
}

Backlog::Peers::iterator Backlog::drop(Peers::iterator peer) {
  bytes_ -= peer->second.bytes;
  return peers_.erase(peer);
}

// Errors: overloaded (some frames still wait), unreachable, or the socket's failure.
Status Backlog::send_to(net::Socket& socket, Peers::reference peer, std::int64_t now_us) {
  auto& [route, waiting] = peer;
  bool any = false;
  Status status;
  while (status && !waiting.frames.empty()) {
    status = socket.send({route, waiting.frames.front()});
    if (!status) break;
    any = true;
    waiting.bytes -= waiting.frames.front().size();
    bytes_ -= waiting.frames.front().size();
    waiting.frames.pop_front();
  }
  waiting.pause_us = any ? least_pause_us : std::min(2 * waiting.pause_us, most_pause_us);
  waiting.due_us = now_us + waiting.pause_us;
  return status;
}

Result<Backlog::Sent> Backlog::send(net::Socket& socket, std::int64_t now_us) {
  Sent sent;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (peer->second.due_us > now_us) {
      ++peer;
      continue;
    }
    const Status status = send_to(socket, *peer, now_us);
    if (!status && status.error().code == Code::overloaded) {
      ++peer;
      continue;
    }
    if (!status && status.error().code != Code::unreachable) return fail(status.error());
    (status ? sent.read : sent.gone).push_back(peer->first);
    peer = drop(peer);
  }
  return sent;
}

std::optional<std::int64_t> Backlog::due_us() const {
  std::optional<std::int64_t> due;
  for (const auto& [route, waiting] : peers_) {
    if (!due || waiting.due_us < *due) due = waiting.due_us;
  }
  return due;
}

}  // namespace millrace::broker
