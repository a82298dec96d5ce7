#pragma once
// One job whose text is printed while it grows, for `millrace ask`: submits the job, passes on the
// partials that the broker sends, and in the end what they have left out, because some may be
// missed. Errors: the broker's refusals, those of the job itself, interrupted (the job is then
// cancelled), io_error. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "client/link/stream_reader.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

enum class AnswerPart : std::uint8_t { text, reasoning };

class AnswerStream final : public EventHandler, public EntrySink {
 public:
  using OnText = std::function<Status(AnswerPart part, std::string_view text)>;
  using OnWait = std::function<void(const std::string& why)>;  // why no engine takes the job

  AnswerStream(Session& session, const Clock& clock, OnText on_text, OnWait on_wait)
      : session_(session),
        clock_(clock),
        on_text_(std::move(on_text)),
        on_wait_(std::move(on_wait)) {}

  // Runs a job, given as a line of input without id and stream. `beside` is called in the loop.
  Result<JobResult> run(const std::string& line, const EventLoopOptions& options,
                        EventHandler& beside);

  Result<bool> take(Envelope& answer) override;
  Status on_entries(const std::vector<Entry>& entries) override;

 private:
  Status submit(EventLoop& loop, const std::string& line);
  Status wait(EventLoop& loop, EventHandler& beside);
  void cancel();
  Status pass(AnswerPart part, std::string& printed, std::string_view text);
  Status pass_rest();

  Session& session_;
  const Clock& clock_;
  OnText on_text_;
  OnWait on_wait_;
  std::string job_;
  std::uint64_t from_ = 1;
  std::uint32_t attempt_ = 0;     // of the partials that were printed
  bool broken_ = false;           // a partial was missed: the rest comes with the result
  std::uint32_t tokens_ = 0;      // whose text was printed
  std::string text_, reasoning_;  // that were printed
  std::optional<JobResult> result_;
};

}  // namespace millrace::client
