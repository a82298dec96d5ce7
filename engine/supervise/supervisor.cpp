#include "engine/supervise/supervisor.hpp"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/supervise/last_words.hpp"

namespace millrace::supervise {
namespace {

constexpr std::size_t tail_bytes = 8'192;

// Exit statuses of an engine (engine/worker/worker_program.hpp).
constexpr int usage_status = 2, refused_status = 3;

}  // namespace

bool is_refusal(Code code) {
  return code == Code::no_device || (code != Code::interrupted && code_http_status(code) < 500);
}

Supervisor::Supervisor(SupervisorOptions options, const Clock& clock, SupervisorHooks hooks)
    : options_(std::move(options)),
      clock_(clock),
      hooks_(std::move(hooks)),
      pause_ms_(options_.pause_ms) {}

Status Supervisor::start() {
  joined_ = false;
  tail_.clear();
  ++starts_;
  return child_.start(options_.program, options_.arguments);
}

void Supervisor::drain_output() {
  const std::string text = child_.read_output();
  if (text.empty()) {
    return;
  }
  if (const Status kept = hooks_.output(text); !kept) {
    // The log is only a convenience: a full disk must not stop results that still fit.
    tail_ += "[the log could not be written: " + kept.error().message + "]\n";
  }
  tail_ += text;
  tail_.erase(0, tail_.size() - std::min(tail_.size(), tail_bytes));
}

Status Supervisor::tick() {
  drain_output();
  if (child_.running()) {
    if (const auto end = child_.reap()) {
      drain_output();
      return ended(*end);
    }
    return {};
  }
  if (restart_us_ == 0 || clock_.monotonic_us() < restart_us_) {
    return {};
  }
  restart_us_ = 0;
  Status started = start();
  if (!started && options_.patience == Patience::service) {
    hooks_.trouble("engine_start", started.error());
    pause();
    return {};
  }
  over_ = !started;
  return started;
}

bool Supervisor::is_hopeless(const ChildProcess::Ended& end) const {
  if (options_.patience == Patience::run) {
    return !ever_joined_ || fruitless_ >= options_.hopeless_starts;
  }
  // A device that failed, or whose memory was full, may be well the next time.
  const auto own = own_error(tail_);
  const bool is_refused = end.exit_status == usage_status || end.exit_status == refused_status;
  return !ever_joined_ && is_refused && (!own || is_refusal(own->code));
}

Error Supervisor::last_error(const ChildProcess::Ended& end) const {
  auto own = end.exit_status > 0 ? own_error(tail_) : std::nullopt;
  std::string hint = options_.log_path.empty() ? "" : "its whole log is in " + options_.log_path;
  if (own) {
    if (!is_refusal(own->code) && !hint.empty()) {
      own->hint += (own->hint.empty() ? "" : "; ") + hint;
    }
    return *std::move(own);
  }
  if (end.exit_status < 0) {
    hint += std::string(hint.empty() ? "" : "; ") +
            "if every start ends like this, the cache of the OpenCL driver may be damaged: delete "
            "the folder that the log names as driver_cache; the driver makes a new one";
  }
  return {Code::engine_failed,
          options_.what + " ended with " + end.how +
              (ever_joined_ ? ", again and again" : " before it could take work") +
              "; its last words:\n" + last_lines_of(tail_),
          hint};
}

// An engine that is started again takes one line: where a log is kept, it has the others.
std::string Supervisor::last_words() const {
  return options_.log_path.empty() ? last_lines_of(tail_)
                                   : last_line_of(tail_) + " (more in " + options_.log_path + ")";
}

// The pause before the next start. It grows until an engine joins.
void Supervisor::pause() {
  pause_ms_ = joined_ ? options_.pause_ms : std::min(pause_ms_ * 2, options_.pause_max_ms);
  restart_us_ = clock_.monotonic_us() + pause_ms_ * us_per_ms;
}

Status Supervisor::ended(const ChildProcess::Ended& end) {
  hooks_.died();
  // A second SIGTERM may come when the engine has left the broker and does not handle it any more.
  const bool has_left = end.exit_status == 0 || (draining_ && end.signal == SIGTERM);
  if (draining_ && !has_left) {
    over_ = true;
    return fail(Code::engine_failed,
                options_.what + " ended with " + end.how +
                    " when it was told to leave; its last words: " + last_words());
  }
  if (draining_ || (options_.patience == Patience::service && has_left)) {
    over_ = true;
    return {};
  }
  fruitless_ = joined_ ? 0 : fruitless_ + 1;
  if (is_hopeless(end)) {
    over_ = true;
    return fail(last_error(end));
  }
  pause();
  hooks_.trouble("engine_died",
                 {Code::engine_died,
                  options_.what + " ended with " + end.how + "; its last words: " + last_words(),
                  "it is started again; a line that ends the engine twice while it runs alone "
                  "fails"});
  return {};
}

void Supervisor::joined() {
  joined_ = true;
  ever_joined_ = true;
}

void Supervisor::hung() {
  hooks_.trouble("engine_hung", {Code::engine_failed, options_.what + " makes no progress",
                                 "it is started again"});
  child_.kill();
}

void Supervisor::drain() {
  draining_ = true;
  restart_us_ = 0;
  child_.terminate();
  over_ = over_ || !child_.running();
}

void Supervisor::stop() {
  if (!draining_) drain();
  over_ = true;
  child_.finish(options_.stop_ms);
}

}  // namespace millrace::supervise
