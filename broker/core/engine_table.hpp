#pragma once
// The engines known to this broker and the leases they hold, as far as this broker handed them out,
// recovered them at its start or renewed them. A window on the ledger, never the truth: each change
// of a lease is decided by an operation that names lease and engine. Thread safety: none.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/core/events.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

struct HeldLease {
  std::string job, custom_id, stream;  // empty: handed out by another broker
  std::uint32_t attempt = 0;
  bool alone = false;        // nothing else may run on that engine
  bool cancelled = false;    // the engine has been told
  std::int64_t seen_us = 0;  // handed out, or last listed by a heartbeat
  bool listed = false;       // by the last heartbeat
};

struct Engine {
  std::string id;  // of the process: Hello.instance
  std::string name;
  EngineProfile profile;              // as it said hello
  std::vector<std::string> kv_names;  // profile.kv_policies by their canonical names
  std::optional<Peer> peer;  // none: of before this broker's start, or between two connections
  bool joined = false;       // has said Hello to this broker
  std::uint32_t credit = 0;
  std::map<LeaseId, HeldLease> leases;
  std::int64_t heard_us = 0;
  std::int64_t beat_us = 0;      // its last heartbeat
  std::int64_t progress_us = 0;  // its steps last moved, or it last had nothing to do
  std::uint64_t steps = 0, tokens = 0;
  std::int64_t tokens_us = 0;  // when `tokens` was told
  double tokens_per_second = 0;
  std::uint32_t rows = 0;           // in its step under way, at its last heartbeat
  bool claiming = false;            // a claim for it is on the way
  bool found_no_work = false;       // its last claim found nothing; waits for new work
  bool hung = false;                // takes nothing until its steps move
  bool reserved = false;            // finishes what it has, then takes a suspect
  std::uint64_t suspects_seen = 0;  // generation of suspects it found nothing in

  bool runs(const std::string& canonical) const {
    return std::ranges::find(kv_names, canonical) != kv_names.end();
  }
  // Whether a job of this model ("*": any) and canonical policy (empty: any) may go to it.
  bool serves(const std::string& wanted_model, const std::string& wanted_kv) const {
    return (wanted_model == "*" || wanted_model == profile.facts.model) &&
           (wanted_kv.empty() || runs(wanted_kv));
  }
  bool exclusive() const {
    return std::any_of(leases.begin(), leases.end(),
                       [](const auto& item) { return item.second.alone; });
  }
};

// As `status` tells of it.
EngineInfo info_of(const Engine& engine);

class EngineTable {
 public:
  bool drain = false;  // engines are told to finish or release what they hold, and leave

  Engine& add(const std::string& id);  // or the one known
  void remove(const std::string& id);
  Engine* find(const std::string& id);
  Engine* at(const Peer& peer);
  void connect(Engine& engine, const Peer& peer);
  void disconnect(const Peer& peer);

  void hold(Engine& engine, LeaseId lease, HeldLease held);
  // Its holder as known here, null where there is none.
  Engine* holder(LeaseId lease);
  std::optional<HeldLease> drop(LeaseId lease);

  std::map<std::string, Engine>& all() { return engines_; }
  const std::map<std::string, Engine>& all() const { return engines_; }

 private:
  std::map<std::string, Engine> engines_;
  std::map<Peer, std::string> peers_;
  std::unordered_map<LeaseId, std::string> holders_;
};

}  // namespace millrace::broker
