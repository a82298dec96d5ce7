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

void Dispatcher::work_arrived() {
  ++work_generation_;
  for (auto& [id, engine] : engines_.all()) engine.found_no_work = false;
  offer_all();
}

void Dispatcher::suspects_arrived() {
  ++suspect_generation_;
  suspects_raised_us = out_.now().mono_us;
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
         engine.leases.size() < limits::leases_per_engine && !engine.exclusive();
}

void Dispatcher::offer(Engine& engine) {
  if (!can_claim(engine)) return;
  if (engine.leases.empty()) {
    if (engine.suspects_seen != suspect_generation_) return claim(engine, true);
    engine.reserved = false;
  }
  if (engine.reserved || engine.found_no_work) return;
  claim(engine, false);
}

void Dispatcher::claim(Engine& engine, bool suspect) {
  Claim claim;
  claim.tenant = default_tenant;
  claim.engine = engine.id;
  claim.model = engine.profile.facts.model;
  claim.kv = engine.kv_names;
  claim.until_us = out_.now().unix_us + 1000 * std::int64_t{config_.lease_ms};
  claim.suspect = suspect;
  claim.max_jobs = 1;
  if (!suspect) {
    // Engines that want work at the same time share it, so that none takes all of a short queue.
    const auto rivals =
        std::count_if(engines_.all().begin(), engines_.all().end(), [&](const auto& item) {
          return item.second.profile.facts.model == engine.profile.facts.model &&
                 !item.second.found_no_work && can_claim(item.second);
        });
    const auto sharing = static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(rivals, 1));
    const auto room = limits::leases_per_engine - static_cast<std::uint32_t>(engine.leases.size());
    claim.max_jobs =
        std::min({(engine.credit + sharing - 1) / sharing, room, config_.jobs_per_claim});
  }
  engine.claiming = true;
  const auto generation = suspect ? suspect_generation_ : work_generation_;
  out_.ask_one(std::move(claim), [this, id = engine.id, suspect, generation](Result<Reply> reply) {
    claimed(id, suspect, generation, std::move(reply));
  });
}

void Dispatcher::claimed(const std::string& id, bool suspect, std::uint64_t generation,
                         Result<Reply> reply) {
  Engine* engine = engines_.find(id);
  if (engine != nullptr) engine->claiming = false;
  auto* got = reply_as<ClaimReply>(reply);
  if (got == nullptr) {
    // The next sweep clears `found_no_work` and so claims again.
    if (engine != nullptr) engine->found_no_work = true;
    return out_.note(NoteLevel::error, "claiming jobs failed: " + reply_error(reply).text());
  }
  for (const auto& ended : got->ended) doorbell_.written(ended);
  const bool wanted = engine != nullptr && engine->peer && !engine->hung && open_;
  if (!wanted) return return_unsent(id, got->jobs);
  if (!got->jobs.empty()) {
    send(*engine, std::move(got->jobs), suspect);
  } else if (suspect) {
    engine->suspects_seen = generation;
  } else {
    engine->found_no_work = generation == work_generation_;
  }
  offer(*engine);
}

void Dispatcher::send(Engine& engine, std::vector<ClaimedJob> jobs, bool suspect) {
  const auto now = out_.now().mono_us;
  if (engine.leases.empty()) engine.progress_us = now;
  engine.credit -= std::min(engine.credit, static_cast<std::uint32_t>(jobs.size()));
  out_.counters().handed_out += jobs.size();
  Leases message;
  for (auto& job : jobs) {
    HeldLease held;
    held.job = job.job;
    held.custom_id = std::move(job.custom_id);
    held.stream = std::move(job.stream);
    held.attempt = job.attempt;
    held.alone = suspect;
    held.seen_us = now;
    engines_.hold(engine, job.lease, std::move(held));
    message.leases.push_back({job.lease, std::move(job.job), job.attempt, suspect, job.submitted_us,
                              std::move(job.body)});
  }
  out_.send(*engine.peer, 0, std::move(message));
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
      if (suspects) suspects_arrived();
      work_arrived();
    } else {
      out_.note(NoteLevel::error, "giving leases back failed: " + reply_error(reply).text());
    }
  });
}

void Dispatcher::count(const std::vector<SuspectQueue>& suspects) {
  const auto wait_us = 1000 * std::int64_t{config_.suspect_wait_ms};
  std::uint64_t jobs = 0;
  std::vector<SuspectQueue> overdue;
  for (const SuspectQueue& queue : suspects) {
    jobs += queue.jobs;
    if (out_.now().unix_us - queue.oldest_us > wait_us) overdue.push_back(queue);
  }
  const bool more = jobs > suspects_;
  suspects_ = jobs;
  for (auto& [id, engine] : engines_.all()) {
    // No suspect that this engine could run waits any more.
    if (!serves_any(engine, suspects)) engine.reserved = false;
  }
  if (suspects.empty()) return;
  // Claims again now and then, for engines that joined or that found the suspects leased to others.
  if (more || out_.now().mono_us - suspects_raised_us > wait_us) suspects_arrived();
  reserve_one(std::move(overdue));
}

// Reserves one engine: among those that could run an overdue suspect, the one with the fewest
// leases. The others go on with their work. While an engine runs suspects alone, the suspects that
// it could run are left to it.
void Dispatcher::reserve_one(std::vector<SuspectQueue> overdue) {
  for (const auto& [id, engine] : engines_.all()) {
    if (engine.reserved) return;
    if (!engine.peer || !engine.exclusive()) continue;
    std::erase_if(overdue, [&at_it = engine](const SuspectQueue& queue) {
      return at_it.serves(queue.model, queue.kv);
    });
  }
  Engine* best = nullptr;
  for (auto& [id, engine] : engines_.all()) {
    if (!open_ || !engine.peer || engine.hung || !serves_any(engine, overdue)) continue;
    if (engine.suspects_seen == suspect_generation_) continue;
    if (best == nullptr || engine.leases.size() < best->leases.size()) best = &engine;
  }
  if (best == nullptr) return;
  best->reserved = true;
  out_.note(NoteLevel::info, "engine " + best->name + " finishes its jobs to run a suspect alone");
}

}  // namespace millrace::broker
