#include "broker/core/lease_reclaimer.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace millrace::broker {
namespace {

std::vector<LeaseId> leases_of(const Engine& engine) {
  std::vector<LeaseId> leases;
  leases.reserve(engine.leases.size());
  for (const auto& item : engine.leases) leases.push_back(item.first);
  return leases;
}

std::string jobs_text(const Engine& engine) {
  const auto waiting =
      std::ranges::count_if(engine.leases, [](const auto& item) { return item.second.waiting; });
  const auto all = static_cast<std::ptrdiff_t>(engine.leases.size());
  return std::to_string(all - waiting) + " of its " + std::to_string(all) +
         " jobs may have been under way";
}

}  // namespace

void LeaseReclaimer::recover(std::function<void()> then) {
  waits_from_us_ = out_.now().mono_us;
  FindLapsed find;
  find.all = true;
  out_.ask_one(std::move(find), [this, then = std::move(then)](Result<Reply> reply) {
    const auto* found = reply_as<FindLapsedReply>(reply);
    if (found == nullptr) {
      out_.note(NoteLevel::error, "reading the live leases failed: " + reply_error(reply).text());
      return then();
    }
    std::map<std::string, std::vector<LeaseId>> by_engine;
    for (const auto& lease : found->leases) {
      by_engine[lease.engine].push_back(lease.lease);
      if (config_.previous_engines_are_gone) continue;
      HeldLease held;
      held.tenant = lease.tenant;
      held.job = lease.job;
      held.alone = lease.alone;
      held.seen_us = out_.now().mono_us;
      auto& engine = engines_.add(lease.engine);
      engine.name = lease.engine;
      engine.heard_us = engine.progress_us = out_.now().mono_us;
      engine.speed.pass_time(out_.now().mono_us, 0);  // its time counts from here
      engines_.hold(engine, lease.lease, std::move(held));
    }
    std::vector<LapsedLease> kept;
    if (config_.previous_engines_are_gone) {
      for (auto& [engine, leases] : by_engine) give_back(engine, std::move(leases), Blame::none);
    } else {
      kept = found->leases;
    }
    if (!found->leases.empty()) {
      out_.note(NoteLevel::info, std::to_string(found->leases.size()) + " leases of " +
                                     std::to_string(by_engine.size()) +
                                     " engines were live when the broker started");
    }
    recover_facts(std::move(kept), then);
  });
}

// Reads what the broker knows of the jobs that it hands out: what it adds to their partials, and
// what they cost, which measures their engine's speed.
void LeaseReclaimer::recover_facts(std::vector<LapsedLease> leases, std::function<void()> then) {
  std::vector<Operation> operations;
  operations.reserve(leases.size());
  for (const auto& lease : leases) operations.push_back(GetJob{lease.tenant, lease.job});
  out_.ask(std::move(operations),
           [this, leases = std::move(leases), then = std::move(then)](Replies replies) {
             for (std::size_t i = 0; i < leases.size(); ++i) {
               const auto* job = reply_as<GetJobReply>(replies[i]);
               Engine* engine = engines_.holder(leases[i].lease);
               if (job == nullptr || engine == nullptr) continue;
               HeldLease held = engine->leases[leases[i].lease];
               held.tenant = leases[i].tenant;
               held.job = leases[i].job;
               held.alone = leases[i].alone;
               held.cost_tokens = job->cost_tokens;
               held.prefix = job->prefix;
               held.custom_id = job->custom_id;
               held.suspect = job->suspect;
               held.stream = job->stream;
               held.attempt = job->attempts;
               held.cancelled = job->cancel_requested;
               engines_.hold(*engine, leases[i].lease, std::move(held));
             }
             then();
           });
}

void LeaseReclaimer::learn(const std::string& id) {
  FindLapsed find;
  find.engines.push_back(id);
  out_.ask_one(std::move(find), [this, id](Result<Reply> reply) {
    const auto* found = reply_as<FindLapsedReply>(reply);
    Engine* engine = engines_.find(id);
    if (found == nullptr || engine == nullptr) return;
    std::vector<LapsedLease> fresh;
    for (const LapsedLease& lease : found->leases) {
      const auto held = engine->leases.find(lease.lease);
      if (held == engine->leases.end() || !held->second.job.empty()) continue;
      fresh.push_back(lease);
    }
    if (fresh.empty()) return;
    recover_facts(std::move(fresh), [this, id] {
      if (Engine* told = engines_.find(id)) dispatcher_.offer(*told);
    });
  });
}

