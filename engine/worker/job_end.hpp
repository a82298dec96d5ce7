#pragma once
// From a lease to what the executor runs, and from its end to what the broker publishes.
// Thread safety: pure functions.
#include "engine/worker/executor.hpp"

namespace millrace::worker {

// Decodes the job, and derives the seed where it gives none. Errors: those of decode_job;
// unknown_model. They end the job as failed.
Result<Task> prepare(const Lease& lease, const ExecutorInfo& info);

// The end of a job, encoded. A result beyond limits::result_bytes fails with too_large.
JobEnd job_end(Ended ended);
JobEnd failed_end(LeaseId lease, Error error);
JobEnd cancelled_end(LeaseId lease);  // before it ran

}  // namespace millrace::worker
