#include "broker/core/engine_table.hpp"

#include <utility>

namespace millrace::broker {

std::string engine_id(const Grant& who, const Hello& hello) {
  return who.key.empty() ? hello.instance : who.name + "/" + hello.instance;
}

EngineInfo info_of(const Engine& engine) {
  return {engine.name, engine.profile, static_cast<std::uint32_t>(engine.leases.size()),
          engine.rows, engine.tokens_per_second};
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
  HeldLease& kept = engine.leases[lease];
  engine.held_tokens += held.cost_tokens - kept.cost_tokens;
  kept = std::move(held);
  holders_[lease] = engine.id;
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

}  // namespace millrace::broker
