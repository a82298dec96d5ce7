#include "broker/core/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace millrace::broker {
namespace {

bool serves_any(const Engine& engine, const std::vector<SuspectQueue>& queues) {
  return std::ranges::any_of(
      queues, [&](const SuspectQueue& queue) { return engine.serves(queue.model, queue.kv); });
}

}  // namespace

void Dispatcher::work_arrived(const std::string& tenant, std::optional<std::uint64_t> jobs) {
  Queues& queues = queues_[tenant];
  ++queues.work;
  queues.at_limit = false;
  if (queues.ready && jobs) {
    *queues.ready += *jobs;
  } else {
    queues.ready.reset();
  }
  offer_all();
}

void Dispatcher::paused(const std::string& tenant, std::uint64_t ready) {
  const auto found = queues_.find(tenant);
  if (found != queues_.end()) found->second.ready = ready;
}

void Dispatcher::lease_ended(const std::string& tenant) {
  const auto found = queues_.find(tenant);
  if (found != queues_.end() && found->second.at_limit) work_arrived(tenant, 0);
}

void Dispatcher::suspects_arrived(const std::string& tenant) {
  Queues& queues = queues_[tenant];
  ++queues.suspects;
  queues.suspects_raised_us = out_.now().mono_us;
  offer_all();
}

// Serves the engine with the fewest leases first, so that a short queue does not end up on one.
void Dispatcher::offer_all() {
  std::vector<Engine*> order;
  for (auto& [id, engine] : engines_.all()) order.push_back(&engine);
  std::stable_sort(order.begin(), order.end(), [](const Engine* a, const Engine* b) {
    return a->leases.size() < b->leases.size();
  });
  for (Engine* engine : order) offer(*engine);
}

bool Dispatcher::can_claim(const Engine& engine) const {
  const bool alike =
      config_.fingerprint.empty() || engine.profile.facts.fingerprint == config_.fingerprint;
  return open_ && engine.peer && alike && !engine.claiming && !engine.hung && engine.credit > 0 &&
         engine.leases.size() < limits::leases_per_engine && !engine.exclusive() &&
         !engine.brings_unread();
}

// Whether the tenant may have a job for the engine: no claim found its queues empty since jobs were
// queued.
bool Dispatcher::may_have(const Engine& engine, const std::string& tenant, ClaimFrom from) const {
  const auto found = queues_.find(tenant);
  if (found == queues_.end() || !engine.works_for(tenant)) return false;
  const Queues& queues = found->second;
  if (queues.at_limit) return false;
  const auto searched = engine.searched.find(tenant);
  const auto seen = searched == engine.searched.end() ? Engine::Searched{} : searched->second;
  switch (from) {
    case ClaimFrom::jobs:
      return seen.work != queues.work;
    case ClaimFrom::suspects:
      return seen.suspects != queues.suspects;
    case ClaimFrom::groups:
      return seen.groups != queues.suspects && serves_any(engine, queues.overdue_groups);
  }
  return false;
}

// The next tenant in turn that may have a job for the engine; null where none may.
const std::string* Dispatcher::next_tenant(const Engine& engine, ClaimFrom from) const {
  const auto after = queues_.upper_bound(engine.claimed_last);
  for (auto at = after; at != queues_.end(); ++at) {
    if (may_have(engine, at->first, from)) return &at->first;
  }
  for (auto at = queues_.begin(); at != after; ++at) {
    if (may_have(engine, at->first, from)) return &at->first;
  }
  return nullptr;
}

// The tenants that may have jobs for the engine.
std::vector<const std::string*> Dispatcher::waiting(const Engine& engine) const {
  std::vector<const std::string*> out;
  for (const auto& [tenant, queues] : queues_) {
    if (may_have(engine, tenant, ClaimFrom::jobs)) out.push_back(&tenant);
  }
  return out;
}

