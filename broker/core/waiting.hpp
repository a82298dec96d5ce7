#pragma once
// Says which connected engines could run a job. Thread safety: pure functions.
#include <string>

#include "broker/core/engine_table.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

// Empty where a connected engine that works for the tenant could run the job; otherwise a text that
// says what is missing and which policies the engines of that model run. `kv` is as in SubmitJob.
std::string waiting_for(const EngineTable& engines, const std::string& tenant,
                        const std::string& model, const std::string& kv);

// Says what has to be resumed for a queued job that is paused.
std::string waiting_paused(const GetJobReply& job);

// Says how long a job waits for its start, which comes at `start_us`.
std::string waiting_until(std::int64_t start_us, std::int64_t now_us);

}  // namespace millrace::broker