void LeaseReclaimer::give_back(const std::string& engine, std::vector<LeaseId> leases, Blame blame,
                               bool only_own) {
  if (leases.empty()) return;
  GiveBack give;
  std::vector<JobNews> news;
  for (const auto lease : leases) {
    const auto held = engines_.drop(lease);
    if (held && held->waiting) give.waiting.push_back(lease);
    if (held && !held->job.empty() && out_.tells_jobs())
      news.push_back({JobStep::given_back, held->tenant, held->job});
    leaving_.insert(lease);
  }
  give.leases = leases;
  give.blame = blame;
  give.only_own = only_own;
  give.engine = engine;
  out_.ask_one(std::move(give), [this, leases = std::move(leases),
                                 news = std::move(news)](Result<Reply> reply) {
    for (const auto lease : leases) leaving_.erase(lease);
    auto* back = reply_as<GiveBackReply>(reply);
    if (back == nullptr) {
      // The leases are still in the ledger and lapse there; a later sweep gives them back.
      return out_.note(NoteLevel::error, "giving leases back failed: " + reply_error(reply).text());
    }
    for (const JobNews& one : news) out_.tell(one);
    for (const auto& ended : back->ended) {
      if (ended.state == JobState::failed) ++out_.counters().dead_lettered;
      doorbell_.written(ended);
    }
    for (const std::string& tenant : back->tenants) {
      dispatcher_.suspects_arrived(tenant);  // even without blame: a suspect stays a suspect
      dispatcher_.work_arrived(tenant);
    }
  });
}

void LeaseReclaimer::leave(const std::string& id) {
  Engine* engine = engines_.find(id);
  if (engine == nullptr) return;
  auto leases = leases_of(*engine);
  out_.note(NoteLevel::info, "engine " + engine->label() + " left, " +
                                 std::to_string(leases.size()) + " leases given back");
  if (engine->peer) sessions_.close(*engine->peer);
  give_back(id, std::move(leases), Blame::none);
  engines_.remove(id);
}

void LeaseReclaimer::died(const std::string& id, const std::string& how) {
  Engine* engine = engines_.find(id);
  if (engine == nullptr) return;
  auto leases = leases_of(*engine);
  ++out_.counters().engines_died;
  out_.note(NoteLevel::warning,
            "engine " + engine->label() + " is gone (" + how + "), " + jobs_text(*engine));
  if (engine->peer) sessions_.close(*engine->peer);
  give_back(id, std::move(leases), Blame::died);
  engines_.remove(id);
}

void LeaseReclaimer::died_by_name(const std::string& name) {
  std::vector<std::string> gone;
  for (const auto& [id, engine] : engines_.all()) {
    if (name.empty() || id == name || engine.name == name) gone.push_back(id);
  }
  for (const auto& id : gone) died(id, "its process ended");
}

// Leaves the engine's leases to lapse in the ledger: it may renew them through another broker.
void LeaseReclaimer::silence(Engine& engine) {
  ++out_.counters().engines_died;
  out_.note(NoteLevel::warning, "engine " + engine.label() + " was silent for " +
                                    std::to_string(config_.lease_ms / 1000) + " s with " +
                                    std::to_string(engine.leases.size()) + " leases");
  if (engine.peer) {
    sessions_.close(*engine.peer);
    engines_.disconnect(*engine.peer);
  }
  engine.joined = false;
  engine.reserved = false;
  engine.credit = 0;
}

void LeaseReclaimer::hang(Engine& engine) {
  auto leases = leases_of(engine);
  engine.hung = true;
  engine.reserved = false;
  engine.credit = 0;
  ++out_.counters().engines_hung;
  out_.hung(engine.name);
  out_.note(NoteLevel::warning, "engine " + engine.label() + " is hung: no step for " +
                                    std::to_string(config_.hang_ms / 1000) + " s, " +
                                    jobs_text(engine));
  if (engine.peer) out_.send(*engine.peer, 0, HeartbeatAnswer{leases, {}, engines_.drain});
  // It may go on with them at another broker, whose heartbeats this one does not see.
  give_back(engine.id, std::move(leases), Blame::died, true);
}

