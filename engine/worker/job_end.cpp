#include "engine/worker/job_end.hpp"

#include <utility>

#include "schemas/codec.hpp"

namespace millrace::worker {

Result<Task> prepare(const Lease& lease, const ExecutorInfo& info) {
  MILLRACE_ASSIGN(DecodedJob decoded, decode_job(lease.body));
  Job& job = decoded.job;
  const std::string& model = info.engine.facts.model;
  if (job.model != "*" && job.model != model) {
    return fail(Code::unknown_model,
                "the job is for model \"" + job.model + "\", this engine serves \"" + model + "\"",
                "name a model that an engine serves, or \"*\" for any");
  }
  if (!job.request.sampling.seed) job.request.sampling.seed = derived_seed(job);
  Task task{
      lease.lease, std::move(job.custom_id), std::move(job.request), job.priority, lease.prefix,
      lease.job};
  task.submitted_us = lease.submitted_us;
  if (const auto trace = job.metadata.find("traceparent"); trace != job.metadata.end()) {
    task.traceparent = trace->second;
  }
  if (const auto state = job.metadata.find("tracestate"); state != job.metadata.end()) {
    task.tracestate = state->second;
  }
  return task;
}

JobEnd job_end(Ended ended) {
  if (ended.error) return failed_end(ended.lease, std::move(*ended.error));
  const JobState state = ended.cancelled ? JobState::cancelled : JobState::completed;
  JobEnd end{ended.lease, state, encode_generation(ended.result), {}};
  if (end.result.size() <= limits::result_bytes) return end;
  return failed_end(ended.lease,
                    Error{Code::too_large,
                          "the result has " + std::to_string(end.result.size()) +
                              " bytes, the limit is " + std::to_string(limits::result_bytes),
                          "ask for fewer logprobs, a smaller n or fewer tokens"});
}

JobEnd failed_end(LeaseId lease, Error error) {
  return {lease, JobState::failed, {}, std::move(error)};
}

JobEnd cancelled_end(LeaseId lease) {
  return {lease,
          JobState::cancelled,
          {},
          Error{Code::cancelled, "the job was cancelled before the engine began it", {}}};
}

}  // namespace millrace::worker
