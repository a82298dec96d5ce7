#include "broker/ledger/tails.hpp"

#include <algorithm>
#include <tuple>

#include "broker/ledger/queues.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t long_times = 2;

template <class Job>
std::vector<std::string> ids_of(const std::vector<Job>& jobs) {
  std::vector<std::string> out;
  for (const Job& one : jobs) out.push_back(one.job);
  return out;
}

}  // namespace

// Whether the claim could hand out this queued job.
bool Tails::may_take(const JobRecord& job, const Claim& claim) {
  if (job.start_us || job.suspicion) return false;
  if (job.deadline_us && *job.deadline_us <= transitions_.now_us()) return false;
  if (transitions_.is_paused(job.tenant, job.batch)) return false;
  return std::ranges::any_of(queues_of(claim), [&](const QueueName& queue) {
    return *queue.model == job.model && *queue.kv == job.kv;
  });
}

std::vector<JobRecord> Tails::ready_of_tenant(const Claim& claim) {
  std::vector<JobRecord> out;
  for (const QueueName& queue : queues_of(claim)) {
    const auto head =
        records_.queued_jobs({tenant_, 0, *queue.model, *queue.kv}, {}, claim.tail_jobs);
    records_.expect_jobs(tenant_, ids_of(head));
    for (const QueuedJob& queued : head) {
      if (auto job = records_.find_job(tenant_, queued.job)) out.push_back(*std::move(job));
    }
  }
  return out;
}

// Where jobs of the batch are left that are not ready, it sets how far the pool reaches.
std::vector<JobRecord> Tails::ready_of_batch(Pool& pool, const JobRecord& place,
                                             const Claim& claim) {
  constexpr std::uint64_t looked_through = 2;  // times W
  std::vector<JobRecord> out;
  const auto all = records_.jobs_of_batch(
      {tenant_, place.batch, JobState::queued, 0, looked_through * claim.tail_jobs});
  records_.expect_jobs(tenant_, ids_of(all));
  for (const BatchJob& queued : all) {
    if (out.size() == claim.tail_jobs) break;
    auto job = records_.find_job(tenant_, queued.job);
    if (job && may_take(*job, claim)) out.push_back(*std::move(job));
  }
  if (out.size() < all.size()) pool.below = place.sequence + claim.tail_jobs;
  return out;
}

// Decided once, so that the places of one claim are those of one tail.
bool Tails::is_tenant_tail(const Claim& claim) {
  if (!tenant_tail_) {
    tenant_tail_ = transitions_.ready_for(claim, "") <= claim.tail_jobs;
  }
  return *tenant_tail_;
}

bool Tails::is_batch_tail(const std::string& batch, const Claim& claim) {
  return transitions_.is_closed(tenant_, batch) &&
         transitions_.ready_for(claim, batch) <= claim.tail_jobs;
}

Tails::Pool& Tails::pool_of(const JobRecord& place, const Claim& claim) {
  const bool of_tenant = is_tenant_tail(claim);
  const auto [it, fresh] =
      pools_.try_emplace({of_tenant ? std::string() : place.batch, place.priority});
  Pool& pool = it->second;
  if (!fresh) return pool;
  pool.tail = of_tenant || is_batch_tail(place.batch, claim);
  if (!pool.tail) return pool;
  pool.jobs = of_tenant ? ready_of_tenant(claim) : ready_of_batch(pool, place, claim);
  if (of_tenant) pool.below = place.sequence + claim.tail_jobs;
  std::erase_if(pool.jobs, [&](const JobRecord& job) {
    return job.priority != place.priority || job.sequence >= pool.below || !may_take(job, claim);
  });
  std::ranges::sort(pool.jobs, [](const JobRecord& a, const JobRecord& b) {
    return std::tuple(a.cost_tokens, b.sequence) < std::tuple(b.cost_tokens, a.sequence);
  });
  return pool;
}

std::optional<JobRecord> Tails::instead_of(const JobRecord& place, const Claim& claim) {
  if (claim.tail_jobs == 0) return std::nullopt;
  Pool& pool = pool_of(place, claim);
  if (!pool.tail || place.sequence >= pool.below || pool.jobs.empty()) return std::nullopt;
  const auto itself = std::ranges::find(pool.jobs, place.sequence, &JobRecord::sequence);
  if (itself != pool.jobs.end() && pool.jobs.back().cost_tokens < long_times * place.cost_tokens) {
    pool.jobs.erase(itself);
    return std::nullopt;
  }
  JobRecord next = std::move(pool.jobs.back());
  pool.jobs.pop_back();
  if (next.sequence == place.sequence) return std::nullopt;
  return next;
}

}  // namespace millrace::broker
