#pragma once
// The sessions of both doors: who said Hello as what, when it was last heard, and how many of its
// requests are not yet answered. Bounded; silent ones end, sooner where others want their place.
// Thread safety: none.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

struct Session {
  std::string name, software;
  std::uint32_t version = protocol_version;
  std::int64_t heard_us = 0;
  std::uint32_t requests = 0;     // accepted and not answered
  std::set<std::string> watched;  // streams of whose jobs it gets the partials
};

class Sessions {
 public:
  Sessions(Outbox& out, const CoreConfig& config) : out_(out), config_(config) {}

  // Checks role and version, opens the session and sends Welcome. Errors: unexpected_message,
  // unsupported_version, overloaded.
  Status open(const Peer& peer, const Hello& hello);
  Welcome welcome() const;
  // The session of a message, its silence ended; null where none is open.
  Session* heard(const Peer& peer);
  void close(const Peer& peer) { sessions_.erase(peer); }
  void tick();  // ends sessions that were silent for too long
  std::size_t size() const { return sessions_.size(); }
  const std::map<Peer, Session>& all() const { return sessions_; }

  // A request that needs the ledger: `begin` counts it or refuses (overloaded), `end` answers it.
  bool begin(const Peer& peer, std::uint64_t id);
  void end(const Peer& peer);

 private:
  bool make_room();

  Outbox& out_;
  const CoreConfig& config_;
  std::map<Peer, Session> sessions_;
};

}  // namespace millrace::broker
