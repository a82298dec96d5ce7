// Jobs, queues, counts and leases. Streams are in memory_streams.cpp, brokers in
// memory_brokers.cpp.
#include "broker/ledger/memory_records.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace millrace::broker {

void MemoryRecords::keep() {
  undo_.clear();
}

void MemoryRecords::undo() {
  // The steps may use operations that note how to undo them in turn.
  auto steps = std::exchange(undo_, {});
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) (*step)();
  undo_.clear();
  status_ = {};
}

void MemoryRecords::note_corruption(const std::string& what) {
  if (status_) {
    status_ = fail(Code::ledger_corrupt, "ledger in memory: " + what,
                   "this is a defect in Millrace: please report it");
  }
}

// ---- jobs

void MemoryRecords::index(const JobRecord& job) {
  if (job.deadline_us && !is_end(job.state)) {
    deadlines_.emplace(std::tuple(job.tenant, *job.deadline_us, job.sequence), job.job);
  }
  if (job.state == JobState::failed) failed_.emplace(Key(job.tenant, job.job), &job);
  if (job.start_us) starts_.emplace(std::tuple(job.tenant, *job.start_us, job.sequence), job.job);
  if (job.start_us == until_resumed) {
    set_aside_[{job.tenant, job.batch}].emplace(job.sequence, &job);
  }
  if (job.ended_us) ended_.emplace(*job.ended_us, job.tenant, job.job);
  if (!job.batch.empty()) {
    batches_[{job.tenant, job.batch, job.state}].emplace(job.sequence, &job);
  }
  if (job.suspicion && job.suspicion->incident != 0) {
    incidents_[job.suspicion->incident].emplace(job.sequence, &job);
  }
}

void MemoryRecords::unindex(const JobRecord& job) {
  if (job.deadline_us) deadlines_.erase(std::tuple(job.tenant, *job.deadline_us, job.sequence));
  failed_.erase(Key(job.tenant, job.job));
  if (job.start_us) starts_.erase(std::tuple(job.tenant, *job.start_us, job.sequence));
  if (const auto aside = set_aside_.find({job.tenant, job.batch}); aside != set_aside_.end()) {
    aside->second.erase(job.sequence);
    if (aside->second.empty()) set_aside_.erase(aside);
  }
  if (job.ended_us) ended_.erase(std::tuple(*job.ended_us, job.tenant, job.job));
  if (job.suspicion) {
    const auto suspects = incidents_.find(job.suspicion->incident);
    if (suspects != incidents_.end()) suspects->second.erase(job.sequence);
    if (suspects != incidents_.end() && suspects->second.empty()) incidents_.erase(suspects);
  }
  if (job.batch.empty()) return;
  const auto members = batches_.find({job.tenant, job.batch, job.state});
  if (members == batches_.end()) return;
  members->second.erase(job.sequence);
  if (members->second.empty()) batches_.erase(members);
}

void MemoryRecords::put_job(JobRecord job) {
  JobRecord& kept = jobs_[{job.tenant, job.job}];
  unindex(kept);
  kept = std::move(job);
  index(kept);
}

std::optional<JobRecord> MemoryRecords::find_job(const std::string& tenant,
                                                 const std::string& job) {
  const auto it = jobs_.find({tenant, job});
  if (it == jobs_.end()) return std::nullopt;
  return it->second;
}

void MemoryRecords::insert_job(JobRecord& job, const Body& body) {
  job.sequence = next_sequence_++;
  put_job(job);
  bodies_[{job.tenant, job.sequence}] = body;
  note_undo([this, key = Key(job.tenant, job.job), sequence = job.sequence] {
    const auto it = jobs_.find(key);
    unindex(it->second);
    jobs_.erase(it);
    bodies_.erase({key.first, sequence});
    next_sequence_ = sequence;
  });
}