void Dispatcher::offer(Engine& engine) {
  if (!can_claim(engine)) return;
  if (engine.leases.empty()) {
    const auto* tenant = next_tenant(engine, ClaimFrom::suspects);
    if (tenant != nullptr) return claim(engine, *tenant, ClaimFrom::suspects);
    engine.reserved = false;
  }
  if (engine.reserved) return;
  if (!engine.leases.empty() && !engine.holds_suspects()) {
    const auto* tenant = next_tenant(engine, ClaimFrom::groups);
    if (tenant != nullptr) return claim(engine, *tenant, ClaimFrom::groups);
  }
  const auto tenants = waiting(engine);
  if (tenants.empty() || wanted_jobs(engine, ClaimFrom::jobs) == 0) return;
  if (tenants.size() == 1) return claim(engine, *tenants.front(), ClaimFrom::jobs);
  claim_shared(engine, tenants);
}

// What every claim of an engine has in common.
Claim Dispatcher::claim_for(const Engine& engine, ClaimFrom from) const {
  Claim claim;
  claim.engine = engine.id;
  claim.model = engine.profile.facts.model;
  claim.kv = engine.kv_names;
  claim.until_us = out_.now().unix_us + 1000 * std::int64_t{config_.lease_ms};
  claim.from = from;
  claim.max_jobs = wanted_jobs(engine, from);
  if (from == ClaimFrom::jobs) {
    claim.tail_jobs = tail_jobs(engine);
    claim.prefixes = engines_.held_prefixes(engine);
  }
  return claim;
}

void Dispatcher::claim(Engine& engine, const std::string& tenant, ClaimFrom from) {
  Claim claim = claim_for(engine, from);
  claim.tenant = tenant;
  claim.max_leased = limits_of(config_.tenants, tenant).leases;
  engine.claimed_last = tenant;
  engine.asked_jobs = claim.max_jobs;
  const Queues& queues = queues_[tenant];
  Search search{
      engine.id, from, {{tenant, from == ClaimFrom::jobs ? queues.work : queues.suspects}}};
  if (from == ClaimFrom::jobs && engine.tenant == every_tenant) {
    search.share = &shares_[engine.profile.facts.model];
  }
  ask(engine, std::move(search), std::move(claim));
}

void Dispatcher::claim_shared(Engine& engine, std::span<const std::string* const> tenants) {
  ClaimShared claim{claim_for(engine, ClaimFrom::jobs)};
  Search search{engine.id, ClaimFrom::jobs, {}};
  search.share = &shares_[engine.profile.facts.model];
  search.asked = search.share->divide(tenants, config_.tenants, claim);
  for (const TenantShare& share : claim.shares) {
    search.tenants.push_back({share.tenant, queues_[share.tenant].work});
  }
  engine.asked_jobs = claim.max_jobs;
  ask(engine, std::move(search), std::move(claim));
}

void Dispatcher::ask(Engine& engine, Search search, Operation claim) {
  engine.claiming = true;
  search.entry = engine.entry;
  out_.ask_one(std::move(claim), [this, search = std::move(search)](Result<Reply> reply) {
    claimed(search, std::move(reply));
  });
}

void Dispatcher::claimed(const Search& search, Result<Reply> reply) {
  Engine* engine = engines_.find(search.engine);
  // An engine that was forgotten and came back has claims of its own by now.
  if (engine != nullptr && engine->entry != search.entry) engine = nullptr;
  if (engine != nullptr) engine->claiming = false;
  if (engine != nullptr) engine->asked_jobs = 0;
  auto* got = reply_as<ClaimReply>(reply);
  if (got == nullptr) {
    // The next sweep raises the generations and so claims again: those of suspects, because it
    // finds more of them than were counted.
    for (const auto& [tenant, generation] : search.tenants) {
      Queues& queues = queues_[tenant];
      const bool jobs = search.from == ClaimFrom::jobs;
      if (!jobs) queues.suspects_counted = 0;
      if (engine == nullptr) continue;
      engine->searched[tenant].of(search.from) = jobs ? queues.work : queues.suspects;
    }
    return out_.note(NoteLevel::error, "claiming jobs failed: " + reply_error(reply).text());
  }
  for (const auto& ended : got->ended) doorbell_.written(ended);
  settle(search, *got, engine);
  const bool wanted = engine != nullptr && engine->peer && !engine->hung && open_;
  if (!wanted) return return_unsent(search.engine, got->jobs);
  if (!got->jobs.empty()) send(*engine, std::move(got->jobs));
  offer(*engine);
}

