#include "broker/core/retainer.hpp"

#include <string>

namespace millrace::broker {

void Retainer::tick() {
  const std::int64_t now_us = out_.now().mono_us;
  if (running_ || closed_) return;
  if (now_us < pace_.next_us()) return;
  running_ = true;
  pace_.pass_begins(now_us);
  step({});
}

void Retainer::tell_once_an_hour() {
  const std::int64_t now_us = out_.now().mono_us;
  if (told_us_ && now_us - *told_us_ < tell_again_us) return;
  told_us_ = now_us;
  out_.note(NoteLevel::info,
            "results are deleted that are no longer kept (the settings of `retention`); " +
                std::to_string(out_.counters().trimmed) + " were since the start");
}

void Retainer::close() {
  closed_ = true;
}

void Retainer::step(const StreamPlace& after) {
  out_.ask_one(Retain{config_.retention, after, pace_.rows()}, [this](Result<Reply> reply) {
    const auto* r = reply_as<RetainReply>(reply);
    running_ = r != nullptr && r->more && !closed_;
    if (r == nullptr) {
      return out_.note(NoteLevel::error,
                       "deleting what is no longer kept failed: " + reply_error(reply).text());
    }
    if (r->entries > 0) tell_once_an_hour();
    out_.counters().trimmed += r->entries;
    out_.counters().forgotten += r->jobs;
    pace_.step_ends(r->entries + r->jobs);
    if (!running_) return pace_.pass_ends(out_.now().mono_us);
    pace_.pass_goes_on(out_.now().mono_us);
    step(r->after);
  });
}

}  // namespace millrace::broker
