#pragma once
// Submits jobs in bulk: gathers them into messages, keeps a few messages under way, and sends again
// what the broker had no room for, after a growing pause. An answer means on disk.
// Errors: what the broker refuses a whole message with, given to each of its jobs.
// Thread safety: one thread.
#include <cstdint>
#include <map>
#include <vector>

#include "client/link/session.hpp"

namespace millrace::client {

struct SubmitterOptions {
  std::uint32_t messages = 4;  // under way at once
  std::uint32_t jobs_per_message = 1'000;
  std::uint64_t bytes_per_message = 2 * limits::MiB;
  std::uint32_t pause_ms = 100;  // first pause when the broker is full; doubles
  std::uint32_t pause_max_ms = 5'000;
};

struct Submission {
  std::uint64_t tag = 0;  // the caller's
  SubmitAnswer answer;
  Body refused;  // the job, where the answer is an error
};

class Submitter {
 public:
  Submitter(Session& session, const Clock& clock, SubmitterOptions options = {});

  bool has_room() const;  // for another job; false is backpressure
  void add(Body job, std::uint64_t tag);
  void flush();  // sends what is gathered without waiting for a full message
  void tick();   // sends again what was refused for want of room, once its pause is over
  // Takes the answer if it is ours. False: another's.
  Result<bool> take(Envelope& answer, std::vector<Submission>& done);

  std::uint64_t unanswered() const { return unanswered_; }
  bool paused() const { return !waiting_.empty(); }
  const Error& pause_reason() const { return pause_reason_; }

 private:
  struct Batch {
    std::vector<Body> jobs;
    std::vector<std::uint64_t> tags;
  };
  void send(Batch batch);
  void wait_with(Batch batch, const Error& reason);

  Session& session_;
  const Clock& clock_;
  SubmitterOptions options_;
  Batch gathered_;
  std::uint64_t gathered_bytes_ = 0;
  std::map<std::uint64_t, Batch> under_way_;  // by question
  std::vector<Batch> waiting_;
  std::int64_t resume_us_ = 0;
  std::uint32_t pause_ms_;
  std::uint64_t unanswered_ = 0;
  Error pause_reason_;
};

}  // namespace millrace::client
