#include "client/link/result_wait.hpp"

#include "client/link/entry_result.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {

Status ResultWait::note_answer(const Submission& submission) {
  const SubmitAnswer& answer = submission.answer;
  if (answer.error) {
    // The refusal of a whole message does not name its jobs, but their bodies do.
    MILLRACE_ASSIGN(const DecodedJob decoded, decode_job(submission.refused));
    const auto waiting = waiting_.find(decoded.job.id);
    if (waiting != waiting_.end() && waiting->second == submission.tag) {
      waiting_.erase(waiting);
    }
    return {};
  }
  if (answer.known && answer.state && is_end(*answer.state) && !rewound_) {
    rewound_ = true;
    reader_.move_to(1);
  }
  return {};
}

Status ResultWait::on_entries(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const auto waiting = waiting_.find(entry.job);
    if (waiting == waiting_.end()) {
      continue;
    }
    const std::uint64_t tag = waiting->second;
    waiting_.erase(waiting);
    MILLRACE_TRY(on_result_(tag, result_of(entry, reader_.stream())));
  }
  return {};
}

}  // namespace millrace::client
