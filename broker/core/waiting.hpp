#pragma once
// Who could run a job, among the engines connected. Thread safety: pure.
#include <string>

#include "broker/core/engine_table.hpp"

namespace millrace::broker {

// Empty where one of them could; else what is missing, with what the engines of that model run.
// `kv` as in SubmitJob.
std::string waiting_for(const EngineTable& engines, const std::string& model,
                        const std::string& kv);

}  // namespace millrace::broker