void MemoryRecords::update_job(const JobRecord& job) {
  const auto it = jobs_.find({job.tenant, job.job});
  if (it == jobs_.end()) return;
  note_undo([this, before = it->second] { put_job(before); });
  put_job(job);
}

std::optional<Body> MemoryRecords::find_body(const JobRecord& job) {
  const auto it = bodies_.find({job.tenant, job.sequence});
  if (it == bodies_.end()) return std::nullopt;
  return it->second;
}

void MemoryRecords::delete_body(const JobRecord& job) {
  auto body = bodies_.extract({job.tenant, job.sequence});
  if (body.empty()) return;
  note_undo([this, key = body.key(), bytes = std::move(body.mapped())] { bodies_[key] = bytes; });
}

void MemoryRecords::delete_job(const JobRecord& job) {
  delete_body(job);
  const auto it = jobs_.find({job.tenant, job.job});
  if (it == jobs_.end()) return;
  note_undo([this, before = it->second] { put_job(before); });
  unindex(it->second);
  jobs_.erase(it);
}

std::vector<JobName> MemoryRecords::ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) {
  std::vector<JobName> out;
  for (const auto& [ended_us, tenant, job] : ended_) {
    if (ended_us > until_us || out.size() == max_jobs) break;
    out.push_back({tenant, job});
  }
  return out;
}

std::vector<std::string> MemoryRecords::until(const ByTime& jobs, const std::string& tenant,
                                              std::int64_t until_us, std::uint64_t max_jobs) {
  std::vector<std::string> out;
  const auto first = std::numeric_limits<std::int64_t>::min();
  for (auto it = jobs.lower_bound({tenant, first, 0}); it != jobs.end() && out.size() < max_jobs;
       ++it) {
    const auto& [whose, time_us, sequence] = it->first;
    if (whose != tenant || time_us > until_us) break;
    out.push_back(it->second);
  }
  return out;
}

std::vector<std::string> MemoryRecords::due_jobs(const std::string& tenant, std::int64_t until_us,
                                                 std::uint64_t max_jobs) {
  return until(deadlines_, tenant, until_us, max_jobs);
}

std::vector<std::string> MemoryRecords::starting_jobs(const std::string& tenant,
                                                      std::int64_t until_us,
                                                      std::uint64_t max_jobs) {
  return until(starts_, tenant, until_us, max_jobs);
}

std::vector<BatchJob> MemoryRecords::jobs_of_batch(const BatchScan& scan) {
  std::vector<BatchJob> out;
  const auto members = batches_.find({scan.tenant, scan.batch, scan.state});
  if (members == batches_.end()) return out;
  for (auto it = members->second.upper_bound(scan.after);
       it != members->second.end() && out.size() < scan.max_jobs; ++it) {
    const JobRecord& job = *it->second;
    if (scan.uncancelled && job.state == JobState::leased && job.cancel_requested) continue;
    out.push_back({job.sequence, job.job});
  }
  return out;
}

std::vector<JobRecord> MemoryRecords::list_jobs(const std::string& tenant, bool failed,
                                                const std::string& after, std::uint64_t max_jobs) {
  std::vector<JobRecord> out;
  const auto take = [&](const auto& jobs, auto record_of) {
    for (auto it = jobs.upper_bound({tenant, after});
         it != jobs.end() && it->first.first == tenant && out.size() < max_jobs; ++it) {
      out.push_back(record_of(it->second));
    }
  };
  if (failed) {
    take(failed_, [](const JobRecord* job) { return *job; });
  } else {
    take(jobs_, [](const JobRecord& job) { return job; });
  }
  return out;
}

std::vector<JobName> MemoryRecords::jobs_of_incident(std::uint64_t incident) {
  std::vector<JobName> out;
  const auto suspects = incidents_.find(incident);
  if (suspects == incidents_.end()) return out;
  for (const auto& [sequence, job] : suspects->second) out.push_back({job->tenant, job->job});
  return out;
}

// ---- queues

