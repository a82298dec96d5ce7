#include "tests/simulation/order_checks.hpp"

#include <algorithm>
#include <utility>

namespace millrace::broker::simulation {
namespace {

const Claim* claim_of(const Operation& operation) {
  if (const auto* shared = std::get_if<ClaimShared>(&operation)) return shared;
  return std::get_if<Claim>(&operation);
}

// Whether a job that was ready before and after it may not have been so in between.
bool hides_jobs(const Operation& operation) {
  return std::holds_alternative<Pause>(operation) || std::holds_alternative<Resume>(operation);
}

}  // namespace

OrderChecks::OrderChecks(Ask ask, std::function<void(std::string)> violation,
                         const TenantTable& tenants, std::uint64_t look_ahead)
    : ask_(std::move(ask)),
      violation_(std::move(violation)),
      tenants_(tenants),
      look_ahead_(look_ahead) {}

void OrderChecks::know(const std::string& job, const std::string& tenant, std::uint32_t priority) {
  jobs_[job] = {tenant, priority};
}

std::set<std::string> OrderChecks::ready_jobs() {
  std::set<std::string> out;
  for (const auto& [tenant, limits] : tenants_) {
    ListJobs list;
    list.tenant = tenant;
    list.wanted.state = JobState::queued;
    const auto reply = ask_(list);
    if (!reply) {
      violation_("no list of jobs: " + reply.error().text());
      return out;
    }
    for (const JobInfo& job : std::get<ListJobsReply>(*reply).answer.jobs) {
      if (!job.suspect && !job.paused && !job.not_before_us) out.insert(job.job);
    }
  }
  return out;
}

// Of a job that was stored by a commit that nobody answered, the place is not known, also when it
// is submitted again. Those that came after it seem to be less far behind those before it than
// they are.
void OrderChecks::submitted(const std::string& job, bool known) {
  if (known) return;
  const std::uint64_t place = stored_.size();
  if (stored_.insert(job).second) jobs_.at(job).place = place;
}

void OrderChecks::begins(std::span<const Operation> operations) {
  claims_ = look_ahead_ > 0 && std::ranges::any_of(operations, claim_of) &&
            std::ranges::none_of(operations, hides_jobs);
  if (claims_) before_ = ready_jobs();
}

void OrderChecks::carried_out(std::span<const Operation> operations,
                              std::span<const Result<Reply>> replies) {
  if (look_ahead_ == 0) return;
  std::map<std::string, std::uint64_t> given;  // jobs, with the most places that they may pass
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!replies[i]) continue;
    if (const auto* submit = std::get_if<SubmitJob>(&operations[i])) {
      submitted(submit->id, std::get<SubmitReply>(*replies[i]).known);
    }
    const Claim* claim = claim_of(operations[i]);
    if (claim == nullptr) continue;
    for (const ClaimedJob& job : std::get<ClaimReply>(*replies[i]).jobs) {
      given[job.job] = job.suspect ? UINT64_MAX : look_ahead_ + claim->tail_jobs;
    }
  }
  if (!std::exchange(claims_, false)) return;
  for (const std::string& left : ready_jobs()) {
    if (!before_.contains(left) || given.contains(left)) continue;
    for (const auto& [job, most] : given) {
      if (most != UINT64_MAX) handed_out(job, left, most);
    }
  }
}

void OrderChecks::handed_out(const std::string& job, const std::string& left, std::uint64_t most) {
  const Known& taken = jobs_.at(job);
  const Known& passed = jobs_.at(left);
  if (taken.tenant != passed.tenant || taken.priority < passed.priority) return;
  if (taken.priority > passed.priority) {
    return violation_(job + " was handed out before " + left + ", which has a smaller priority");
  }
  if (!taken.place || !passed.place || *taken.place < *passed.place) return;
  ++overtaken_;
  const std::uint64_t places = *taken.place - *passed.place;
  if (places < most) return;
  violation_(left + " was overtaken by " + job + ", which came " + std::to_string(places) +
             " places later");
}

}  // namespace millrace::broker::simulation
