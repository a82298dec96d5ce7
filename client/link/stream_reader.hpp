#pragma once
// Reads one result stream without gaps or repetitions. It sends one fetch at a time, for the next
// number on: when a doorbell rings, when the last answer held entries, and when no doorbell has
// rung for a while. The broker reads the next entries while the sink works on those of an answer.
// Errors: trimmed, epoch_changed (the stream belongs to another log than before), internal (a gap),
// and the broker's refusals. The sink may go on after them.
// The session must outlive it. Thread safety: one thread.
#include <cstdint>
#include <string>
#include <vector>

#include "client/link/event_loop.hpp"

namespace millrace::client {

struct StreamReaderOptions {
  std::string stream = "results";
  std::uint64_t from = 1;  // first number wanted; 0: after the named cursor
  std::string cursor;
  std::string epoch;  // the log's; empty: that of the first answer. Any other is an error
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;
  std::uint32_t poll_ms = 1'000;  // between fetches when no doorbell rings
  bool follow = true;             // false: stop fetching once the reader has caught up
};

class EntrySink {
 public:
  virtual ~EntrySink() = default;
  // Receives the entries of one answer, in order; none when the reader has caught up.
  virtual Status on_entries(const std::vector<Entry>& entries) = 0;
  // Called when the reader cannot go on from the number that it has reached.
  virtual Status on_stream_error(Error error) { return fail(std::move(error)); }
};

class StreamReader final : public EventHandler {
 public:
  StreamReader(Session& session, const Clock& clock, StreamReaderOptions options, EntrySink& sink);
  ~StreamReader() override;  // gives the subscription back
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  Status tick() override;
  void rang(const std::string& stream) override { due_ = due_ || stream == options_.stream; }
  Result<bool> take(Envelope& answer) override;

  const std::string& stream() const { return options_.stream; }
  const std::string& epoch() const { return options_.epoch; }
  std::uint64_t high() const { return high_; }   // the stream's last number in the last answer
  bool caught_up() const { return caught_up_; }  // the last answer held nothing
  // Goes on from another number, such as first_kept() after `trimmed`.
  void move_to(std::uint64_t number);
  std::uint64_t first_kept() const { return first_kept_; }

 private:
  void ask();
  Result<std::vector<Entry>> entries_of(Message& answer);
  Result<std::vector<Entry>> take_data(Data& data);

  Session& session_;
  const Clock& clock_;
  StreamReaderOptions options_;
  EntrySink& sink_;
  std::uint64_t question_ = 0;  // 0: none is open
  std::int64_t asked_us_ = 0;
  std::uint64_t high_ = 0, first_kept_ = 0;
  bool due_ = true;
  bool caught_up_ = false;
};

}  // namespace millrace::client
