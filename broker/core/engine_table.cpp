#include "broker/core/engine_table.hpp"

#include <algorithm>
#include <utility>

namespace millrace::broker {

std::string engine_id(const Grant& who, const Hello& hello) {
  return who.key.empty() ? hello.instance : who.name + "/" + hello.instance;
}

EngineInfo info_of(const Engine& engine, std::int64_t now_us) {
  const auto silent_ms =
      static_cast<std::uint64_t>(std::max<std::int64_t>((now_us - engine.heard_us) / 1000, 0));
  return {.name = engine.name,
          .engine = engine.profile,
          .leases = static_cast<std::uint32_t>(engine.leases.size()),
          .rows = engine.rows,
          .tokens_per_second = engine.tokens_per_second,
          .silent_ms = silent_ms,
          .load = engine.load,
          .prompt_tokens_per_second = engine.prompt_tokens_per_second,
          .completion_tokens_per_second = engine.completion_tokens_per_second};
}

Engine& EngineTable::add(const std::string& id) {
  const auto [at, is_new] = engines_.try_emplace(id);
  if (is_new) {
    at->second.id = id;
    at->second.entry = ++entries_;
  }
  return at->second;
}

void EngineTable::remove(const std::string& id) {
  const auto found = engines_.find(id);
  if (found == engines_.end()) return;
  for (const auto& item : found->second.leases) holders_.erase(item.first);
  if (found->second.peer) peers_.erase(*found->second.peer);
  forget_prefixes(found->second);
  engines_.erase(found);
}

Engine* EngineTable::find(const std::string& id) {
  const auto found = engines_.find(id);
  return found == engines_.end() ? nullptr : &found->second;
}

Engine* EngineTable::at(const Peer& peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : find(found->second);
}

void EngineTable::connect(Engine& engine, const Peer& peer) {
  if (engine.peer) peers_.erase(*engine.peer);
  engine.peer = peer;
  peers_[peer] = engine.id;
}

void EngineTable::disconnect(const Peer& peer) {
  if (Engine* engine = at(peer)) engine->peer.reset();
  peers_.erase(peer);
}

void EngineTable::hold(Engine& engine, LeaseId lease, HeldLease held) {
  add_prefix(engine, held.prefix);
  HeldLease& kept = engine.leases[lease];
  engine.held_tokens += held.cost_tokens - kept.cost_tokens;
  kept = std::move(held);
  holders_[lease] = engine.id;
}

// Heartbeats set the beginnings anew; in between, an engine that runs many short jobs would gather
// more than it can hold.
void EngineTable::add_prefix(Engine& engine, std::uint64_t prefix) {
  constexpr std::size_t most = limits::prefixes_per_engine + limits::leases_per_engine;
  if (prefix == 0 || engine.prefixes.size() >= most) return;
  if (engine.prefixes.insert(prefix).second) prefixes_[engine.profile.facts.model].add(prefix);
}

void EngineTable::forget_prefixes(Engine& engine) {
  PrefixIndex& index = prefixes_[engine.profile.facts.model];
  for (const std::uint64_t prefix : std::exchange(engine.prefixes, {})) index.remove(prefix);
}

void EngineTable::set_prefixes(Engine& engine, const std::vector<std::uint64_t>& announced) {
  std::set<std::uint64_t> held(announced.begin(), announced.end());
  for (const auto& [id, lease] : engine.leases) held.insert(lease.prefix);
  held.erase(0);
  if (held == engine.prefixes) return;
  PrefixIndex& index = prefixes_[engine.profile.facts.model];
  for (const std::uint64_t prefix : held) index.add(prefix);
  for (const std::uint64_t prefix : std::exchange(engine.prefixes, std::move(held))) {
    index.remove(prefix);
  }
}

HeldPrefixes EngineTable::held_prefixes(const Engine& engine) {
  return {{engine.prefixes.begin(), engine.prefixes.end()},
          prefixes_[engine.profile.facts.model].all()};
}

Engine* EngineTable::holder(LeaseId lease) {
  const auto found = holders_.find(lease);
  return found == holders_.end() ? nullptr : find(found->second);
}

std::optional<HeldLease> EngineTable::drop(LeaseId lease) {
  Engine* engine = holder(lease);
  if (engine == nullptr) return std::nullopt;
  const auto found = engine->leases.find(lease);
  auto held = std::move(found->second);
  engine->held_tokens -= held.cost_tokens;
  engine->leases.erase(found);
  holders_.erase(lease);
  return held;
}

std::map<std::string, std::uint64_t> EngineTable::leased_tokens() const {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [id, engine] : engines_) {
    if (!engine.profile.facts.model.empty()) out[engine.profile.facts.model] += engine.held_tokens;
  }
  return out;
}

}  // namespace millrace::broker
