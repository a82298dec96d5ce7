// How many jobs an engine asks for: its share of what is ready beside the other engines.
#include <algorithm>

#include "broker/core/dispatcher.hpp"
#include "broker/core/speed_share.hpp"

namespace millrace::broker {

// The ready jobs of the tenants that may have some for the engine; none: it is not known how many.
std::optional<std::uint64_t> Dispatcher::ready_for(const Engine& engine) const {
  std::uint64_t jobs = 0;
  for (const std::string* tenant : waiting(engine)) {
    const auto& ready = queues_.at(*tenant).ready;
    if (!ready) return std::nullopt;
    jobs += *ready;
  }
  return jobs;
}

// Whether the other one could run whatever this one could, now or when its jobs have ended.
bool Dispatcher::shares_with(const Engine& engine, const Engine& other) const {
  const bool busy = other.claiming || !other.leases.empty();
  return &other != &engine && other.peer && !other.hung && !other.reserved && !other.exclusive() &&
         (busy || can_claim(other)) && other.works_for(engine.tenant) &&
         other.profile.facts.model == engine.profile.facts.model &&
         std::ranges::all_of(engine.kv_names,
                             [&](const std::string& kv) { return other.runs(kv); });
}

// Engines that want work at the same time share it, so that none takes all of a short queue.
std::uint32_t Dispatcher::share_in_turn(const Engine& engine) const {
  const auto rivals =
      std::count_if(engines_.all().begin(), engines_.all().end(), [&](const auto& item) {
        return item.second.profile.facts.model == engine.profile.facts.model &&
               can_claim(item.second) && !waiting(item.second).empty();
      });
  const auto sharing = static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(rivals, 1));
  return (engine.credit + sharing - 1) / sharing;
}

// None: it is alone, or what is ready or how fast an engine is is not known.
std::optional<std::uint32_t> Dispatcher::share_by_speed(const Engine& engine) const {
  auto ready = ready_for(engine);
  double tokens = static_cast<double>(engine.held_tokens);
  std::size_t jobs = engine.leases.size();
  std::vector<const Engine*> others;
  for (const auto& [id, other] : engines_.all()) {
    if (!shares_with(engine, other)) continue;
    others.push_back(&other);
    tokens += static_cast<double>(other.held_tokens);
    jobs += other.leases.size();
    if (ready) *ready -= std::min<std::uint64_t>(*ready, other.asked_jobs);
  }
  const double per_job =
      tokens > 0 ? tokens / static_cast<double>(jobs) : engine.speed.tokens_per_job();
  if (others.empty() || !ready || per_job <= 0) return std::nullopt;
  const auto load = [&](const Engine& one) {
    return EngineLoad{one.speed.tokens_per_second(),
                      static_cast<double>(one.held_tokens) + one.asked_jobs * per_job,
                      one.speed.rows(), can_claim(one) && !waiting(one).empty()};
  };
  std::vector<EngineLoad> loads;
  for (const Engine* other : others) loads.push_back(load(*other));
  const EngineLoad own = load(engine);
  const auto unknown = [](const EngineLoad& one) { return one.tokens_per_second <= 0; };
  if (unknown(own) || std::ranges::any_of(loads, unknown)) return std::nullopt;
  return jobs_by_speed(own, loads, *ready, per_job, engine.credit);
}

// 0: the others will end sooner whatever it could take.
std::uint32_t Dispatcher::wanted_jobs(const Engine& engine, ClaimFrom from) const {
  std::uint32_t share = engine.credit;
  if (from == ClaimFrom::jobs) {
    share = std::min(share, share_by_speed(engine).value_or(share_in_turn(engine)));
  }
  const auto room = limits::leases_per_engine - static_cast<std::uint32_t>(engine.leases.size());
  return std::min({share, room, config_.jobs_per_claim});
}

// What the engines of this model could hold at once.
std::uint32_t Dispatcher::tail_jobs(const Engine& engine) const {
  std::size_t held = 0;
  for (const auto& [id, other] : engines_.all()) {
    if (!other.peer || other.hung) continue;
    if (other.profile.facts.model != engine.profile.facts.model) continue;
    held += other.leases.size() + other.credit;
  }
  return static_cast<std::uint32_t>(std::min<std::size_t>(held, config_.tail_jobs));
}

}  // namespace millrace::broker
