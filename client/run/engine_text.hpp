#pragma once
// Describes an engine in words for a person. Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::client {

std::string kv_text(const EngineProfile& engine);  // "kv k5v3 (3.8x)"

// "the engine is ready: model M (its label), kv k5v3 (3.8x), 30 layers in one launch"
std::string ready_text(const EngineProfile& engine);

}  // namespace millrace::client
