#pragma once
// The requests that the log tells of at every level, because they change more than the jobs that
// they name, and how it shows them. Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::broker {

// Whether it changes a stream, a batch, a pause or the broker, or the jobs of a whole batch.
bool is_audited(const Message& message);
// What was asked for: "trim stream=results first=100".
std::string audit_text(const Message& message);
// What the answer means for the request: "done", or "begun" where it goes on.
std::string outcome_word(const Message& answer);
// What the answer says of the outcome: "cancelled=3 requested=0 ended=1 unknown=0". It may be
// empty.
std::string outcome_text(const Message& answer);

}  // namespace millrace::broker
