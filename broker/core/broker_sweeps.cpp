// What the broker does each second for its tenants: jobs that expire, start, or are resumed.
#include "broker/core/broker.hpp"

namespace millrace::broker {

void Broker::sweep() {
  swept_us_ = out_.now().mono_us;
  others_.sweep();
  reclaimer_.sweep();
  count_queues([this](const std::vector<TenantInfo>& tenants) {
    for (const TenantInfo& tenant : tenants) {
      expire(tenant.tenant);
      start_jobs(tenant.tenant);
    }
  });
}

void Broker::expire(const std::string& tenant) {
  if (!expiring_.insert(tenant).second) return;
  ExpireJobs expire_jobs;
  expire_jobs.tenant = tenant;
  out_.ask_one(std::move(expire_jobs), [this, tenant](Result<Reply> reply) {
    expiring_.erase(tenant);
    const auto* r = reply_as<ExpireReply>(reply);
    if (r == nullptr) {
      return out_.note(NoteLevel::error,
                       "ending expired jobs failed: " + reply_error(reply).text());
    }
    out_.counters().expired += r->ended.size();
    for (const auto& ended : r->ended) doorbell_.written(ended);
    reclaimer_.revoke(r->leases);
    if (!r->leases.empty()) dispatcher_.lease_ended(tenant);
    if (r->more) expire(tenant);
  });
}

// After a resumption it claims again at once, also for suspects.
void Broker::pause_changed(const std::string& tenant, bool paused, const PauseReply& reply) {
  if (paused) return dispatcher_.paused(tenant, reply.ready);
  dispatcher_.suspects_arrived(tenant);
  dispatcher_.work_arrived(tenant);
  if (reply.more) start_jobs(tenant);
}

// Queues the jobs whose start has come, and those that a resumption has left.
void Broker::start_jobs(const std::string& tenant) {
  if (!starting_.insert(tenant).second) return;
  out_.ask_one(StartJobs{tenant}, [this, tenant](Result<Reply> reply) {
    starting_.erase(tenant);
    const auto* r = reply_as<StartReply>(reply);
    if (r == nullptr) {
      return out_.note(NoteLevel::error, "starting jobs failed: " + reply_error(reply).text());
    }
    if (r->suspects > 0) dispatcher_.suspects_arrived(tenant);
    if (r->started > r->suspects) dispatcher_.work_arrived(tenant);
    if (r->more) start_jobs(tenant);
  });
}

}  // namespace millrace::broker
