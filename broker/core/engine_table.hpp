#pragma once
// The engines that this broker knows, and their leases as far as this broker handed them out,
// recovered them at its start or renewed them. The table is a partial copy of the ledger, which
// decides each change of a lease by an operation that names the lease and the engine.
// Thread safety: none.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/core/engine_speed.hpp"
#include "broker/core/events.hpp"
#include "broker/core/prefix_index.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

struct HeldLease {
  std::string tenant, job, custom_id, stream;  // empty: handed out by another broker
  std::uint32_t attempt = 0;
  std::uint64_t prefix = 0;       // as in SubmitJob
  bool suspect = false;           // the job was handed out as a suspect
  bool alone = false;             // the engine may run nothing else meanwhile
  bool waiting = false;           // the engine said that it has not begun the job
  bool cancelled = false;         // the engine was told that the job is cancelled
  std::int64_t seen_us = 0;       // time of the hand-out, or of the last heartbeat that listed it
  bool listed = false;            // the last heartbeat listed it
  std::uint64_t cost_tokens = 0;  // 0: not known, as it was handed out by another broker
  bool partial_told = false;      // those that trace the job know of its first text
};

struct Engine {
  std::string id;  // of the engine process, see engine_id
  // Unique in this broker process: an engine that is forgotten and comes back is another entry.
  std::uint64_t entry = 0;
  std::string name;
  std::string tenant;                 // whose jobs it may run; every_tenant: all
  EngineProfile profile;              // from its hello
  std::vector<std::string> kv_names;  // profile.kv_policies by their canonical names
  std::optional<Peer> peer;  // none: not yet connected to this broker, or lost its connection
  bool joined = false;       // it has said hello to this broker
  std::uint32_t credit = 0;
  std::map<LeaseId, HeldLease> leases;
  std::uint64_t held_tokens = 0;  // of their costs
  EngineSpeed speed;
  // Beginnings of prompts that it holds: those of its last heartbeat, of its leases, and of the
  // jobs that it was handed since. Change them through the table.
  std::set<std::uint64_t> prefixes;
  std::int64_t heard_us = 0;
  std::int64_t beat_us = 0;      // time of its last heartbeat
  std::int64_t progress_us = 0;  // when its counts last grew, or when it last held no lease
  std::uint64_t steps = 0, tokens = 0;
  std::int64_t tokens_us = 0;  // time of the heartbeat that gave `tokens`
  double tokens_per_second = 0, prompt_tokens_per_second = 0, completion_tokens_per_second = 0;
  EngineLoad load;               // of its last heartbeat
  std::uint32_t rows = 0;        // of the step that ran at its last heartbeat
  bool claiming = false;         // a claim for it waits for the ledger's reply
  std::uint32_t asked_jobs = 0;  // that this claim may bring
  bool hung = false;             // it gets no job until it makes a step
  bool reserved = false;         // it finishes its jobs and then takes a suspect alone
  // Its last heartbeat lists leases that this broker does not know: another one may have handed
  // them out.
  bool lists_unknown = false;
  // What its claims found empty, by tenant: see Dispatcher.
  struct Searched {
    std::uint64_t work = 0, suspects = 0, groups = 0;
    std::uint64_t& of(ClaimFrom from) {
      return from == ClaimFrom::jobs ? work : from == ClaimFrom::suspects ? suspects : groups;
    }
  };
  std::map<std::string, Searched> searched;
  std::string claimed_last;  // the tenant of its last claim

  // How the log names it, always: with its id, which is unique and all that the ledger knows, and
  // the name that it gave in its hello.
  std::string label() const { return name.empty() || name == id ? id : id + " (" + name + ")"; }
  bool works_for(const std::string& wanted) const {
    return tenant == every_tenant || tenant == wanted;
  }

  bool runs(const std::string& canonical) const {
    return std::ranges::find(kv_names, canonical) != kv_names.end();
  }
  // Whether a job of this model ("*": any) and canonical policy (empty: any) may go to it.
  bool serves(const std::string& wanted_model, const std::string& wanted_kv) const {
    return (wanted_model == "*" || wanted_model == profile.facts.model) &&
           (wanted_kv.empty() || runs(wanted_kv));
  }
  // Whether it holds leases of which this broker has not read yet what they are.
  bool brings_unread() const {
    return lists_unknown ||
           std::ranges::any_of(leases, [](const auto& item) { return item.second.job.empty(); });
  }
  bool exclusive() const {
    return std::ranges::any_of(leases, [](const auto& item) { return item.second.alone; });
  }
  bool holds_suspects() const {
    return std::ranges::any_of(leases, [](const auto& item) { return item.second.suspect; });
  }
};

// The id of an engine process: its instance, and before it the name of its key, so that no other
// key can pass for it.
std::string engine_id(const Grant& who, const Hello& hello);
// The engine as a status answer describes it.
EngineInfo info_of(const Engine& engine, std::int64_t now_us);

class EngineTable {
 public:
  bool drain = false;  // engines are to finish or release their jobs, and leave

  Engine& add(const std::string& id);  // returns the known engine where there is one
  void remove(const std::string& id);
  Engine* find(const std::string& id);
  Engine* at(const Peer& peer);
  void connect(Engine& engine, const Peer& peer);
  void disconnect(const Peer& peer);

  void hold(Engine& engine, LeaseId lease, HeldLease held);
  // The engine that holds the lease according to this table; null where none does.
  Engine* holder(LeaseId lease);
  std::optional<HeldLease> drop(LeaseId lease);

  // The engine holds the beginnings of its heartbeat and of its leases, and no others.
  void set_prefixes(Engine& engine, const std::vector<std::uint64_t>& announced);
  void forget_prefixes(Engine& engine);
  // Those that the engine holds, and those that any engine of its model holds.
  HeldPrefixes held_prefixes(const Engine& engine);

  // Of the leases that engines hold, the tokens by model. An engine that has said no hello to this
  // broker has none.
  std::map<std::string, std::uint64_t> leased_tokens() const;

  std::map<std::string, Engine>& all() { return engines_; }
  const std::map<std::string, Engine>& all() const { return engines_; }

 private:
  void add_prefix(Engine& engine, std::uint64_t prefix);

  std::map<std::string, Engine> engines_;
  std::map<std::string, PrefixIndex> prefixes_;  // by model
  std::uint64_t entries_ = 0;                    // that were ever made
  std::map<Peer, std::string> peers_;
  std::unordered_map<LeaseId, std::string> holders_;
};

}  // namespace millrace::broker
