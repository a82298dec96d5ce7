#pragma once
// Jobs in, results out, in one loop: feeds a Submitter from a source as fast as the broker takes
// them, and reads a stream meanwhile. For callers that want both at once and little else.
// Errors: interrupted, unreachable after `give_up_ms`, and those of Session, Submitter and
// StreamReader and of the callbacks. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/link/session.hpp"
#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {

struct NextJob {
  Body body;
  std::uint64_t tag = 0;
};

struct Exchange {
  std::function<Result<std::optional<NextJob>>()> next_job;  // nothing: there are no more
  std::function<Status(const Submission&)> on_answer;
  std::function<Status(const Entry&)> on_entry;  // may be empty: no stream is read
  std::function<bool()> done;                    // asked when all jobs have their answer
  std::function<Status()> tick;                  // may be empty
  std::function<bool()> interrupted;
  std::optional<StreamReaderOptions> stream;
  // Known jobs may have their results earlier in the stream: it is read from 1 then.
  bool rewind_for_known = false;
  std::uint64_t give_up_ms = 0;  // a broker that was away this long from the start; 0: never
};

Status exchange(Session& session, const Clock& clock, const Exchange& work);

}  // namespace millrace::client