MemoryRecords::QueueName MemoryRecords::queue_of(const JobRecord& job) {
  return {job.tenant, job.among(), job.model, job.kv};
}

void MemoryRecords::enqueue(const JobRecord& job) {
  queues_[queue_of(job)].emplace(
      Place(job.priority, job.sequence),
      QueuedJob{{job.priority, job.sequence}, job.job, job.deadline_us, job.prefix});
  note_undo([this, job] { dequeue(job); });
}

void MemoryRecords::dequeue(const JobRecord& job) {
  const auto queue = queues_.find(queue_of(job));
  if (queue == queues_.end() || queue->second.erase({job.priority, job.sequence}) == 0) return;
  if (queue->second.empty()) queues_.erase(queue);
  note_undo([this, job] { enqueue(job); });
}

std::vector<QueuedJob> MemoryRecords::queued_jobs(const QueueKey& key, std::optional<Place> after,
                                                  std::size_t max_jobs) {
  std::vector<QueuedJob> out;
  const auto queue = queues_.find({key.tenant, key.among, key.model, key.kv});
  if (queue == queues_.end()) return out;
  auto it = after ? queue->second.upper_bound(*after) : queue->second.begin();
  for (; it != queue->second.end() && out.size() < max_jobs; ++it) out.push_back(it->second);
  return out;
}

std::vector<QueuedSuspects> MemoryRecords::suspect_queues(const std::string& tenant) {
  std::map<std::tuple<std::string, std::string, bool, std::string>, SuspectQueue> found;
  for (auto it = queues_.lower_bound({tenant, 1, "", ""}); it != queues_.end(); ++it) {
    const auto& [whose, among, model, kv] = it->first;
    if (whose != tenant) break;
    const bool alone = runs_alone(among);
    for (const auto& [place, queued] : it->second) {
      const JobRecord& job = jobs_.at({tenant, queued.job});
      SuspectQueue& queue = found[{model, kv, alone, job.batch}];
      const std::int64_t since_us = job.suspicion ? job.suspicion->since_us : 0;
      const std::int64_t oldest_us = queue.jobs == 0 ? since_us : queue.oldest_us;
      queue = {model, kv, alone, queue.jobs + 1, std::min(oldest_us, since_us)};
    }
  }
  std::vector<QueuedSuspects> out;
  for (auto& [name, queue] : found) out.push_back({std::move(queue), std::get<3>(name)});
  return out;
}

std::uint32_t MemoryRecords::next_among(const std::string& tenant, std::uint32_t after) {
  const auto it = queues_.lower_bound({tenant, after + 1, "", ""});
  return it == queues_.end() || std::get<0>(it->first) != tenant ? 0 : std::get<1>(it->first);
}

// ---- counts

void MemoryRecords::add_count(const std::string& tenant, const std::string& batch, JobState state,
                              std::int64_t change) {
  const auto [it, fresh] = counts_.try_emplace({tenant, batch});
  it->second[static_cast<std::size_t>(state)] += change;
  note_undo([this, tenant, batch, state, change, fresh] {
    if (fresh) {
      counts_.erase({tenant, batch});
    } else {
      counts_[{tenant, batch}][static_cast<std::size_t>(state)] -= change;
    }
  });
}

StateCounts MemoryRecords::counts(const std::string& tenant, const std::string& batch) {
  const auto it = counts_.find({tenant, batch});
  return it == counts_.end() ? StateCounts{} : it->second;
}

void MemoryRecords::add_ready(const std::string& tenant, const std::string& batch,
                              const std::string& model, const std::string& kv,
                              std::int64_t change) {
  auto& queues = ready_[{tenant, batch}];
  std::int64_t& jobs = queues[{model, kv}];
  jobs += change;
  if (jobs == 0) queues.erase({model, kv});
  if (queues.empty()) ready_.erase({tenant, batch});
  note_undo(
      [this, tenant, batch, model, kv, change] { add_ready(tenant, batch, model, kv, -change); });
}

