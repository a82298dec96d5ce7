#include "broker/core/results.hpp"

#include <utility>

#include "schemas/base/number_text.hpp"
#include "schemas/base/utf8.hpp"
#include "schemas/validate.hpp"

namespace millrace::broker {
namespace {

Status check_end(const JobEnd& end) {
  if (end.state != JobState::completed && end.state != JobState::failed &&
      end.state != JobState::cancelled) {
    return fail(Code::invalid_value, "an engine cannot end a job as queued, leased or expired");
  }
  if (end.state == JobState::completed && end.result.empty()) {
    return fail(Code::missing_field, "the job completed without a result");
  }
  if (end.state == JobState::completed && end.error) {
    return fail(Code::invalid_value, "the job completed with an error");
  }
  if (end.state == JobState::failed && !end.error) {
    return fail(Code::missing_field, "the job failed without an error");
  }
  if (end.result.empty()) return {};
  return validate(end.result, result_bounds);
}

// Cuts a text of an engine to its limit and says so at its end.
void shorten(std::string& text) {
  const std::size_t bytes = text.size();
  if (bytes <= limits::error_text_bytes) return;
  text.resize(utf8_complete_prefix(std::string_view(text).substr(0, limits::error_text_bytes)));
  text += "... (the broker cut this text of " + std::to_string(bytes) + " bytes)";
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
              "look at the engine's log; `millrace retry` queues the job of a broker again"};
    default:
      return {reason, std::string(code_summary(reason)), {}};
  }
}

// The error of a job whose labels are damaged; `end` is how it would have ended.
Error damaged_labels(const JobResult& end, const Error& damage) {
  std::string message = "the ledger's copy of the job's metadata and warnings is damaged (" +
                        damage.message + "); apart from that the job ended as " +
                        std::string(wire_name(end.state));
  if (end.error) message += " with " + end.error->text();
  return {Code::ledger_corrupt, std::move(message),
          "restore the ledger from a backup, or submit the job again under another id"};
}

}  // namespace

Body labels_of(const DecodedJob& decoded) {
  return encode_labels({decoded.job.metadata, decoded.warnings});
}

Published published_end(const EndingJob& job, const Outcome& outcome) {
  JobResult end;
  end.job = job.job;
  end.custom_id = job.custom_id;
  end.model = job.model;
  end.batch = job.batch;
  end.state = outcome.state;
  end.error = outcome.reason ? end_error(job, *outcome.reason) : outcome.error;
  end.attempts = job.attempts;
  end.submitted_us = job.submitted_us;
  end.ended_us = outcome.ended_us;
  if (auto labels = decode_labels(job.labels)) {
    end.warnings = std::move(labels->warnings);
    end.metadata = std::move(labels->metadata);
  } else {
    end.error = damaged_labels(end, labels.error());
    end.state = JobState::failed;
  }
  Body body = encode_result(end, outcome.result);
  return {std::move(body), end.state, std::move(end.error)};
}

Body published_refusal(const std::string& job, const std::string& custom_id, Error error,
                       std::int64_t now_us) {
  JobResult end;
  end.job = job;
  end.custom_id = custom_id;
  end.state = JobState::failed;
  end.error = std::move(error);
  end.ended_us = now_us;
  return encode_result(end);
}

EngineEnd finish_of(JobEnd end, const std::string& engine) {
  if (auto checked = check_end(end); !checked) {
    Error told{Code::engine_failed,
               "the engine's result cannot be used: " + checked.error().message,
               "update the engine or report the fault; retry the job on another engine"};
    return {{end.lease, JobState::failed, {}, engine, std::move(told)}, false};
  }
  if (end.error) {
    shorten(end.error->message);
    shorten(end.error->hint);
  }
  return {{end.lease, end.state, std::move(end.result), engine, std::move(end.error)}, true};
}

}  // namespace millrace::broker
