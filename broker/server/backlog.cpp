#include "broker/server/backlog.hpp"

#include <utility>

#include "schemas/base/limits.hpp"

namespace millrace::broker {

bool Backlog::add(const std::string& route, std::string frame) {
  const auto peer = peers_.try_emplace(route).first;
  Waiting& waiting = peer->second;
  if (waiting.bytes + frame.size() > limits::unread_bytes ||
      bytes_ + frame.size() > limits::unread_bytes_all) {
    drop(peer);
    return false;
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

Result<Backlog::Sent> Backlog::send(net::Socket& socket) {
  Sent sent;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    auto& [route, waiting] = *peer;
    Status status;
    while (status && !waiting.frames.empty()) {
      status = socket.send({route, waiting.frames.front()});
      if (!status) break;
      sent.any = true;
      waiting.bytes -= waiting.frames.front().size();
      bytes_ -= waiting.frames.front().size();
      waiting.frames.pop_front();
    }
    if (!status && status.error().code == Code::overloaded) {
      ++peer;
      continue;
    }
    if (!status && status.error().code != Code::unreachable) return fail(status.error());
    if (!status) sent.gone.push_back(route);
    peer = drop(peer);
  }
  return sent;
}

}  // namespace millrace::broker
