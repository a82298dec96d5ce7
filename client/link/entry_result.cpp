#include "client/link/entry_result.hpp"

#include <utility>

#include "schemas/codec.hpp"

namespace millrace::client {

Result<JobResult> decode_entry(const Entry& entry, const std::string& stream) {
  Result<JobResult> decoded = decode_result(entry.body);
  if (!decoded) {
    return fail(Code::engine_failed,
                "result " + std::to_string(entry.number) + " of stream " + stream +
                    " cannot be decoded: " + decoded.error().message,
                "the engine that ran the job sent something other than a result: update that "
                "engine, and submit the job under another id");
  }
  decoded->job = entry.job;  // the broker decides whose result this is, not the engine
  return decoded;
}

JobResult failed_result(const Entry& entry, Error error) {
  JobResult result;
  result.job = entry.job;
  result.state = JobState::failed;
  result.error = std::move(error);
  return result;
}

JobResult result_of(const Entry& entry, const std::string& stream) {
  Result<JobResult> decoded = decode_entry(entry, stream);
  return decoded ? *std::move(decoded) : failed_result(entry, std::move(decoded).error());
}

}  // namespace millrace::client
