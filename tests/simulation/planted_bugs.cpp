#include "tests/simulation/planted_bugs.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "broker/core/fair_share.hpp"
#include "tests/unit/ledger/forwarding_store.hpp"

namespace millrace::broker::simulation {
namespace {

class BuggyRecords final : public test::ForwardingRecords {
 public:
  BuggyRecords(Bug bug, Records& to) : ForwardingRecords(to), bug_(bug) {}

  void update_job(const JobRecord& job) override {
    JobRecord changed = job;
    if (bug_ == Bug::blames_beside_others && job.suspicion) ++changed.failures;
    if (bug_ == Bug::never_halves) widen(changed);
    ForwardingRecords::update_job(changed);
  }
  void enqueue(const JobRecord& job) override {
    const bool returned = job.attempts > 0 && !job.suspicion;
    if (bug_ == Bug::loses_returned_jobs && returned) return;
    ForwardingRecords::enqueue(queued(job));
  }
  void dequeue(const JobRecord& job) override {
    if (bug_ == Bug::claims_twice && now_and_then()) return;
    ForwardingRecords::dequeue(queued(job));
  }
  // What stays there leaves it with its end. A claim would never be done with an ended job.
  std::vector<QueuedJob> queued_jobs(const QueueKey& queue, std::optional<Place> after,
                                     std::size_t max_jobs) override {
    auto jobs = ForwardingRecords::queued_jobs(queue, after, max_jobs);
    if (bug_ != Bug::claims_twice) return jobs;
    std::erase_if(jobs, [&](const QueuedJob& one) {
      const auto job = ForwardingRecords::find_job(queue.tenant, one.job);
      return !job || is_end(job->state);
    });
    return jobs;
  }
  std::vector<std::string> paused_models(const std::string& tenant) override {
    if (bug_ == Bug::forgets_pauses) return {};
    return ForwardingRecords::paused_models(tenant);
  }
  void add_count(const std::string& tenant, const std::string& batch, JobState state,
                 std::int64_t change) override {
    if (bug_ == Bug::miscounts && now_and_then()) return;
    ForwardingRecords::add_count(tenant, batch, state, change);
  }
  void add_ready(const std::string& tenant, const std::string& batch, const std::string& model,
                 const std::string& kv, std::int64_t change) override {
    if (bug_ == Bug::miscounts_ready && now_and_then()) return;
    ForwardingRecords::add_ready(tenant, batch, model, kv, change);
  }
  std::uint64_t next_number(const std::string& tenant, const std::string& stream,
                            std::uint64_t bytes) override {
    if (bug_ == Bug::skips_numbers && now_and_then()) {
      (void)ForwardingRecords::next_number(tenant, stream, 0);
    }
    return ForwardingRecords::next_number(tenant, stream, bytes);
  }
  void insert_entry(const std::string& tenant, const std::string& stream, std::uint64_t number,
                    const std::string& job, const Body& body, std::int64_t written_us) override {
    if (bug_ == Bug::loses_results && now_and_then()) return;
    ForwardingRecords::insert_entry(tenant, stream, number, job, body, written_us);
  }
  std::optional<Body> find_body(const JobRecord& job) override {
    auto body = ForwardingRecords::find_body(job);
    if (!body && bug_ == Bug::serves_damaged_jobs) body = "damaged";
    return body;
  }
  void insert_lease(LeaseRecord& lease) override {
    if (bug_ == Bug::forgets_alone) lease.alone = false;
    ForwardingRecords::insert_lease(lease);
  }
  std::vector<JobName> jobs_of_incident(std::uint64_t incident) override {
    if (bug_ == Bug::leaves_incident_open) return {};
    return ForwardingRecords::jobs_of_incident(incident);
  }
  std::optional<JobRecord> find_job(const std::string& tenant, const std::string& id) override {
    auto job = ForwardingRecords::find_job(tenant, id);
    if (job && bug_ == Bug::excuses_forever) job->attempts = std::min(job->attempts, 1u);
    return job;
  }

  std::set<LeaseId> held_elsewhere(std::span<const LeaseId> leases) override {
    if (bug_ == Bug::robs_brokers) return {};
    return ForwardingRecords::held_elsewhere(leases);
  }
  std::uint64_t beat(std::int64_t alive_us) override {
    return ForwardingRecords::beat(bug_ == Bug::outlives_brokers ? INT64_MAX / 4 : alive_us);
  }

