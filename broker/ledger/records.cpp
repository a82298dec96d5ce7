// The plain forms of the operations on sets. They work on every store, and say what a faster form
// must do. With them what several stores read alike.
#include "broker/ledger/records.hpp"

#include <algorithm>

#include "broker/ledger/claim_order.hpp"
#include "broker/ledger/queues.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

constexpr std::size_t page_jobs = 64;

// Reads a queue in order, a page at a time.
class QueueReader {
 public:
  QueueReader(Records& records, QueueKey queue) : records_(&records), queue_(std::move(queue)) {
    read({});
  }
  bool done() const { return next_ == page_.size(); }
  const QueuedJob& job() const { return page_[next_]; }
  void step() {
    if (++next_ < page_.size() || page_.size() < page_jobs) return;
    read(page_.back().place);
  }

 private:
  void read(std::optional<Place> after) {
    page_ = records_->queued_jobs(queue_, after, page_jobs);
    next_ = 0;
  }

  Records* records_;
  QueueKey queue_;
  std::vector<QueuedJob> page_;
  std::size_t next_ = 0;
};

// All queues that serve a claim, merged by place.
class MergedQueues {
 public:
  MergedQueues(Records& records, const Claim& claim, std::uint32_t among) {
    for (const QueueName& name : queues_of(claim)) {
      heads_.emplace_back(records, QueueKey{claim.tenant, among, *name.model, *name.kv});
    }
  }
  std::optional<QueuedJob> next() {
    std::erase_if(heads_, [](const QueueReader& head) { return head.done(); });
    const auto first = std::ranges::min_element(
        heads_, {}, [](const QueueReader& head) { return head.job().place; });
    if (first == heads_.end()) return std::nullopt;
    QueuedJob job = first->job();
    first->step();
    return job;
  }

 private:
  std::vector<QueueReader> heads_;
};

}  // namespace

std::optional<JobRecord> Records::known_job(const std::string& tenant, const std::string& job) {
  auto record = find_job(tenant, job);
  if (!record) note_corruption("job '" + job + "' is queued or leased but has no record");
  return record;
}

void Records::read_metadata(std::string_view labels, BatchRecord& batch) {
  auto read = decode_labels(labels);
  if (read) {
    batch.metadata = std::move(read->metadata);
  } else {
    note_corruption("the metadata of batch '" + batch.batch +
                    "' is damaged: " + read.error().message);
  }
}

void Records::store_new(std::span<NewJob> jobs) {
  for (NewJob& job : jobs) {
    if (find_job(job.record.tenant, job.record.job)) continue;
    insert_job(job.record, *job.body);
    job.stored = true;
  }
}

std::vector<std::optional<LeasedJob>> Records::find_leased(std::span<const LeaseId> leases) {
  std::vector<std::optional<LeasedJob>> out(leases.size());
  for (std::size_t i = 0; i < leases.size(); ++i) {
    auto lease = find_lease(leases[i]);
    if (!lease) continue;
    auto job = known_job(lease->tenant, lease->job);
    if (job) out[i] = LeasedJob{*std::move(lease), *std::move(job)};
  }
  return out;
}

std::vector<ClaimableJob> Records::claimable(const Claim& claim, std::uint32_t among,
                                             std::int64_t now_us) {
  std::vector<ClaimableJob> out;
  ClaimRoom room(claim);
  MergedQueues queues(*this, claim, among);
  ClaimOrder order(claim, among, now_us, [&queues] { return queues.next(); });
  while (out.size() < claim.max_jobs) {
    const auto next = order.next();
    if (!next) break;
    auto job = known_job(claim.tenant, next->job);
    if (!job) break;
    auto body = find_body(*job);
    const bool fits = room.take(body ? body->size() : 0, job->cost_tokens);
    out.push_back({*std::move(job), std::move(body)});
    if (!fits || room.used_up()) break;
  }
  return out;
}

std::vector<RenewedLease> Records::renew(const std::string& engine, std::span<const LeaseId> leases,
                                         std::int64_t until_us) {
  std::vector<RenewedLease> out;
  out.reserve(leases.size());
  for (const LeaseId id : leases) {
    const auto lease = find_lease(id);
    if (!lease || lease->engine != engine) {
      out.push_back({id});
      continue;
    }
    extend_lease(id, until_us);
    const auto job = known_job(lease->tenant, lease->job);
    out.push_back({id, true, job && job->cancel_requested});
  }
  return out;
}

}  // namespace millrace::broker
