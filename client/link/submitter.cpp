#include "client/link/submitter.hpp"

#include <algorithm>
#include <utility>

namespace millrace::client {
namespace {

constexpr int lines_at_once = 256;  // between two polls of the socket

// True if the broker has no room for now, so that the job is sent again.
bool is_want_of_room(Code code) {
  return code == Code::overloaded || code == Code::draining || code == Code::disk_full;
}

}  // namespace

Submitter::Submitter(Session& session, const Clock& clock, JobSource& source,
                     SubmitterOptions options)
    : session_(session),
      clock_(clock),
      source_(source),
      options_(options),
      pause_ms_(options.pause_ms) {}

bool Submitter::wants_more() const {
  return !source_is_empty_ && waiting_.empty() && under_way_.size() < options_.messages &&
         !source_.holds_back();
}

Status Submitter::tick() {
  for (int i = 0; i < lines_at_once && wants_more(); ++i) {
    MILLRACE_ASSIGN(const bool more, source_.feed(*this));
    source_is_empty_ = !more;
  }
  flush();
  send_again();
  return {};
}

void Submitter::add(Body job, std::uint64_t tag) {
  gathered_bytes_ += job.size();
  gathered_.jobs.push_back(std::move(job));
  gathered_.tags.push_back(tag);
  ++unanswered_;
  if (gathered_.jobs.size() >= options_.jobs_per_message ||
      gathered_bytes_ >= options_.bytes_per_message) {
    flush();
  }
}

void Submitter::flush() {
  if (gathered_.jobs.empty()) {
    return;
  }
  gathered_bytes_ = 0;
  send(std::exchange(gathered_, {}));
}

void Submitter::send(Batch batch) {
  const std::uint64_t question = session_.ask(Submit{batch.jobs});
  under_way_.emplace(question, std::move(batch));
}

void Submitter::wait_with(Batch batch, const Error& reason) {
  const std::int64_t now = clock_.monotonic_us();
  full_us_ = full_us_.value_or(now);
  if (waiting_.empty()) {
    const std::uint32_t pause_ms = std::max(reason.retry_ms.value_or(0), pause_ms_);
    resume_us_ = now + std::min(pause_ms, limits::retry_most_ms) * us_per_ms;
    pause_ms_ = std::min(pause_ms_ * 2, options_.pause_max_ms);
  }
  pause_reason_ = reason;
  waiting_.push_back(std::move(batch));
}

std::uint64_t Submitter::without_room_ms() const {
  if (!full_us_) {
    return 0;
  }
  return static_cast<std::uint64_t>((clock_.monotonic_us() - *full_us_) / us_per_ms) + 1;
}

void Submitter::send_again() {
  if (waiting_.empty() || clock_.monotonic_us() < resume_us_) {
    return;
  }
  for (Batch& batch : std::exchange(waiting_, {})) {
    send(std::move(batch));
  }
}

Result<bool> Submitter::take(Envelope& answer) {
  const auto found = under_way_.find(answer.id);
  if (found == under_way_.end()) {
    return false;
  }
  Batch batch = std::move(found->second);
  under_way_.erase(found);
  if (const auto* refused = std::get_if<Refused>(&answer.message)) {
    if (is_want_of_room(refused->error.code)) {
      wait_with(std::move(batch), refused->error);
      return true;
    }
    unanswered_ -= batch.tags.size();
    for (std::size_t i = 0; i < batch.tags.size(); ++i) {
      MILLRACE_TRY(
          source_.on_answer({batch.tags[i], SubmitAnswer{.job = {}, .error = refused->error},
                             std::move(batch.jobs[i])}));
    }
    return true;
  }
  auto* submitted = std::get_if<Submitted>(&answer.message);
  if (submitted == nullptr || submitted->answers.size() != batch.jobs.size()) {
    return fail(Code::unexpected_message,
                "the broker's answer does not fit the jobs that were submitted",
                "report it: client and broker disagree on the protocol");
  }
  MILLRACE_TRY(give_answers(std::move(batch), *submitted));
  return true;
}

Status Submitter::give_answers(Batch batch, Submitted& submitted) {
  Batch again;
  Error reason;
  const std::size_t jobs = batch.jobs.size();
  for (std::size_t i = 0; i < batch.jobs.size(); ++i) {
    SubmitAnswer& one = submitted.answers[i];
    if (one.error && is_want_of_room(one.error->code)) {
      reason = *std::move(one.error);
      again.jobs.push_back(std::move(batch.jobs[i]));
      again.tags.push_back(batch.tags[i]);
      continue;
    }
    --unanswered_;
    Body refused = one.error ? std::move(batch.jobs[i]) : Body();
    MILLRACE_TRY(source_.on_answer({batch.tags[i], std::move(one), std::move(refused)}));
  }
  if (again.jobs.size() < jobs) {
    full_us_.reset();
    pause_ms_ = options_.pause_ms;
  }
  if (!again.jobs.empty()) {
    wait_with(std::move(again), reason);
  }
  return {};
}

}  // namespace millrace::client
