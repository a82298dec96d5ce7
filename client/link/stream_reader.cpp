#include "client/link/stream_reader.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/log.hpp"

namespace millrace::client {

StreamReader::StreamReader(Session& session, const Clock& clock, StreamReaderOptions options,
                           EntrySink& sink)
    : session_(session), clock_(clock), options_(std::move(options)), sink_(sink) {
  // Without a doorbell the reader still fetches every poll_ms.
  if (const Status heard = session_.subscribe(options_.stream); !heard) {
    log_warn("cannot subscribe to a stream's doorbell; the reader polls instead", heard.error());
  }
}

StreamReader::~StreamReader() {
  if (question_ != 0) session_.forget(question_);
  if (const Status left = session_.unsubscribe(options_.stream); !left) {
    log_warn("cannot unsubscribe from a stream's doorbell", left.error());
  }
}

Status StreamReader::tick() {
  due_ = due_ || clock_.monotonic_us() - asked_us_ > options_.poll_ms * us_per_ms;
  if (question_ == 0 && due_ && (!caught_up_ || options_.follow)) {
    ask();
  }
  return {};
}

void StreamReader::ask() {
  due_ = false;
  asked_us_ = clock_.monotonic_us();
  question_ = session_.ask(Fetch{.stream = options_.stream,
                                 .epoch = options_.epoch,
                                 .from = options_.from,
                                 .cursor = options_.from == 0 ? options_.cursor : "",
                                 .max_entries = options_.max_entries,
                                 .max_bytes = options_.max_bytes});
}

void StreamReader::move_to(std::uint64_t number) {
  if (question_ != 0) {
    session_.forget(question_);  // its answer begins at the old number and would look like a gap
    question_ = 0;
  }
  options_.from = number;
  due_ = true;
  caught_up_ = false;
}

Result<bool> StreamReader::take(Envelope& answer) {
  if (question_ == 0 || answer.id != question_) {
    return false;
  }
  question_ = 0;
  const auto* refused = std::get_if<Refused>(&answer.message);
  if (refused != nullptr && refused->error.code == Code::overloaded) {
    // tick() asks again after poll_ms, or at the time that the broker suggests.
    const std::uint32_t wait_ms = refused->error.retry_ms.value_or(options_.poll_ms);
    asked_us_ =
        clock_.monotonic_us() +
        (std::int64_t{std::min(wait_ms, limits::retry_most_ms)} - options_.poll_ms) * us_per_ms;
    return true;
  }
  auto entries = entries_of(answer.message);
  if (entries && !caught_up_) {
    ask();
  }
  MILLRACE_TRY(entries ? sink_.on_entries(*entries)
                       : sink_.on_stream_error(std::move(entries).error()));
  return true;
}

Result<std::vector<Entry>> StreamReader::entries_of(Message& answer) {
  if (auto* data = std::get_if<Data>(&answer)) {
    return take_data(*data);
  }
  if (const auto* trimmed = std::get_if<Trimmed>(&answer)) {
    first_kept_ = trimmed->first;
    return fail(Code::trimmed,
                "stream " + options_.stream + " no longer holds number " +
                    std::to_string(options_.from) + "; it begins at number " +
                    std::to_string(trimmed->first),
                "read on from number " + std::to_string(trimmed->first));
  }
  if (auto* refused = std::get_if<Refused>(&answer)) {
    return fail(std::move(refused->error));
  }
  return fail(Code::unexpected_message, "the broker answered a fetch with another kind of message");
}

Result<std::vector<Entry>> StreamReader::take_data(Data& data) {
  if (!options_.epoch.empty() && !data.epoch.empty() && data.epoch != options_.epoch) {
    return fail(Code::epoch_changed,
                "stream " + options_.stream + " belongs to another log than before",
                "read it from number 1");
  }
  if (options_.epoch.empty()) {
    options_.epoch = data.epoch;
  }
  high_ = data.high;
  first_kept_ = data.first;
  caught_up_ = data.entries.empty();
  std::vector<Entry> entries;
  for (Entry& entry : data.entries) {
    if (options_.from == 0) {
      options_.from = entry.number;
    }
    if (entry.number < options_.from) {
      continue;  // a repetition
    }
    if (entry.number > options_.from) {
      return fail(Code::internal,
                  "stream " + options_.stream + " has a gap: number " +
                      std::to_string(options_.from) + " was expected, and number " +
                      std::to_string(entry.number) + " came",
                  "report it; no entry after the gap was used");
    }
    ++options_.from;
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace millrace::client
