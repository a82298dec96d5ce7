#pragma once
// Reads one result stream without gap or repetition: asks from the next number, with one answer of
// credit, when a doorbell rings, when there was more, or when a while has passed without a ring.
// Errors: trimmed, epoch_changed (the log is another one than before), internal (a gap), and what
// the broker refuses with. Thread safety: one thread.
#include <cstdint>
#include <string>
#include <vector>

#include "client/link/session.hpp"

namespace millrace::client {

struct StreamReaderOptions {
  std::string stream = "results";
  std::uint64_t from = 1;  // first number wanted; 0: after the named cursor
  std::string cursor;
  std::string epoch;  // where known: another one is refused
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;
  std::uint32_t poll_ms = 1'000;  // without a ring
};

class StreamReader {
 public:
  StreamReader(Session& session, const Clock& clock, StreamReaderOptions options);

  // Asks where it is time to; `room` false holds back: what is not asked for is not sent.
  void tick(bool room);
  void rang(const std::vector<Bell>& bells);
  // Takes the answer if it is ours; appends its entries. False: another's.
  Result<bool> take(Envelope& answer, std::vector<Entry>& entries);

  const std::string& epoch() const { return options_.epoch; }
  std::uint64_t next() const { return options_.from; }  // 0: not known before the first answer
  std::uint64_t high() const { return high_; }          // last number written, as far as told
  bool caught_up() const { return caught_up_; }         // the last answer held nothing
  // Goes on from another number, e.g. the first that is kept, after `trimmed`.
  void move_to(std::uint64_t number);
  std::uint64_t first_kept() const { return first_kept_; }

 private:
  Status take_data(Data& data, std::vector<Entry>& entries);

  Session& session_;
  const Clock& clock_;
  StreamReaderOptions options_;
  std::uint64_t question_ = 0;  // 0: none is open
  std::int64_t asked_us_ = 0;
  std::uint64_t high_ = 0, first_kept_ = 0;
  bool due_ = true;
  bool caught_up_ = false;
};

}  // namespace millrace::client
