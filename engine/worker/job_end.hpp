#pragma once
// Converts a lease to a task for the executor, and the end of a task to the JobEnd that the broker
// publishes. Thread safety: pure functions.
#include "engine/worker/executor.hpp"

namespace millrace::worker {

// Decodes the job, and derives a seed when it has none. Errors: those of decode_job;
// unknown_model. The job then fails with that error.
Result<Task> prepare(const Lease& lease, const ExecutorInfo& info);

// Encodes the result. A job whose result exceeds limits::result_bytes fails with too_large.
JobEnd job_end(Ended ended);
JobEnd failed_end(LeaseId lease, Error error);
JobEnd cancelled_end(LeaseId lease);  // of a job that was cancelled before it ran

}  // namespace millrace::worker
