#pragma once
// Long jobs first, where little is left: otherwise the last job to be handed out may be a long one,
// and the engines wait for it alone.
//
// A tail is what is left of a closed batch, or of all jobs of a tenant, once at most W jobs of it
// are ready for the claim: W is its `tail_jobs`, what the engines could hold at once. Ready are
// those that it could hand out: suspects, jobs that wait for a time, jobs of other models and
// whatever is paused do not count, however many they are. Where a claim comes to a job of a tail,
// it hands out another one of that tail that has the same priority and that it could hand out: the
// one that costs most, if this is at least twice as much, and of equal ones the one that was
// submitted first. Where no job is so much longer, the order of claims counts, which keeps prompts
// that begin alike together. The job that was passed keeps its place.
//
// So priorities, tenants, turns and shares count as ever. And nobody starves:
//   - a closed batch gets no new jobs. Where all its jobs that are left are ready, each lets at
//   most
//     W - 1 of them pass, and so does a job of the tenant that is queued among them;
//   - other jobs of a batch may become ready later, and a tenant may go on submitting. There a job
//     lets only those pass that are less than W submissions behind the first job that the claim
//     comes to, so at most W - 1 later ones more than the order of claims lets pass
//     (claim_order.hpp), whatever comes.
// Of a batch, jobs that are not ready may stand before the others. A claim looks at the first 2 W
// queued jobs of the batch; where these are not ready, the order of claims counts.
// Thread safety: use it within one operation of one transaction.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/records.hpp"
#include "broker/ledger/transitions.hpp"

namespace millrace::broker {

// The tails of one tenant in one claim.
class Tails {
 public:
  Tails(Records& records, Transitions& transitions, std::string tenant)
      : records_(records), transitions_(transitions), tenant_(std::move(tenant)) {}

  // The job that goes out in the place of this one, which the claim would hand out next. None: this
  // one itself.
  std::optional<JobRecord> instead_of(const JobRecord& place, const Claim& claim);

 private:
  struct Pool {
    bool tail = false;
    std::uint64_t below = UINT64_MAX;  // jobs with a smaller sequence take part
    std::vector<JobRecord> jobs;       // the next one last
  };
  Pool& pool_of(const JobRecord& place, const Claim& claim);
  bool is_tenant_tail(const Claim& claim);
  bool is_batch_tail(const std::string& batch, const Claim& claim);
  std::vector<JobRecord> ready_of_tenant(const Claim& claim);
  std::vector<JobRecord> ready_of_batch(Pool& pool, const JobRecord& place, const Claim& claim);
  bool may_take(const JobRecord& job, const Claim& claim);

  Records& records_;
  Transitions& transitions_;
  const std::string tenant_;
  std::optional<bool> tenant_tail_;
  // By batch, "" in the tail of the tenant, and priority.
  std::map<std::pair<std::string, std::uint32_t>, Pool> pools_;
};

}  // namespace millrace::broker
