#include "broker/server/backlog.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t least_pause_us = 1'000, most_pause_us = 100'000;

}  // namespace

bool Backlog::add(const std::string& route, std::string frame, std::int64_t now_us) {
  const auto peer = peers_.try_emplace(route).first;
  Waiting& waiting = peer->second;
  const bool first = waiting.frames.empty();
  const bool too_much = waiting.bytes + frame.size() > limits::unread_bytes ||
                        waiting.frames.size() >= limits::unread_messages;
  if ((!first && too_much) || bytes_ + frame.size() > limits::unread_bytes_all) {
    drop(peer);
    return false;
  }
  if (first) {
    waiting.pause_us = least_pause_us;
    waiting.due_us = now_us + waiting.pause_us;
  }
  waiting.bytes += frame.size();
  bytes_ += frame.size();
  waiting.frames.push_back(std::move(frame));
  return true;
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