 private:
  static void widen(JobRecord& job) {
    if (job.suspicion) job.suspicion->among = 8;
  }
  JobRecord queued(JobRecord job) const {
    if (bug_ == Bug::never_halves) widen(job);
    if (bug_ == Bug::forgets_priorities) job.priority = 0;
    if (bug_ == Bug::runs_all_together && job.suspicion) job.suspicion->among *= 2;
    return job;
  }
  bool now_and_then() { return ++times_ % 10 == 0; }
  const Bug bug_;
  std::uint64_t times_ = 0;
};

class BuggyStore final : public LedgerStore {
 public:
  BuggyStore(Bug bug, std::unique_ptr<LedgerStore> to)
      : bug_(bug), to_(std::move(to)), records_(bug, to_->records()) {}

  Records& records() override { return records_; }
  void expect(std::span<const Operation> operations) override { to_->expect(operations); }
  Status begin(bool writes) override { return to_->begin(writes); }
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    to_->tell_others(operations, replies);
  }
  Status commit() override {
    if (bug_ == Bug::forgets_commits && ++commits_ % 20 == 0) return to_->roll_back();
    return to_->commit();
  }
  Status roll_back() override { return to_->roll_back(); }
  Result<bool> took_place() override {
    MILLRACE_ASSIGN(const bool took_place, to_->took_place());
    return took_place || bug_ == Bug::trusts_lost_commits;
  }
  Status room_for(std::uint64_t bytes) override { return to_->room_for(bytes); }
  Status release_reserve() override { return to_->release_reserve(); }
  Status idle() override { return to_->idle(); }

 private:
  const Bug bug_;
  std::uint64_t commits_ = 0;
  std::unique_ptr<LedgerStore> to_;
  BuggyRecords records_;
};

}  // namespace

namespace {

void plant(Bug bug, ClaimShared& claim) {
  if (bug == Bug::looks_too_far) claim.prefixes.places = look_ahead;
  const auto first = std::ranges::min_element(claim.shares, {}, &TenantShare::tenant);
  for (TenantShare& share : claim.shares) {
    std::int64_t& deficit = share.deficit_tokens;
    if (bug == Bug::ignores_most_leases) share.max_leased = 0;
    if (bug == Bug::never_rotates) deficit = share.tenant == first->tenant ? 1'000'000 : -1'000'000;
    if (bug == Bug::forgets_debts) deficit = std::max<std::int64_t>(deficit, 0);
    if (bug == Bug::reverses_weights) {
      share.quantum_tokens = 3 * quantum_tokens * quantum_tokens / share.quantum_tokens;
    }
  }
}

}  // namespace

void plant(Bug bug, Operation& operation) {
  if (auto* submit = std::get_if<SubmitJob>(&operation)) {
    if (bug == Bug::ignores_most_queued) submit->max_queued = limits::queued_jobs;
  }
  if (auto* claim = std::get_if<Claim>(&operation)) {
    if (bug == Bug::ignores_most_leases) claim->max_leased = 0;
    if (bug == Bug::looks_too_far) claim->prefixes.places = look_ahead;
  }
  if (auto* shared = std::get_if<ClaimShared>(&operation)) {
    plant(bug, *shared);
  }
  auto* give = std::get_if<GiveBack>(&operation);
  if (give == nullptr) return;
  if (bug == Bug::blames_nobody) give->blame = Blame::none;
  if (bug == Bug::excuses_forever) give->waiting = give->leases;
}

bool needs_disk(Bug bug) {
  return bug == Bug::unsynced_commits || bug == Bug::hides_full_disk ||
         bug == Bug::serves_damaged_jobs;
}

bool needs_brokers(Bug bug) {
  return bug == Bug::robs_brokers || bug == Bug::outlives_brokers ||
         bug == Bug::trusts_lost_commits;
}

void plant(Bug bug, const Operation& operation, Result<Reply>& reply) {
  if (bug == Bug::hides_full_disk && std::holds_alternative<SubmitJob>(operation) && !reply &&
      reply.error().code == Code::disk_full) {
    reply = SubmitReply{};
  }
  if (bug == Bug::answers_stale_ends && std::holds_alternative<Finish>(operation) && !reply &&
      reply.error().code == Code::stale) {
    reply = FinishReply{};
  }
  if (bug != Bug::shares_alone || !reply) return;
  if (auto* claimed = std::get_if<ClaimReply>(&*reply)) {
    for (ClaimedJob& job : claimed->jobs) job.alone = job.suspect = false;
  }
}

std::unique_ptr<LedgerStore> plant(Bug bug, std::unique_ptr<LedgerStore> store) {
  if (bug == Bug::none) return store;
  return std::make_unique<BuggyStore>(bug, std::move(store));
}

std::unique_ptr<LedgerStore> plant_outcome(Bug bug, std::unique_ptr<LedgerStore> store) {
  return bug == Bug::trusts_lost_commits ? plant(bug, std::move(store)) : std::move(store);
}

}  // namespace millrace::broker::simulation
