#pragma once
// What could not be handed to ZeroMQ yet, because the peer does not read: frames by routing id, in
// order. ZeroMQ counts messages a peer, and one may have megabytes; this counts bytes.
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
  // False: more would wait for this peer, or for all, than may (limits::unread_bytes,
  // limits::unread_bytes_all). What waited for it is dropped.
  bool add(const std::string& route, std::string frame);

  struct Sent {
    bool any = false;               // something moved
    std::vector<std::string> gone;  // routes that are no more
  };
  // Hands over what there is room for now. Errors: the socket failed.
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
