#pragma once
// The refusals of operations, with the same messages in all ledgers. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

inline auto refuse_conflict(std::string_view job) {
  return fail(Code::conflict, "job '" + std::string(job) + "' is already known with another body",
              "give the changed job a new id");
}
inline auto refuse_overloaded(std::uint64_t queued) {
  return fail(Error{Code::overloaded, "the queue is full with " + std::to_string(queued) + " jobs",
                    "wait until some have ended and submit again", limits::retry_queue_ms});
}
inline auto refuse_stale_lease(LeaseId lease) {
  return fail(Code::stale, "lease " + std::to_string(lease) + " is no longer current",
              "forget the job: it was given to another engine or has ended");
}
inline auto refuse_unknown_job(std::string_view job) {
  return fail(Code::not_found, "no job '" + std::string(job) + "'",
              "check the id; a job has the id that the answer to its submission gave");
}
inline auto refuse_unknown_batch(std::string_view batch) {
  return fail(Code::not_found, "no job belongs to a batch named " + std::string(batch),
              "check the name, which the producer chose or `millrace submit` printed");
}
inline auto refuse_closed_batch(std::string_view batch, std::string_view job) {
  return fail(Code::batch_closed,
              "batch '" + std::string(batch) + "' is closed and does not hold job '" +
                  std::string(job) + "'",
              "submit the job in another batch");
}
inline auto refuse_more_metadata(std::string_view batch, std::size_t entries, std::uint64_t bytes) {
  return fail(Code::limit_exceeded,
              "batch '" + std::string(batch) + "' would have " + std::to_string(entries) +
                  " entries of metadata with " + std::to_string(bytes) + " bytes, the limits are " +
                  std::to_string(limits::metadata_entries) + " and " +
                  std::to_string(limits::metadata_bytes),
              "remove some with an empty value");
}
inline auto refuse_list_place(std::string_view after) {
  return fail(Code::invalid_value, "after: '" + std::string(after) + "' is no place in a batch",
              "give `next` of the answer before, to a question that names the same batch");
}
inline auto refuse_unknown_stream(std::string_view stream) {
  return fail(Code::not_found, "no stream '" + std::string(stream) + "'",
              "check the name; a stream exists once it has its first result");
}
inline auto refuse_reserved_stream(std::string_view stream) {
  return fail(Code::invalid_value,
              "stream '" + std::string(stream) + "' is the broker's own and is kept whole",
              "name a stream whose name does not begin with $");
}
inline auto refuse_unknown_cursor(std::string_view stream, std::string_view cursor) {
  return fail(
      Code::not_found,
      "stream '" + std::string(stream) + "' has no cursor '" + std::string(cursor) + "'",
      "check the name, or whether the cursor has expired: `millrace cursors ls` lists those kept");
}
inline auto refuse_more_cursors(std::string_view stream, std::uint32_t limit) {
  return fail(Code::limit_exceeded,
              "stream '" + std::string(stream) + "' has " + std::to_string(limit) +
                  " cursors, which is the limit",
              "remove one that nobody uses with `millrace cursors rm`");
}
inline auto refuse_end_state() {
  return fail(Code::invalid_value, "a job can only end as completed, failed, cancelled or expired");
}
inline auto refuse_past_end(std::string_view stream, std::uint64_t number, std::uint64_t high) {
  return fail(Code::invalid_value,
              "number " + std::to_string(number) + " is past the end of stream '" +
                  std::string(stream) + "', whose last number is " + std::to_string(high),
              "use numbers that were read from this stream in its current epoch");
}
inline auto refuse_damaged_entry(std::string_view stream, std::uint64_t number) {
  return fail(Code::ledger_corrupt,
              "entry " + std::to_string(number) + " of stream '" + std::string(stream) +
                  "' is damaged on disk",
              "restore the ledger from a backup, or read on from the next number");
}
inline auto refuse_missing_entry(std::string_view stream, std::uint64_t number) {
  return fail(
      Code::ledger_corrupt,
      "entry " + std::to_string(number) + " of stream '" + std::string(stream) + "' is missing",
      "restore the ledger from a backup");
}
inline auto refuse_epoch(std::string_view stream, std::string_view wanted, std::string_view is) {
  return fail(Code::epoch_changed,
              "stream '" + std::string(stream) + "' has epoch " + std::string(is) + ", not " +
                  std::string(wanted),
              "the numbers come from another ledger: read the stream again from number 1");
}

}  // namespace millrace::broker
