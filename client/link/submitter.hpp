#pragma once
// Submits the jobs of a source in bulk: gathers them into messages, keeps a few messages in flight,
// and sends again what the broker had no room for. The pause before that grows as long as the
// broker takes no job, and is never shorter than its refusal suggests. An answer says that the job
// is on disk, or why it was refused. If the broker refuses a whole message, each of its jobs gets
// that error.
// Errors: unexpected_message (the broker's answer does not fit the jobs), and those of the source.
// Thread safety: one thread.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "client/link/event_loop.hpp"

namespace millrace::client {

struct SubmitterOptions {
  std::uint32_t messages = 4;  // in flight at once
  std::uint32_t jobs_per_message = 1'000;
  std::uint64_t bytes_per_message = 2 * limits::MiB;
  // First pause when the broker is full; doubles until it takes a job.
  std::uint32_t pause_ms = 100;
  std::uint32_t pause_max_ms = 5'000;
};

struct Submission {
  std::uint64_t tag = 0;  // the one given to add()
  SubmitAnswer answer;
  Body refused;  // the job, if the answer is an error
};

class Submitter;

class JobSource {
 public:
  virtual ~JobSource() = default;
  // Reads one line and adds its job, if it has one to submit. False: there are no more lines.
  virtual Result<bool> feed(Submitter& submitter) = 0;
  virtual bool holds_back() const { return false; }  // true: feed() must wait
  virtual Status on_answer(const Submission& submission) = 0;
};

class Submitter final : public EventHandler {
 public:
  Submitter(Session& session, const Clock& clock, JobSource& source, SubmitterOptions options = {});

  void add(Body job, std::uint64_t tag);  // called by feed(); the answer carries `tag`

  Status tick() override;
  bool busy() const override { return session_.ready() && wants_more(); }
  Result<bool> take(Envelope& answer) override;

  bool done() const { return source_is_empty_ && unanswered_ == 0; }
  // How long the broker has had no room since it took a job. 0: it has, or has not answered yet.
  std::uint64_t without_room_ms() const;
  const Error& pause_reason() const { return pause_reason_; }  // why it had none

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
  std::optional<std::int64_t> full_us_;  // since when the broker has no room
  std::uint32_t pause_ms_;
  std::uint64_t unanswered_ = 0;
  Error pause_reason_;
};

}  // namespace millrace::client
