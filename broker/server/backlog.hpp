#pragma once
// Frames that could not be handed to ZeroMQ yet because the peer does not read: by routing id, in
// order. ZeroMQ limits the number of messages for a peer, and one message may have megabytes; this
// class limits bytes. Each peer is tried again after a pause of its own, which grows while it does
// not read, so that those who do not read slow down nobody who does.
// Thread safety: none.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/net/socket.hpp"

namespace millrace::broker {

class Backlog {
 public:
  bool holds(const std::string& route) const { return peers_.contains(route); }
  // Adds a frame. Returns the peers whose frames were all dropped for it: this one where it is at
  // its limit (limits::unread_bytes, unread_messages), and those for which most bytes wait until no
  // more than limits::unread_bytes_all wait in all.
  std::vector<std::string> add(const std::string& route, std::string frame, std::int64_t now_us);

  struct Sent {
    std::vector<std::string> gone;  // routing ids of peers that are gone
    std::vector<std::string> read;  // of peers for which no frame waits any more
  };
  // Hands over as many frames as there is room for now. Errors: the socket failed.
  Result<Sent> send(net::Socket& socket, std::int64_t now_us);
  // When to call send again; none where no frame waits.
  std::optional<std::int64_t> due_us() const;

 private:
  struct Waiting {
    std::deque<std::string> frames;
    std::uint64_t bytes = 0;
    std::int64_t due_us = 0, pause_us = 0;
  };
  using Peers = std::map<std::string, Waiting>;
  Peers::iterator drop(Peers::iterator peer);
  Peers::iterator longest();  // the peer for which most bytes wait
  Status send_to(net::Socket& socket, Peers::reference peer, std::int64_t now_us);

  Peers peers_;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace::broker
