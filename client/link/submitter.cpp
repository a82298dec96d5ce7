#include "client/link/submitter.hpp"

#include <algorithm>
#include <utility>

namespace millrace::client {
namespace {

constexpr std::int64_t us_per_ms = 1'000;

// Not the job's fault, and likely to pass.
bool is_want_of_room(Code code) {
  return code == Code::overloaded || code == Code::draining || code == Code::disk_full;
}

}  // namespace

Submitter::Submitter(Session& session, const Clock& clock, SubmitterOptions options)
    : session_(session), clock_(clock), options_(options), pause_ms_(options.pause_ms) {}

bool Submitter::has_room() const {
  return waiting_.empty() && under_way_.size() < options_.messages;
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
  if (waiting_.empty()) {
    resume_us_ = clock_.monotonic_us() + pause_ms_ * us_per_ms;
    pause_ms_ = std::min(pause_ms_ * 2, options_.pause_max_ms);
  }
  pause_reason_ = reason;
  waiting_.push_back(std::move(batch));
}

void Submitter::tick() {
  if (waiting_.empty() || clock_.monotonic_us() < resume_us_) {
    return;
  }
  for (Batch& batch : std::exchange(waiting_, {})) {
    send(std::move(batch));
  }
}

Result<bool> Submitter::take(Envelope& answer, std::vector<Submission>& done) {
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
    for (std::size_t i = 0; i < batch.tags.size(); ++i) {
      done.push_back({batch.tags[i], SubmitAnswer{.job = {}, .error = refused->error},
                      std::move(batch.jobs[i])});
    }
    unanswered_ -= batch.tags.size();
    return true;
  }
  auto* submitted = std::get_if<Submitted>(&answer.message);
  if (submitted == nullptr || submitted->answers.size() != batch.jobs.size()) {
    return fail(Code::unexpected_message,
                "the broker's answer does not fit the jobs that were submitted",
                "report it: client and broker disagree on the protocol");
  }
  Batch again;
  for (std::size_t i = 0; i < batch.jobs.size(); ++i) {
    SubmitAnswer& one = submitted->answers[i];
    if (one.error && is_want_of_room(one.error->code)) {
      pause_reason_ = *one.error;
      again.jobs.push_back(std::move(batch.jobs[i]));
      again.tags.push_back(batch.tags[i]);
      continue;
    }
    Body refused = one.error ? std::move(batch.jobs[i]) : Body();
    done.push_back({batch.tags[i], std::move(one), std::move(refused)});
    --unanswered_;
  }
  if (again.jobs.empty()) {
    pause_ms_ = options_.pause_ms;
  } else {
    wait_with(std::move(again), Error(pause_reason_));
  }
  return true;
}

}  // namespace millrace::client
