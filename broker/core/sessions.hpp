#pragma once
// The sessions of clients and engines: name and role from the hello, when each was last heard, and
// how many of its requests are not yet answered. Their number is limited. A session that is silent
// for too long ends, and ends sooner when a newcomer needs its place. Thread safety: none.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

struct Session {
  std::string name, software;
  std::string key;     // of its connection; empty: there are no keys
  std::string tenant;  // of the key
  std::uint32_t version = protocol_version;
  // It has the capability `not_found`. Earlier clients take a stream without results for an empty
  // one.
  bool takes_not_found = false;
  std::int64_t heard_us = 0;
  std::uint32_t requests = 0;     // accepted and not answered
  std::set<std::string> watched;  // it gets the partials of these streams' jobs
};

struct Asker {  // who waits for the answer to a request
  Peer peer;
  std::uint64_t id = 0;  // of the request
  std::string tenant;
  std::uint64_t audit = 0;  // of Outbox::begin_audit
  bool operates = false;    // its key may operate the broker
};

class Sessions {
 public:
  Sessions(Outbox& out, const CoreConfig& config) : out_(out), config_(config) {}

  // Checks the version, and opens the session of a peer at its endpoint. Errors:
  // unsupported_version, overloaded.
  Status open(const Peer& peer, const Hello& hello, const Grant& who);
  Welcome welcome(Endpoint endpoint, const Grant& who) const;
  // Records that the peer was heard and returns its session; null where none is open. A session
  // belongs to the key that opened it: another key on the same route has none.
  Session* heard(const Peer& peer, const std::string& key);
  Session* find(const Peer& peer);
  void close(const Peer& peer) { sessions_.erase(peer); }
  void tick();  // ends sessions that were silent for too long
  std::size_t size() const { return sessions_.size(); }
  std::size_t engines() const;  // sessions of engines, of all
  const std::map<Peer, Session>& all() const { return sessions_; }

  // Counts the requests that wait for the ledger: `begin` adds one, or refuses it (overloaded) and
  // returns false; `end` removes it.
  bool begin(const Peer& peer, std::uint64_t id);
  void end(const Peer& peer);

 private:
  std::size_t of_tenant(const std::string& tenant) const;
  bool make_room(const std::string* tenant);

  Outbox& out_;
  const CoreConfig& config_;
  std::map<Peer, Session> sessions_;
};

}  // namespace millrace::broker
