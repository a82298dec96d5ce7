#pragma once
// From a lease to what the executor runs, and from its end to what the broker stores.
// Thread safety: pure functions.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/worker/executor.hpp"

namespace millrace::worker {

// What the result repeats of its job.
struct JobLabel {
  LeaseId lease = 0;
  std::string job, custom_id, model, batch;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> warnings;
  std::uint32_t attempts = 0;
  std::int64_t submitted_us = 0;
};

// Decodes the job, fills `label` as far as it can be read, and derives the seed where none is
// given. Errors: those of decode_job; unknown_model. They end the job as failed.
Result<Task> prepare(const Lease& lease, const ExecutorInfo& info, JobLabel& label);

// The end of a job, encoded. A result beyond limits::result_bytes fails with too_large.
JobEnd job_end(const JobLabel& label, Ended ended, std::int64_t now_us);
JobEnd failed_end(const JobLabel& label, Error error, std::int64_t now_us);
// Cancelled before it ran.
JobEnd cancelled_end(const JobLabel& label, std::int64_t now_us);

}  // namespace millrace::worker
