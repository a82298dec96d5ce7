#pragma once
// Submits the jobs of a source in bulk: gathers them into messages, keeps a few messages under way,
// and sends again what the broker had no room for, after a growing pause. An answer means that the
// job is on disk, or why it is not. What the broker refuses a whole message with is the error of
// each of its jobs.
// Errors: unexpected_message (the broker's answer does not fit the jobs), and those of the source.
// Thread safety: one thread.
#include <cstdint>
#include <map>
#include <vector>

#include "client/link/event_loop.hpp"

namespace millrace::client {

struct SubmitterOptions {
  std::uint32_t messages = 4;  // under way at once
  std::uint32_t jobs_per_message = 1'000;
  std::uint64_t bytes_per_message = 2 * limits::MiB;
  std::uint32_t pause_ms = 100;  // first pause when the broker is full; doubles
  std::uint32_t pause_max_ms = 5'000;
};

struct Submission {
  std::uint64_t tag = 0;  // as it was added with
  SubmitAnswer answer;
  Body refused;  // the job, where the answer is an error
};

class Submitter;

class JobSource {
 public:
  virtual ~JobSource() = default;
  // Reads one line, and adds its job where it holds one that is to be submitted. False: there are
  // no more lines.
  virtual Result<bool> feed(Submitter& submitter) = 0;
  virtual bool holds_back() const { return false; }  // true: it is not to be fed from for now
  virtual Status on_answer(const Submission& submission) = 0;
};

class Submitter final : public EventHandler {
 public:
  Submitter(Session& session, const Clock& clock, JobSource& source, SubmitterOptions options = {});

  void add(Body job, std::uint64_t tag);  // by the source; `tag` comes back with the answer

  Status tick() override;
  bool busy() const override { return session_.ready() && wants_more(); }
  Result<bool> take(Envelope& answer) override;

  bool done() const { return source_is_empty_ && unanswered_ == 0; }
  bool paused() const { return !waiting_.empty(); }  // the broker has no room
  const Error& pause_reason() const { return pause_reason_; }

 private:
  struct Batch {
    std::vector<Body> jobs;
    std::vector<std::uint64_t> tags;
  };
  bool wants_more() const;
  void flush();
  void send(Batch batch);
  void send_again();
  Status give_answers(Batch batch, Submitted& submitted);
  void wait_with(Batch batch, const Error& reason);

  Session& session_;
  const Clock& clock_;
  JobSource& source_;
  SubmitterOptions options_;
  bool source_is_empty_ = false;
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
