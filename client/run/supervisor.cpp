#include "client/run/supervisor.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace millrace::client {
namespace {

constexpr std::size_t tail_bytes = 8'192;
constexpr std::size_t last_lines = 8;

// Parses the error of an engine that refuses to start, whose last lines are "millrace-engine: CODE:
// message" and an indented hint. The run fails with that error; other last words are quoted.
std::optional<Error> own_error(std::string words) {
  std::string hint;
  std::size_t line = words.rfind('\n');
  if (line != std::string::npos && words.compare(line, 3, "\n  ") == 0) {
    hint = words.substr(line + 3);
    words.erase(line);
    line = words.rfind('\n');
  }
  words.erase(0, line == std::string::npos ? 0 : line + 1);
  const std::size_t code_at = words.find(": ");
  const std::size_t text_at = words.find(": ", code_at == std::string::npos ? 0 : code_at + 2);
  if (code_at == std::string::npos || text_at == std::string::npos) {
    return std::nullopt;
  }
  const auto code =
      code_from_name(std::string_view(words).substr(code_at + 2, text_at - code_at - 2));
  return code ? std::optional(Error{*code, words.substr(text_at + 2), hint}) : std::nullopt;
}

}  // namespace

bool is_refusal(Code code) {
  return code == Code::no_device || (code != Code::interrupted && code_http_status(code) < 500);
}

Supervisor::Supervisor(SupervisorOptions options, Env& env, const Clock& clock,
                       RunObserver& observer, std::function<void()> on_death)
    : options_(std::move(options)),
      env_(env),
      clock_(clock),
      observer_(observer),
      on_death_(std::move(on_death)),
      pause_ms_(options_.pause_ms) {}

Status Supervisor::start() {
  if (!log_) {
    MILLRACE_ASSIGN(log_, env_.open(options_.log_path, OpenMode::replace));
  }
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
  if (const Status written = log_->append(text); !written) {
    // The log is only a convenience: a full disk must not stop results that still fit.
    tail_ += "[the log could not be written: " + written.error().message + "]\n";
  }
  tail_ += text;
  tail_.erase(0, tail_.size() - std::min(tail_.size(), tail_bytes));
}

std::string Supervisor::last_words() const {
  std::size_t begin = tail_.size();
  for (std::size_t lines = 0; begin > 0 && lines <= last_lines; --begin) {
    lines += tail_[begin - 1] == '\n' ? 1 : 0;
    if (lines > last_lines) {
      break;
    }
  }
  std::string words = tail_.substr(begin);
  while (words.ends_with('\n')) {
    words.pop_back();
  }
  return words.empty() ? "it said nothing" : words;
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
  if (restart_us_ != 0 && clock_.monotonic_us() >= restart_us_) {
    restart_us_ = 0;
    return start();
  }
  return {};
}

Status Supervisor::ended(const ChildProcess::Ended& end) {
  on_death_();
  fruitless_ = joined_ ? 0 : fruitless_ + 1;
  const std::string what = "the engine ended with " + end.how;
  if (!ever_joined_ || fruitless_ >= options_.hopeless_starts) {
    auto own = end.exit_status > 0 ? own_error(last_words()) : std::nullopt;
    std::string hint = options_.log_stays ? "its whole log is in " + options_.log_path : "";
    if (own) {
      if (!is_refusal(own->code) && !hint.empty()) {
        own->hint += (own->hint.empty() ? "" : "; ") + hint;
      }
      return fail(*std::move(own));
    }
    if (end.exit_status < 0) {
      hint +=
          std::string(hint.empty() ? "" : "; ") +
          "if every start ends like this, the cache of the OpenCL driver may be damaged: delete "
          "the folder that the log names as driver_cache; the driver makes a new one";
    }
    return fail(Code::engine_failed,
                what + (ever_joined_ ? ", again and again" : " before it could take work") +
                    "; its last words:\n" + last_words(),
                hint);
  }
  pause_ms_ = joined_ ? options_.pause_ms : std::min(pause_ms_ * 2, options_.pause_max_ms);
  restart_us_ = clock_.monotonic_us() + pause_ms_ * us_per_ms;
  observer_.trouble("engine_died", {Code::engine_died, what + "; its last words: " + last_words(),
                                    "it is started again; a line that ends the engine twice while "
                                    "it runs alone fails"});
  return {};
}

void Supervisor::joined() {
  joined_ = true;
  ever_joined_ = true;
}

void Supervisor::hung() {
  observer_.trouble("engine_hung",
                    {Code::engine_failed, "the engine makes no progress", "it is started again"});
  child_.kill();
}

void Supervisor::stop() {
  restart_us_ = 0;
  child_.stop(options_.stop_ms);
}

}  // namespace millrace::client
