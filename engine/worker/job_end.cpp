#include "engine/worker/job_end.hpp"

#include <utility>

#include "schemas/codec.hpp"

namespace millrace::worker {
namespace {

JobEnd encoded(const JobLabel& label, JobResult result, std::int64_t now_us) {
  result.job = label.job;
  result.custom_id = label.custom_id;
  result.model = label.model;
  result.batch = label.batch;
  result.metadata = label.metadata;
  result.warnings = label.warnings;
  result.attempts = label.attempts;
  result.submitted_us = label.submitted_us;
  result.ended_us = now_us;
  return JobEnd{label.lease, result.state, encode_result(result)};
}

JobEnd with_error(const JobLabel& label, JobState state, Error error, std::int64_t now_us) {
  JobResult result;
  result.state = state;
  result.error = std::move(error);
  return encoded(label, std::move(result), now_us);
}

}  // namespace

Result<Task> prepare(const Lease& lease, const ExecutorInfo& info, JobLabel& label) {
  label.lease = lease.lease;
  label.job = lease.job;
  label.attempts = lease.attempt;
  label.submitted_us = lease.submitted_us;
  MILLRACE_ASSIGN(DecodedJob decoded, decode_job(lease.body));
  Job& job = decoded.job;
  label.custom_id = job.custom_id;
  label.model = job.model;
  label.batch = job.batch;
  label.metadata = job.metadata;
  label.warnings = std::move(decoded.warnings);
  if (job.model != "*" && job.model != info.model)
    return fail(
        Code::unknown_model,
        "the job is for model \"" + job.model + "\", this engine serves \"" + info.model + "\"",
        "name the model as an engine serves it, or \"*\" for any");
  if (!job.request.sampling.seed) job.request.sampling.seed = derived_seed(job);
  return Task{lease.lease, std::move(job.custom_id), std::move(job.request), job.priority};
}

JobEnd job_end(const JobLabel& label, Ended ended, std::int64_t now_us) {
  if (ended.error) return failed_end(label, std::move(*ended.error), now_us);
  JobResult result;
  result.state = ended.cancelled ? JobState::cancelled : JobState::completed;
  result.result = std::move(ended.result);
  JobEnd end = encoded(label, std::move(result), now_us);
  if (end.body.size() <= limits::result_bytes) return end;
  return failed_end(label,
                    Error{Code::too_large,
                          "the result has " + std::to_string(end.body.size()) +
                              " bytes, the limit is " + std::to_string(limits::result_bytes),
                          "ask for fewer logprobs, a smaller n or fewer tokens"},
                    now_us);
}

JobEnd failed_end(const JobLabel& label, Error error, std::int64_t now_us) {
  return with_error(label, JobState::failed, std::move(error), now_us);
}

JobEnd cancelled_end(const JobLabel& label, std::int64_t now_us) {
  return with_error(label, JobState::cancelled,
                    Error{Code::cancelled, "the job was cancelled before the engine began it", {}},
                    now_us);
}

}  // namespace millrace::worker