std::vector<ReadyJobs> MemoryRecords::ready(const std::string& tenant, const std::string& batch) {
  std::vector<ReadyJobs> out;
  const auto queues = ready_.find({tenant, batch});
  if (queues == ready_.end()) return out;
  for (const auto& [queue, jobs] : queues->second) out.push_back({queue.first, queue.second, jobs});
  return out;
}

std::optional<std::string> MemoryRecords::next_tenant(const std::string& after) {
  const Key past(after + '\0', "");  // greater than every key of `after`
  std::optional<std::string> next;
  if (const auto it = counts_.lower_bound(past); it != counts_.end()) next = it->first.first;
  if (const auto it = streams_.lower_bound(past); it != streams_.end()) {
    if (!next || it->first.first < *next) next = it->first.first;
  }
  return next;
}

void MemoryRecords::delete_counts(const std::string& tenant, const std::string& batch) {
  auto counts = counts_.extract({tenant, batch});
  if (counts.empty()) return;
  note_undo([this, key = counts.key(), before = counts.mapped()] { counts_[key] = before; });
}

// ---- leases

void MemoryRecords::put_lease(KeptLease lease) {
  const LeaseRecord& record = lease.record;
  remove_lease(record.lease);
  leases_by_engine_[record.engine].insert(record.lease);
  leases_by_end_.emplace(record.until_us, record.lease);
  leases_[record.lease] = std::move(lease);
}

void MemoryRecords::remove_lease(LeaseId id) {
  const auto it = leases_.find(id);
  if (it == leases_.end()) return;
  const LeaseRecord& record = it->second.record;
  const auto engine = leases_by_engine_.find(record.engine);
  engine->second.erase(id);
  if (engine->second.empty()) leases_by_engine_.erase(engine);
  leases_by_end_.erase({record.until_us, id});
  leases_.erase(it);
}

void MemoryRecords::insert_lease(LeaseRecord& lease) {
  lease.lease = next_lease_++;
  put_lease({lease, caller_.broker});
  note_undo([this, id = lease.lease] {
    remove_lease(id);
    next_lease_ = id;
  });
}

std::optional<LeaseRecord> MemoryRecords::find_lease(LeaseId lease) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return std::nullopt;
  return it->second.record;
}

void MemoryRecords::extend_lease(LeaseId id, std::int64_t until_us) {
  const auto it = leases_.find(id);
  if (it == leases_.end()) return;
  note_undo([this, before = it->second] { put_lease(before); });
  LeaseRecord lease = it->second.record;
  lease.until_us = until_us;
  put_lease({std::move(lease), caller_.broker});
}

void MemoryRecords::delete_lease(LeaseId id) {
  const auto it = leases_.find(id);
  if (it == leases_.end()) return;
  note_undo([this, before = it->second] { put_lease(before); });
  remove_lease(id);
}

std::uint64_t MemoryRecords::count_leases(const std::string& engine) {
  const auto it = leases_by_engine_.find(engine);
  return it == leases_by_engine_.end() ? 0 : it->second.size();
}

std::vector<LeaseRecord> MemoryRecords::all_leases() {
  std::vector<LeaseRecord> out;
  for (const auto& [id, lease] : leases_) out.push_back(lease.record);
  return out;
}

std::vector<LeaseRecord> MemoryRecords::leases_until(std::int64_t until_us) {
  std::vector<LeaseRecord> out;
  for (const auto& [end_us, id] : leases_by_end_) {
    if (end_us > until_us) break;
    out.push_back(leases_.at(id).record);
  }
  return out;
}

std::vector<LeaseRecord> MemoryRecords::leases_of(const std::string& engine) {
  std::vector<LeaseRecord> out;
  const auto it = leases_by_engine_.find(engine);
  if (it == leases_by_engine_.end()) return out;
  for (const LeaseId id : it->second) out.push_back(leases_.at(id).record);
  return out;
}

}  // namespace millrace::broker
