#pragma once
// The messages about stored jobs and batches: cancelling, retrying, dropping and listing jobs,
// pausing and resuming them, listing, closing and labelling batches.
// messages.hpp says what holds for all messages. Thread safety: plain values.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/job.hpp"

namespace millrace {

struct Cancel {  // jobs by id, or a whole batch
  std::vector<std::string> jobs;
  std::string batch;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};
struct Cancelled {
  std::uint64_t cancelled = 0;  // were queued, and ended at once
  std::uint64_t requested = 0;  // are leased; their engines are told and end them
  std::uint64_t ended = 0;      // had already ended
  std::uint64_t unknown = 0;
  friend bool operator==(const Cancelled&, const Cancelled&) = default;
};
struct Retry {  // queues failed jobs again, by id or all of a batch
  std::vector<std::string> jobs;
  std::string batch;
  friend bool operator==(const Retry&, const Retry&) = default;
};
struct Retried {
  std::uint64_t retried = 0, not_failed = 0, unknown = 0;
  friend bool operator==(const Retried&, const Retried&) = default;
};
// Forgets failed jobs, by id or all of a batch. Their results stay in the stream.
struct Drop {
  std::vector<std::string> jobs;
  std::string batch;
  friend bool operator==(const Drop&, const Drop&) = default;
};
struct Dropped {
  std::uint64_t dropped = 0, not_failed = 0, unknown = 0;
  friend bool operator==(const Dropped&, const Dropped&) = default;
};
struct JobInfo {  // a job as it is listed
  std::string job, custom_id, model, stream, batch;
  JobState state = JobState::queued;
  std::uint32_t priority = 0;
  std::uint32_t attempts = 0;      // hand-outs
  std::uint32_t failures = 0;      // of engines, counted against the job
  std::uint32_t max_attempts = 0;  // the most failures
  bool suspect = false;            // engines died with it and with others
  std::int64_t submitted_us = 0;
  std::optional<std::int64_t> not_before_us;  // it waits for this time
  bool paused = false;  // it is queued, and its batch, its model or all jobs are paused
  std::optional<std::int64_t> deadline_us;
  std::optional<std::int64_t> ended_us;
  std::uint64_t number = 0;    // of its result in its stream; 0: none
  std::string engine;          // that runs it
  std::optional<Error> error;  // why it failed, or why it is to run again
  friend bool operator==(const JobInfo&, const JobInfo&) = default;
};
struct JobsRequest {  // one job, or all that have what is named
  std::string job{};
  std::string batch{}, stream{};    // empty: any
  std::optional<JobState> state{};  // none: any
  std::string after{};              // `next` of the answer before
  friend bool operator==(const JobsRequest&, const JobsRequest&) = default;
};
struct JobsAnswer {
  std::vector<JobInfo> jobs;
  bool more = false;  // ask again, with `next` as `after`
  std::string next;
  friend bool operator==(const JobsAnswer&, const JobsAnswer&) = default;
};

struct BatchState {  // a batch as it is listed
  std::string batch;
  JobCounts counts;
  std::int64_t created_us = 0;  // when its first job was stored
  bool closed = false;          // it takes no new jobs
  // Since when it is closed and all its jobs have ended; a retry takes it back.
  std::optional<std::int64_t> finished_us;
  bool paused = false;       // it, or all jobs: those that are queued stay so
  std::uint64_t number = 0;  // of the entry that tells so in the stream `batches`; 0: none
  std::string stream;        // of its first job
  std::uint64_t first = 0;   // its results in that stream have no lower numbers; 0: unknown
  std::map<std::string, std::string> metadata;
  double jobs_per_second = 0;          // that ended, in the last minutes
  std::optional<std::uint64_t> eta_s;  // until all have ended, at that rate
  friend bool operator==(const BatchState&, const BatchState&) = default;
};
struct BatchesRequest {     // one batch, or all in order of their names
  std::string batch{};      // empty: all
  std::string after{};      // only those whose names come after it
  bool unfinished = false;  // only those with jobs that have not ended
  friend bool operator==(const BatchesRequest&, const BatchesRequest&) = default;
};
struct BatchesAnswer {
  std::vector<BatchState> batches;
  bool more = false;  // ask again, after `next`
  std::string next{};
  friend bool operator==(const BatchesAnswer&, const BatchesAnswer&) = default;
};
struct ChangeBatch {
  std::string batch{};
  bool close = false;
  std::map<std::string, std::string> metadata{};  // to set; an empty value removes the name
  friend bool operator==(const ChangeBatch&, const ChangeBatch&) = default;
};
struct BatchChanged {
  BatchState batch;
  friend bool operator==(const BatchChanged&, const BatchChanged&) = default;
};

// Pauses or resumes one batch, the queued jobs for one model, or all jobs of the tenant: exactly
// one of the three is named.
struct ChangePause {
  std::string batch{}, model{};
  bool all = false;
  bool paused = true;  // false: resumes
  friend bool operator==(const ChangePause&, const ChangePause&) = default;
};
struct PauseChanged {
  bool changed = false;  // false: it was so before
  friend bool operator==(const PauseChanged&, const PauseChanged&) = default;
};

// The stream whose entries tell that batches have finished.
inline constexpr const char* batches_stream = "batches";

}  // namespace millrace
