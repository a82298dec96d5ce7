#pragma once
// Frames that could not be handed to ZeroMQ yet because the peer does not read: by routing id, in
// order. ZeroMQ limits the number of messages for a peer, and one message may have megabytes; this
// class limits bytes.
// Thread safety: none.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "schemas/base/net/socket.hpp"

namespace millrace::broker {

class Backlog {
 public:
  bool empty() const { return peers_.empty(); }
  bool holds(const std::string& route) const { return peers_.contains(route); }
  std::uint64_t bytes(const std::string& route) const {
    const auto peer = peers_.find(route);
    return peer == peers_.end() ? 0 : peer->second.bytes;
  }
  // Adds a frame. False: the limit for this peer or for all (limits::unread_bytes,
  // limits::unread_bytes_all) is reached; all frames of this peer are dropped.
  bool add(const std::string& route, std::string frame);

  struct Sent {
    bool any = false;               // ZeroMQ took at least one frame
    std::vector<std::string> gone;  // routing ids of peers that are gone
  };
  // Hands over as many frames as there is room for now. Errors: the socket failed.
  Result<Sent> send(net::Socket& socket);

 private:
  struct Waiting {
    std::deque<std::string> frames;
    std::uint64_t bytes = 0;
  };
  using Peers = std::map<std::string, Waiting>;
  Peers::iterator drop(Peers::iterator peer);

  Peers peers_;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace::broker
