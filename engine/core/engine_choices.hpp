#pragma once
// Checks an engine's options, and chooses what they leave to the device. Thread safety: pure
// functions.
#include <cstdint>

#include "engine/core/engine.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Errors: invalid_value, naming the option.
Status check_options(const EngineOptions& options);
// The options with a number of step tokens, and with kv_memory_auto only where it has a meaning.
EngineOptions settled(EngineOptions options, bool has_own_memory);
// The most tokens of one sequence in a step.
std::uint32_t row_tokens(const EngineOptions& options);

}  // namespace millrace::engine
