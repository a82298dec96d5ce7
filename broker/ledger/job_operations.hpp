#pragma once
// The operations of the ledger on stored jobs that do not hand them out or end them: listing and
// dropping them, and starting those that waited. ledger.hpp says what holds for all operations.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace::broker {

// Lists jobs: one (refused: not_found), those of a batch in the order of their submission, or all
// of the tenant in the order of their ids; of the last two only those that go to `stream` and are
// in `state`, where given. A call looks through at most `max_scanned` jobs. `more` is set where it
// did not come to the end; the next call then has `next` as `after`. A job that stays is listed
// once, whatever happens to it between two calls. Refused: invalid_value (an `after` that no reply
// gave).
struct ListJobs {
  std::string tenant;
  JobsRequest wanted;
  std::uint32_t max_jobs = limits::listed_jobs;
  std::uint32_t max_scanned = limits::scanned_jobs;
  std::uint64_t max_bytes = limits::fetch_bytes;  // of what is listed; the first job may exceed it
};
struct ListJobsReply {
  JobsAnswer answer;
};

// Forgets failed jobs with their bodies, by id or at most max_jobs of a batch: they leave the
// counts, and their ids are not known any more. Their entries stay in the stream. `more` is set
// while some remain.
struct DropJobs {
  std::string tenant;
  std::vector<std::string> jobs;
  std::string batch;
  std::uint32_t max_jobs = 1000;
};
struct DropReply {
  std::uint64_t dropped = 0, not_failed = 0, unknown = 0;
  bool more = false;
};

// Queues jobs whose start has come: those submitted with a time to start, and those that run again
// after an engine's error. Until then they are in no queue. The same for those that were set aside
// and whose batch is paused no more. At most max_jobs of either a call; `more` is set while some
// remain.
struct StartJobs {
  std::string tenant;
  std::uint32_t max_jobs = 1000;
};
struct StartReply {
  std::uint64_t started = 0;   // jobs that are queued now
  std::uint64_t suspects = 0;  // of these
  bool more = false;
};

}  // namespace millrace::broker
