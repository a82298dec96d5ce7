#include "broker/core/results.hpp"

#include <algorithm>

#include "schemas/base/number_text.hpp"

namespace millrace::broker {
namespace {

Status check_result(const JobEnd& end, const JobResult& result, const JobFacts& facts) {
  if (end.state != JobState::completed && end.state != JobState::failed &&
      end.state != JobState::cancelled) {
    return fail(Code::invalid_value, "an engine cannot end a job as queued, leased or expired");
  }
  if (result.state != end.state) {
    return fail(Code::invalid_value, "the result's state is not that of the message around it");
  }
  if (!facts.job.empty() && !result.job.empty() && result.job != facts.job) {
    return fail(Code::invalid_value, "the result is of job " + result.job);
  }
  if (end.state == JobState::completed && !result.result) {
    return fail(Code::missing_field, "a completed job without a result");
  }
  if (end.state == JobState::failed && !result.error) {
    return fail(Code::missing_field, "a failed job without an error");
  }
  return {};
}

EngineResult unusable(const JobFacts& facts, const Error& error) {
  Error told{Code::engine_failed, "the engine's result cannot be used: " + error.message,
             "update or report the engine; retry the job on another"};
  return {JobState::failed, ended_body(facts, JobState::failed, std::move(told)), false};
}

Error end_error(const EndingJob& job, Code reason) {
  switch (reason) {
    case Code::cancelled:
      return {reason, "the job was cancelled before an engine began it", {}};
    case Code::expired:
      return {reason, "the deadline passed before the job ended", "give a later deadline"};
    case Code::engine_died:
      return {reason,
              "the engine died " + times_text(job.failures) +
                  " while it ran this job and no other (handed out " + times_text(job.attempts) +
                  ")",
              "look at the engine's log; a broker's `millrace retry` queues the job again"};
    default:
      return {reason, std::string(code_summary(reason)), {}};
  }
}

}  // namespace

Body ended_body(const JobFacts& facts, JobState state, Error error) {
  JobResult result;
  result.job = facts.job;
  result.custom_id = facts.custom_id;
  result.model = facts.model;
  result.batch = facts.batch;
  result.state = state;
  result.error = std::move(error);
  result.attempts = facts.attempts;
  result.submitted_us = facts.submitted_us;
  result.ended_us = facts.ended_us;
  result.metadata = facts.metadata;
  result.warnings = facts.warnings;
  return encode_result(result);
}

JobFacts facts_of(const Body& job_body) {
  JobFacts facts;
  auto decoded = decode_job(job_body);
  if (!decoded) return facts;
  facts.custom_id = std::move(decoded->job.custom_id);
  facts.model = std::move(decoded->job.model);
  facts.batch = std::move(decoded->job.batch);
  facts.stream = std::move(decoded->job.stream);
  facts.metadata = std::move(decoded->job.metadata);
  facts.warnings = std::move(decoded->warnings);
  return facts;
}

Body end_body(const EndingJob& job, JobState state, Code reason, std::int64_t now_us) {
  auto facts = facts_of(job.body);
  facts.job = job.job;
  facts.custom_id = job.custom_id;
  facts.model = job.model;
  facts.attempts = job.attempts;
  facts.submitted_us = job.submitted_us;
  facts.ended_us = now_us;
  return ended_body(facts, state, end_error(job, reason));
}

EngineResult complete_result(const JobEnd& end, const JobFacts& facts) {
  if (end.body.size() > limits::result_bytes) {
    return unusable(facts, {Code::too_large,
                            std::to_string(end.body.size()) + " bytes, the limit is " +
                                std::to_string(limits::result_bytes),
                            {}});
  }
  auto result = decode_result(end.body);
  if (!result) return unusable(facts, result.error());
  if (auto checked = check_result(end, *result, facts); !checked) {
    return unusable(facts, checked.error());
  }
  if (!facts.job.empty()) result->job = facts.job;
  if (!facts.custom_id.empty()) result->custom_id = facts.custom_id;
  if (!facts.model.empty()) result->model = facts.model;
  if (!facts.batch.empty()) result->batch = facts.batch;
  if (facts.attempts > 0) result->attempts = facts.attempts;
  if (facts.submitted_us > 0) result->submitted_us = facts.submitted_us;
  if (result->metadata.empty()) result->metadata = facts.metadata;
  if (result->warnings.empty()) result->warnings = facts.warnings;
  result->ended_us = facts.ended_us;
  return {end.state, encode_result(*result), true};
}

}  // namespace millrace::broker
