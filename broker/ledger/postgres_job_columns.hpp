#pragma once
// The columns of a job's row, in the order in which PostgresRecords reads them.

#define MILLRACE_POSTGRES_JOB                                                                  \
  "j.tenant, j.job, j.hash, j.hash_version, j.custom_id, j.model, j.stream, j.batch, j.kv, "   \
  "j.labels, j.priority, j.max_attempts, j.cost_tokens, j.prefix, j.deadline_us, j.sequence, " \
  "j.submitted_us, j.state, j.attempts, j.failures, j.suspect_us, j.incident, j.among, "       \
  "j.cancel, j.number, j.lease, j.ended_us, j.start_us, j.error_code, j.error_message, "       \
  "j.error_hint"
