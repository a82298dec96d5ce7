#include "client/link/result_wait.hpp"

#include <utility>
#include <variant>

#include "client/link/entry_result.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t asked_at_once = 16;  // jobs, beside what the submitter and the reader ask

}  // namespace

Status ResultWait::note_answer(const Submission& submission) {
  const SubmitAnswer& answer = submission.answer;
  if (answer.error) {
    // The refusal of a whole message does not name its jobs, but their bodies do.
    MILLRACE_ASSIGN(const DecodedJob decoded, decode_job(submission.refused));
    const auto waiting = waiting_.find(decoded.job.id);
    if (waiting != waiting_.end() && waiting->second.tag == submission.tag) {
      waiting_.erase(waiting);
    }
    return {};
  }
  const auto waiting = waiting_.find(answer.job);
  if (waiting != waiting_.end() && !waiting->second.ended && answer.known && answer.state &&
      is_end(*answer.state)) {
    waiting->second.ended = true;
    ++ended_;
  }
  return {};
}

Status ResultWait::on_entries(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const auto waiting = waiting_.find(entry.job);
    if (waiting == waiting_.end()) {
      continue;
    }
    const Waiting of = waiting->second;
    waiting_.erase(waiting);
    ended_ -= of.ended ? 1 : 0;
    MILLRACE_TRY(on_result_(of.tag, result_of(entry, reader_.stream())));
  }
  return {};
}

Status ResultWait::on_stream_error(Error error) {
  if (error.code == Code::epoch_changed) {
    error.hint = "submit the jobs again: the broker takes those that it does not hold";
  }
  if (error.code != Code::trimmed || reader_.first_kept() == 0) {
    return fail(std::move(error));
  }
  lost_new_ = lost_new_ || reader_.first_kept() > begin_;
  listed_ = false;
  reader_.move_to(reader_.first_kept());
  return {};
}

// A reader that has caught up after all answers has read every result that the stream holds of the
// jobs that had ended by then.
Status ResultWait::tick() {
  const bool answered = !all_answered_ || all_answered_();
  if (answered && ended_ > 0 && !std::exchange(rewound_, true)) {
    reader_.move_to(1);
  }
  if (answered && !listed_ && reader_.caught_up() && (ended_ > 0 || lost_new_)) {
    list_doubtful();
  }
  while (!doubtful_.empty() && asked_.size() < asked_at_once) {
    const std::uint64_t question =
        session_.ask(StatusRequest{.job = doubtful_.back(), .batch = {}, .stream = {}});
    asked_.emplace(question, std::move(doubtful_.back()));
    doubtful_.pop_back();
  }
  return reader_.tick();
}

void ResultWait::list_doubtful() {
  listed_ = true;
  doubtful_.clear();
  for (const auto& [job, waiting] : waiting_) {
    if (waiting.ended || lost_new_) {
      doubtful_.push_back(job);
    }
  }
}

Result<bool> ResultWait::take(Envelope& answer) {
  const auto asked = asked_.find(answer.id);
  if (asked == asked_.end()) {
    return reader_.take(answer);
  }
  const std::string job = std::move(asked->second);
  asked_.erase(asked);
  MILLRACE_TRY(judge(job, answer.message));
  return true;
}

// A job that waits to run again, or whose result is still to be read, is waited for as before.
Status ResultWait::judge(const std::string& job, Message& answer) {
  if (const auto* status = std::get_if<StatusAnswer>(&answer)) {
    if (status->job_number != 0 && status->job_number < reader_.first_kept()) {
      lose(job);
    }
    return {};
  }
  auto* refused = std::get_if<Refused>(&answer);
  if (refused == nullptr) {
    return fail(Code::unexpected_message,
                "the broker answered a question about a job with another kind of message",
                "report it: client and broker disagree on the protocol");
  }
  if (refused->error.code == Code::overloaded) {
    doubtful_.push_back(job);
    return {};
  }
  if (refused->error.code != Code::not_found) {
    return fail(std::move(refused->error));
  }
  lose(job);  // the broker has forgotten the job, which it does after its end
  return {};
}

void ResultWait::lose(const std::string& job) {
  const auto waiting = waiting_.find(job);
  if (waiting == waiting_.end()) {
    return;  // its result came meanwhile
  }
  ended_ -= waiting->second.ended ? 1 : 0;
  lost_.push_back({waiting->second.tag, job});
  waiting_.erase(waiting);
}

}  // namespace millrace::client