// Notes what a claim took of the tenants' shares and leases, and for whom it found nothing more.
void Dispatcher::settle(const Search& search, const ClaimReply& got, Engine* engine) {
  const bool shared = !search.asked.shares.empty();
  if (shared) {
    search.share->settle(search.asked, got, config_.tenants);
  } else if (search.share != nullptr && !got.jobs.empty()) {
    std::uint64_t tokens = 0;
    for (const ClaimedJob& job : got.jobs) tokens += job.cost_tokens;
    search.share->took_alone(search.tenants.front().first, tokens, config_.tenants);
  }
  for (std::size_t i = 0; i < search.tenants.size(); ++i) {
    const auto& [tenant, generation] = search.tenants[i];
    const bool at_limit = shared ? got.shares[i].at_limit : got.at_limit;
    const bool nothing = shared ? got.shares[i].exhausted : got.jobs.empty() && !got.more;
    Queues& queues = queues_[tenant];
    queues.at_limit = at_limit;
    if (search.from == ClaimFrom::jobs && queues.work == generation) {
      queues.ready = shared ? got.shares[i].ready : got.ready;
    }
    if (engine == nullptr || at_limit || !nothing) continue;
    engine->searched[tenant].of(search.from) = generation;
  }
}

void Dispatcher::send(Engine& engine, std::vector<ClaimedJob> jobs) {
  const auto now = out_.now().mono_us;
  engine.speed.pass_time(now, engine.leases.size());
  if (engine.leases.empty()) engine.progress_us = now;
  engine.credit -= std::min(engine.credit, static_cast<std::uint32_t>(jobs.size()));
  out_.counters().handed_out += jobs.size();
  Leases message;
  for (auto& job : jobs) {
    HeldLease held;
    held.tenant = job.tenant;
    held.job = job.job;
    held.custom_id = std::move(job.custom_id);
    held.stream = std::move(job.stream);
    held.attempt = job.attempt;
    held.prefix = job.prefix;
    held.suspect = job.suspect;
    held.alone = job.alone;
    held.seen_us = now;
    held.cost_tokens = job.cost_tokens;
    engines_.hold(engine, job.lease, std::move(held));
    count_hand_out(job);
    if (out_.tells_jobs()) {
      out_.tell({JobStep::leased, job.tenant, job.job, engine.name, job.attempt});
    }
    message.leases.push_back({job.lease, std::move(job.job), job.attempt, job.alone,
                              job.submitted_us, std::move(job.body), job.prefix});
  }
  out_.send(*engine.peer, 0, std::move(message));
}

void Dispatcher::count_hand_out(const ClaimedJob& job) {
  TenantTally& tally = out_.tally().of(job.tenant);
  ++tally.handed_out;
  if (job.attempt > 1) return;
  const std::int64_t waited_us = std::max<std::int64_t>(out_.now().unix_us - job.submitted_us, 0);
  tally.queue_time.add(static_cast<std::uint64_t>(waited_us));
}

// Gives back jobs claimed for an engine that has gone in the meantime. They never ran, so none is
// blamed.
void Dispatcher::return_unsent(const std::string& engine, const std::vector<ClaimedJob>& jobs) {
  if (jobs.empty()) return;
  GiveBack give;
  give.engine = engine;
  const bool suspects =
      std::any_of(jobs.begin(), jobs.end(), [](const ClaimedJob& job) { return job.suspect; });
  for (const auto& job : jobs) give.leases.push_back(job.lease);
  out_.ask_one(std::move(give), [this, suspects](Result<Reply> reply) {
    if (auto* r = reply_as<GiveBackReply>(reply)) {
      for (const auto& ended : r->ended) doorbell_.written(ended);
      for (const std::string& tenant : r->tenants) {
        if (suspects) suspects_arrived(tenant);
        work_arrived(tenant);
      }
    } else {
      out_.note(NoteLevel::error, "giving leases back failed: " + reply_error(reply).text());
    }
  });
}