void LeaseReclaimer::sweep() {
  const auto now = out_.now().mono_us;
  const auto lease_us = 1000 * std::int64_t{config_.lease_ms};
  std::vector<std::string> silent, hanging;
  for (const auto& [id, engine] : engines_.all()) {
    if (engine.joined && now - engine.heard_us > lease_us) {
      silent.push_back(id);
    } else if (engine.joined && !engine.leases.empty() &&
               now - engine.progress_us > 1000 * std::int64_t{config_.hang_ms}) {
      hanging.push_back(id);
    }
  }
  for (const auto& id : silent) silence(*engines_.find(id));
  for (const auto& id : hanging) hang(*engines_.find(id));
  // Forgets absent engines without leases, and those that another broker must have by now.
  for (const auto& id : ids_of_absent()) {
    const Engine& engine = *engines_.find(id);
    const bool idle = engine.leases.empty() && !engine.claiming;
    if (idle || now - engine.heard_us > 10 * lease_us) engines_.remove(id);
  }
  // After a restart engines get one lease time to come back, however long the broker was away.
  if (now - waits_from_us_ > lease_us && !finding_) find_lapsed();
}

std::vector<std::string> LeaseReclaimer::ids_of_absent() const {
  std::vector<std::string> absent;
  for (const auto& [id, engine] : engines_.all()) {
    if (!engine.joined) absent.push_back(id);
  }
  return absent;
}

void LeaseReclaimer::find_lapsed() {
  FindLapsed find;
  find.now_us = out_.now().unix_us;
  finding_ = true;
  out_.ask_one(std::move(find), [this, asked_us = out_.now().mono_us](Result<Reply> reply) {
    finding_ = false;
    // The ledger was away. No broker could renew a lease meanwhile, or say that it lives.
    const auto now_us = out_.now().mono_us;
    const bool away = now_us - asked_us > 1000 * std::int64_t{config_.lease_ms};
    if (away) waits_from_us_ = now_us;
    const auto* found = reply_as<FindLapsedReply>(reply);
    if (found == nullptr) {
      return out_.note(NoteLevel::error,
                       "finding lapsed leases failed: " + reply_error(reply).text());
    }
    if (away) return;
    std::map<std::string, std::vector<LeaseId>> by_engine;
    for (const auto& lease : found->leases) {
      if (!leaving(lease.lease)) by_engine[lease.engine].push_back(lease.lease);
    }
    for (const auto& [engine, leases] : by_engine) lapsed(engine, leases);
  });
}

void LeaseReclaimer::lapsed(const std::string& id, const std::vector<LeaseId>& leases) {
  const Engine* engine = engines_.find(id);
  const auto lease_us = 1000 * std::int64_t{config_.lease_ms};
  if (engine == nullptr || !engine->joined) {
    // What it was handed last lapses a moment later. Both belong to one death.
    const bool more = engine != nullptr && leases.size() < engine->leases.size() &&
                      out_.now().mono_us - engine->heard_us <= 2 * lease_us;
    if (more) return;
    out_.note(NoteLevel::warning, "engine " + (engine == nullptr ? id : engine->label()) +
                                      " did not come back, " + std::to_string(leases.size()) +
                                      " of its leases lapsed");
    out_.counters().lapsed += leases.size();
    return give_back(id, leases, Blame::died, true);
  }
  // A lease that the engine lists is being renewed; it lapsed because the Unix clock jumped. A
  // lease that it has not listed for a whole lease time, although its heartbeats come, never
  // reached it and is given back without blame. If its heartbeats stopped, the engine may be dead
  // even where another of its messages came later. Such a lease waits until the engine sends a
  // heartbeat or counts as silent, because a job that kills an engine must not return without
  // blame.
  std::vector<LeaseId> unheld;
  for (const auto lease : leases) {
    const auto held = engine->leases.find(lease);
    if (held == engine->leases.end() || engine->beat_us - held->second.seen_us > lease_us) {
      unheld.push_back(lease);
    }
  }
  out_.counters().lapsed += unheld.size();
  give_back(id, std::move(unheld), Blame::none, true);
}

void LeaseReclaimer::revoke(const std::vector<LapsedLease>& leases) {
  std::map<std::string, std::vector<LeaseId>> by_engine;
  for (const auto& lease : leases) {
    engines_.drop(lease.lease);
    by_engine[lease.engine].push_back(lease.lease);
  }
  for (auto& [id, lost] : by_engine) {
    Engine* engine = engines_.find(id);
    if (engine == nullptr || !engine->peer) continue;
    out_.send(*engine->peer, 0, HeartbeatAnswer{std::move(lost), {}, engines_.drain});
    dispatcher_.offer(*engine);
  }
}

}  // namespace millrace::broker
