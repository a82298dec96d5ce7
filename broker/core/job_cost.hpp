#pragma once
// What a job takes of an engine, as far as it is known before the job runs. Shares of tenants are
// counted in it. Thread safety: pure functions.
#include <cstdint>

#include "schemas/job.hpp"

namespace millrace::broker {

// prompt tokens + n x max_tokens, at least 1, where
//   - a prompt of token ids has as many as it lists; of text, a token is counted for each 4 bytes,
//     in a chat for those of all messages;
//   - a job without max_tokens counts with the default of its kind, and a chat, which may fill the
//     context, with 1,024;
//   - a job that scores a given text generates none.
std::uint64_t job_cost_tokens(const Job& job);

}  // namespace millrace::broker