void Dispatcher::count(const std::vector<TenantInfo>& tenants) {
  std::vector<Overdue> overdue;
  for (auto& [id, engine] : engines_.all()) {
    // No suspect that this engine could run alone waits any more.
    const bool some = std::ranges::any_of(tenants, [&at_it = engine](const TenantInfo& tenant) {
      return at_it.works_for(tenant.tenant) &&
             std::ranges::any_of(tenant.suspects, [&](const SuspectQueue& queue) {
               return queue.alone && at_it.serves(queue.model, queue.kv);
             });
    });
    if (!some) engine.reserved = false;
  }
  for (const TenantInfo& tenant : tenants) {
    const bool has_some = tenant.ready > 0 || !tenant.suspects.empty();
    if (has_some || queues_.contains(tenant.tenant)) count_suspects(tenant, overdue);
  }
  reserve_one(std::move(overdue));
  for (const TenantInfo& tenant : tenants) {
    if (tenant.ready == 0 && !queues_.contains(tenant.tenant)) continue;
    Queues& queues = queues_[tenant.tenant];
    queues.ready = tenant.ready;
    queues.at_limit = false;  // leases may have ended at another broker
    if (tenant.ready != 0) ++queues.work;
  }
  offer_all();
}

void Dispatcher::count_suspects(const TenantInfo& tenant, std::vector<Overdue>& overdue) {
  const auto wait_us = 1000 * std::int64_t{config_.suspect_wait_ms};
  const auto group_wait_us = 1000 * std::int64_t{config_.group_wait_ms};
  Queues& queues = queues_[tenant.tenant];
  queues.overdue_groups.clear();
  std::uint64_t jobs = 0;
  for (const SuspectQueue& queue : tenant.suspects) {
    jobs += queue.jobs;
    const auto waited_us = out_.now().unix_us - queue.oldest_us;
    if (waited_us <= (queue.alone ? wait_us : group_wait_us)) continue;
    if (queue.alone) {
      overdue.push_back({tenant.tenant, queue.model, queue.kv});
    } else {
      queues.overdue_groups.push_back(queue);
    }
  }
  const bool more = jobs > queues.suspects_counted;
  queues.suspects_counted = jobs;
  if (jobs == 0) return;
  // Claims again now and then, for engines that joined or that found the suspects leased to others.
  if (more || out_.now().mono_us - queues.suspects_raised_us > wait_us) {
    suspects_arrived(tenant.tenant);
  }
}

// Reserves one engine: among those that could run an overdue suspect alone, the one with the fewest
// leases. The others go on with their work. While an engine runs suspects alone, the suspects that
// it could run are left to it.
void Dispatcher::reserve_one(std::vector<Overdue> overdue) {
  const auto could_run = [](const Engine& engine, const Overdue& queue) {
    return engine.works_for(queue.tenant) && engine.serves(queue.model, queue.kv);
  };
  for (const auto& [id, engine] : engines_.all()) {
    if (engine.reserved) return;
    if (!engine.peer || !engine.exclusive()) continue;
    std::erase_if(overdue,
                  [&, &at_it = engine](const Overdue& queue) { return could_run(at_it, queue); });
  }
  Engine* best = nullptr;
  for (auto& [id, engine] : engines_.all()) {
    if (!open_ || !engine.peer || engine.hung) continue;
    const bool useful = std::ranges::any_of(overdue, [&, &at_it = engine](const Overdue& queue) {
      return could_run(at_it, queue) && may_have(at_it, queue.tenant, ClaimFrom::suspects);
    });
    if (!useful) continue;
    if (best == nullptr || engine.leases.size() < best->leases.size()) best = &engine;
  }
  if (best == nullptr) return;
  best->reserved = true;
  out_.note(NoteLevel::info,
            "engine " + best->label() + " finishes its jobs to run a suspect alone");
}

}  // namespace millrace::broker
