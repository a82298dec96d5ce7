#pragma once
// Jobs as JSON for the live page: a list of them, and one with its timeline. Thread safety: pure
// functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::http {

std::string jobs_json(const JobsAnswer& answer);
// `waits`: why it waits. `entry`: its result; null where it has none, or none that is kept.
std::string job_json(const JobInfo& job, const std::string& waits, const Entry* entry);

}  // namespace millrace::http
