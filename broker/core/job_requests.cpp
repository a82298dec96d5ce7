#include "broker/core/job_requests.hpp"

#include <utility>

namespace millrace::broker {

namespace {

// Checks that a request names either jobs or one batch.
Status check_named(const char* what, const std::vector<std::string>& jobs,
                   const std::string& batch) {
  if (jobs.empty() == batch.empty()) {
    return fail(Code::invalid_value,
                std::string(what) + ": " +
                    (jobs.empty() ? "neither jobs nor a batch is named"
                                  : "both jobs and a batch are named"),
                "name either jobs or one batch");
  }
  return {};
}

}  // namespace

void JobRequests::answer_if_known(const Asker& asker, const std::string& batch, Message message) {
  answers_.ask(asker, Count{asker.tenant, batch},
               [this, asker, batch, message = std::move(message)](Reply reply) mutable {
                 const bool known = std::get<CountReply>(reply).counts != JobCounts{};
                 known ? answers_.answer(asker, std::move(message))
                       : answers_.refuse(asker, no_batch(batch));
               });
}

void JobRequests::cancel(const Asker& asker, Cancel cancel) {
  if (auto named = check_named("cancel", cancel.jobs, cancel.batch); !named) {
    return answers_.refuse_at_once(asker, std::move(named.error()));
  }
  if (answers_.begin(asker)) cancel_more(asker, std::move(cancel), {});
}

void JobRequests::cancel_more(const Asker& asker, Cancel cancel, Cancelled so_far) {
  CancelJobs operation;
  operation.tenant = asker.tenant;
  operation.jobs = cancel.jobs;
  operation.batch = cancel.batch;
  answers_.ask(asker, std::move(operation),
               [this, asker, cancel = std::move(cancel), so_far](Reply reply) mutable {
                 const auto& r = std::get<CancelReply>(reply);
                 so_far.cancelled += r.cancelled;
                 so_far.requested += r.requested;
                 so_far.ended += r.ended;
                 so_far.unknown += r.unknown;
                 for (const auto& ended : r.numbers) doorbell_.written(ended);
                 engines_.cancel(r.leases);
                 if (r.more) return cancel_more(asker, std::move(cancel), so_far);
                 if (so_far == Cancelled{}) return answer_if_known(asker, cancel.batch, so_far);
                 answers_.answer(asker, so_far);
               });
}

void JobRequests::retry(const Asker& asker, Retry retry) {
  if (auto named = check_named("retry", retry.jobs, retry.batch); !named) {
    return answers_.refuse_at_once(asker, std::move(named.error()));
  }
  if (answers_.begin(asker)) retry_more(asker, std::move(retry), 0, {});
}

void JobRequests::retry_more(const Asker& asker, Retry retry, std::uint64_t after, Retried so_far) {
  RetryJobs operation;
  operation.tenant = asker.tenant;
  operation.jobs = retry.jobs;
  operation.batch = retry.batch;
  operation.after = after;
  answers_.ask(asker, std::move(operation),
               [this, asker, retry = std::move(retry), so_far](Reply reply) mutable {
                 const auto& r = std::get<RetryReply>(reply);
                 so_far.retried += r.retried;
                 out_.tally().of(asker.tenant).retried += r.retried;
                 so_far.not_failed += r.not_failed;
                 so_far.unknown += r.unknown;
                 if (r.retried > 0) dispatcher_.work_arrived(asker.tenant);
                 if (r.more) return retry_more(asker, std::move(retry), r.last, so_far);
                 if (so_far == Retried{}) return answer_if_known(asker, retry.batch, so_far);
                 answers_.answer(asker, so_far);
               });
}

void JobRequests::jobs(const Asker& asker, JobsRequest request) {
  if (!answers_.begin(asker)) return;
  answers_.ask(asker, ListJobs{asker.tenant, std::move(request)}, [this, asker](Reply reply) {
    JobsAnswer found = std::move(std::get<ListJobsReply>(reply).answer);
    for (JobInfo& job : found.jobs) {
      const auto engine = table_.all().find(job.engine);
      if (engine != table_.all().end()) job.engine = engine->second.name;
    }
    answers_.answer(asker, std::move(found));
  });
}

void JobRequests::drop(const Asker& asker, Drop drop) {
  if (auto named = check_named("drop", drop.jobs, drop.batch); !named) {
    return answers_.refuse_at_once(asker, std::move(named.error()));
  }
  if (answers_.begin(asker)) drop_more(asker, std::move(drop), {});
}

void JobRequests::drop_more(const Asker& asker, Drop drop, Dropped so_far) {
  DropJobs operation{asker.tenant, drop.jobs, drop.batch};
  answers_.ask(asker, std::move(operation),
               [this, asker, drop = std::move(drop), so_far](Reply reply) mutable {
                 const auto& r = std::get<DropReply>(reply);
                 so_far.dropped += r.dropped;
                 so_far.not_failed += r.not_failed;
                 so_far.unknown += r.unknown;
                 if (r.more) return drop_more(asker, std::move(drop), so_far);
                 if (so_far == Dropped{}) return answer_if_known(asker, drop.batch, so_far);
                 answers_.answer(asker, so_far);
               });
}

}  // namespace millrace::broker
