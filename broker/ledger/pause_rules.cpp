// The rules of pauses: what is paused, and the way of jobs out of their queues and back.
#include <algorithm>

#include "broker/ledger/ledger_rules.hpp"
#include "broker/ledger/refusals.hpp"

namespace millrace::broker {

// ---- transitions

const std::set<std::string>& Transitions::pauses_of(const std::string& tenant) {
  const auto [it, fresh] = pauses_.try_emplace(tenant);
  if (fresh) {
    for (std::string& model : records_.paused_models(tenant)) it->second.insert(std::move(model));
  }
  return it->second;
}

void Transitions::change_pause(const std::string& tenant, const std::string& model, bool paused) {
  if (paused) {
    records_.insert_pause(tenant, model);
  } else {
    records_.delete_pause(tenant, model);
  }
  pauses_.erase(tenant);
}

bool Transitions::is_paused(const std::string& tenant, const std::string& batch) {
  if (batch.empty()) return false;
  const Book& book = book_of(tenant, batch);
  return book.record && book.record->paused;
}

PausedBy Transitions::paused_by(const JobRecord& job) {
  if (job.state != JobState::queued) return PausedBy::nothing;
  const auto& pauses = pauses_of(job.tenant);
  if (pauses.contains("")) return PausedBy::tenant;
  if (pauses.contains(job.model)) return PausedBy::model;
  return is_paused(job.tenant, job.batch) ? PausedBy::batch : PausedBy::nothing;
}

// ---- operations

// Closes the queues whose model is paused. False: none is left.
bool LedgerRules::open_queues(Claim& claim) {
  const auto& pauses = transitions_.pauses_of(claim.tenant);
  if (pauses.empty()) return true;
  if (pauses.contains("")) return false;
  claim.from_model = !pauses.contains(claim.model);
  claim.from_any = !pauses.contains("*");
  return claim.from_model || claim.from_any;
}

bool LedgerRules::set_aside_if_paused(JobRecord& job) {
  if (!transitions_.is_paused(job.tenant, job.batch)) return false;
  transitions_.set_aside(job);
  return true;
}

// Queues jobs of the batch again. True: some remain.
bool LedgerRules::bring_back(const std::string& tenant, const std::string& batch,
                             std::uint32_t max_jobs, StartReply& reply) {
  auto ids = records_.set_aside(tenant, batch, std::uint64_t{max_jobs} + 1);
  const bool more = ids.size() > max_jobs;
  if (more) ids.resize(max_jobs);
  records_.expect_jobs(tenant, ids);
  for (const std::string& id : ids) {
    auto job = records_.find_job(tenant, id);
    if (!job) break;
    start(*job, reply);
  }
  return more;
}

// The same for the batches that are paused no more.
bool LedgerRules::bring_back_resumed(const std::string& tenant, std::uint32_t max_jobs,
                                     StartReply& reply) {
  for (auto batch = records_.next_set_aside(tenant, ""); batch;
       batch = records_.next_set_aside(tenant, *batch)) {
    if (transitions_.is_paused(tenant, *batch)) continue;
    const std::uint64_t before = reply.started;
    if (bring_back(tenant, *batch, max_jobs, reply)) return true;
    max_jobs -= static_cast<std::uint32_t>(reply.started - before);
  }
  return false;
}

Result<bool> LedgerRules::change_pause(const std::string& tenant, const std::string& batch,
                                       const std::string& model, bool paused) {
  if (batch.empty()) {
    if (transitions_.pauses_of(tenant).contains(model) == paused) return false;
    transitions_.change_pause(tenant, model, paused);
    return true;
  }
  auto record = records_.find_batch(tenant, batch);
  if (!record) return refuse_unknown_batch(batch);
  if (record->paused == paused) return false;
  record->paused = paused;
  transitions_.update_batch(tenant, *record);
  return true;
}

Result<Reply> LedgerRules::carry_out(const Pause& op) {
  MILLRACE_ASSIGN(const bool changed, change_pause(op.tenant, op.batch, op.model, true));
  return PauseReply{changed, false, transitions_.ready_of(op.tenant)};
}

Result<Reply> LedgerRules::carry_out(const Resume& op) {
  PauseReply reply;
  MILLRACE_ASSIGN(reply.changed, change_pause(op.tenant, op.batch, op.model, false));
  StartReply started;
  if (!op.batch.empty()) reply.more = bring_back(op.tenant, op.batch, op.max_jobs, started);
  reply.ready = transitions_.ready_of(op.tenant);
  return reply;
}

}  // namespace millrace::broker
