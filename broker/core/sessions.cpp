#include "broker/core/sessions.hpp"

#include <algorithm>

namespace millrace::broker {
namespace {

std::unexpected<Error> no_session(const std::string& why) {
  return fail(Error{Code::overloaded, "hello: " + why,
                    "wait a few seconds and try again; close sessions with goodbye",
                    limits::retry_room_ms});
}

}  // namespace

Welcome Sessions::welcome(Endpoint endpoint, const Grant& who) const {
  Welcome welcome;
  if (endpoint == Endpoint::client) welcome.frame_bytes = limits::client_frame_bytes;
  welcome.broker = config_.broker_id;
  welcome.software = config_.software;
  welcome.capabilities = {"backup",  "batches", "begun", "bulk_submit", "cancel",
                          "cursors", "drain",   "jobs",  "not_before",  "partials",
                          "pauses",  "replay",  "retry"};
  if (!config_.doorbell.empty()) welcome.capabilities.push_back("doorbell");
  if (config_.push) welcome.capabilities.push_back("push");
  welcome.heartbeat_ms = config_.heartbeat_ms;
  welcome.lease_ms = config_.lease_ms;
  welcome.hang_ms = config_.hang_ms;
  welcome.doorbell = config_.doorbell;
  welcome.doorbell_prefix = doorbell_prefix(who.tenant, config_.grants.has_value());
  return welcome;
}

Status Sessions::open(const Peer& peer, const Hello& hello, const Grant& who) {
  if (hello.version_min > protocol_version || hello.version_max < protocol_version) {
    return fail(Code::unsupported_version,
                "hello: the peer offers versions " + std::to_string(hello.version_min) + " to " +
                    std::to_string(hello.version_max) + ", this broker speaks " +
                    std::to_string(protocol_version),
                "use a client and a broker of the same major version");
  }
  if (peer.endpoint == Endpoint::engine && !sessions_.contains(peer) &&
      engines() >= limits::engines) {
    return fail(
        Error{Code::overloaded,
              "hello: " + std::to_string(limits::engines) + " engines are connected, the limit",
              "connect this engine to another broker", limits::retry_room_ms});
  }
  if (config_.grants && !sessions_.contains(peer) &&
      of_tenant(who.tenant) >= config_.sessions_per_tenant && !make_room(&who.tenant)) {
    return no_session("the tenant " + who.tenant + " has " +
                      std::to_string(config_.sessions_per_tenant) +
                      " sessions, its limit (sessions per tenant)");
  }
  if (sessions_.size() >= config_.sessions && !sessions_.contains(peer) && !make_room(nullptr)) {
    return no_session("all " + std::to_string(config_.sessions) + " sessions are in use");
  }
  auto& session = sessions_[peer];
  session.watched.clear();  // after a hello the client asks again for what it watches
  session.key = who.key;
  session.tenant = who.tenant;
  session.name = hello.name;
  session.software = hello.software;
  session.takes_not_found =
      std::ranges::find(hello.capabilities, "not_found") != hello.capabilities.end();
  session.heard_us = out_.now().mono_us;
  return {};
}

std::size_t Sessions::engines() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [](const auto& item) { return item.first.endpoint == Endpoint::engine; }));
}

std::size_t Sessions::of_tenant(const std::string& tenant) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [&](const auto& item) { return item.second.tenant == tenant; }));
}

// Ends the session of the client, of this tenant where one is given, that was silent longest.
// Engines keep their sessions: they are never silent, and missing heartbeats show that one is lost.
bool Sessions::make_room(const std::string* tenant) {
  const auto limit_us = 1000 * std::int64_t{config_.session_yield_ms};
  auto quietest = sessions_.end();
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    const Session& session = at->second;
    if (tenant != nullptr && session.tenant != *tenant) continue;
    if (at->first.endpoint != Endpoint::client || session.requests > 0 ||
        out_.now().mono_us - session.heard_us < limit_us) {
      continue;
    }
    if (quietest == sessions_.end() || session.heard_us < quietest->second.heard_us) quietest = at;
  }
  if (quietest == sessions_.end()) return false;
  sessions_.erase(quietest);
  return true;
}

Session* Sessions::find(const Peer& peer) {
  const auto found = sessions_.find(peer);
  return found == sessions_.end() ? nullptr : &found->second;
}

Session* Sessions::heard(const Peer& peer, const std::string& key) {
  Session* session = find(peer);
  if (session == nullptr || session->key != key) return nullptr;
  session->heard_us = out_.now().mono_us;
  return session;
}

void Sessions::tick() {
  const auto limit_us = 1000 * std::int64_t{config_.session_idle_ms};
  std::erase_if(sessions_, [&](const auto& item) {
    return item.second.requests == 0 && out_.now().mono_us - item.second.heard_us > limit_us;
  });
}

bool Sessions::begin(const Peer& peer, std::uint64_t id) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return false;
  if (found->second.requests >= config_.requests_per_session) {
    out_.refuse(peer, id,
                {Code::overloaded,
                 std::to_string(found->second.requests) +
                     " requests of this session already wait for an answer",
                 "wait for their answers before sending more", limits::retry_session_ms});
    return false;
  }
  ++found->second.requests;
  return true;
}

void Sessions::end(const Peer& peer) {
  const auto found = sessions_.find(peer);
  if (found != sessions_.end() && found->second.requests > 0) --found->second.requests;
}

}  // namespace millrace::broker
