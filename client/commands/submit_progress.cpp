#include "client/commands/submit_progress.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace millrace::client {
namespace {

constexpr std::int64_t pause_us = 1'000'000;  // between questions

}  // namespace

SubmitProgress::SubmitProgress(Session& session, const Clock& clock, RunConsole& console,
                               std::string batch, std::uint64_t lines)
    : session_(session),
      clock_(clock),
      console_(console),
      batch_(std::move(batch)),
      started_us_(clock.monotonic_us()) {
  progress_.total = lines;
  progress_.own_engine = false;
}

double SubmitProgress::seconds() const {
  return static_cast<double>(clock_.monotonic_us() - started_us_) / 1e6;
}

void SubmitProgress::note_end(bool failed) {
  ++progress_.done;
  progress_.failed += failed ? 1 : 0;
  progress_.ended_seconds = seconds();
}

void SubmitProgress::refused() {
  ++refused_;
  note_end(true);
}

// Results that the stream had already cost nothing, so they say nothing about the time to come.
void SubmitProgress::ended(const JobResult& result) {
  note_end(result.state != JobState::completed);
  if (result.result && progress_.done > known_ends_ + refused_) {
    progress_.prompt_tokens += result.result->usage.prompt_tokens;
    progress_.cached_tokens += result.result->usage.cached_tokens;
    progress_.completion_tokens += result.result->usage.completion_tokens;
  }
}

Status SubmitProgress::tick() {
  const std::int64_t now = clock_.monotonic_us();
  if (question_ == 0 && session_.ready() && now - asked_us_ > pause_us) {
    asked_us_ = now;
    question_ = session_.ask(StatusRequest{.job = {}, .batch = batch_, .stream = {}});
  }
  progress_.seconds = seconds();
  progress_.done_at_ready = std::min(progress_.done, known_ends_ + refused_);
  progress_.running = std::min(progress_.running, progress_.total - progress_.done);
  console_.progress(progress_);
  return {};
}

// The batch is unknown until its first job is stored.
Result<bool> SubmitProgress::take(Envelope& answer) {
  if (question_ == 0 || answer.id != question_) {
    return false;
  }
  question_ = 0;
  if (const auto* status = std::get_if<StatusAnswer>(&answer.message)) {
    progress_.running = status->counts.leased;
    progress_.engine_ready = !status->engines.empty();
    if (progress_.engine_ready && progress_.ready_seconds < 0) {
      progress_.ready_seconds = seconds();
    }
  }
  return true;
}

}  // namespace millrace::client
