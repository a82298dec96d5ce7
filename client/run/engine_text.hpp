#pragma once
// Describes an engine in words for a person. Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::client {

std::string kv_text(const EngineProfile& engine);  // "kv k5v3 (3.8x)"

// "temperature 0.6, top_k 20", or why the suggestion of the model's file cannot be used; empty: the
// file suggests nothing.
std::string suggestion_text(const EngineProfile& engine);

// "the engine is ready: model M (its label), kv k5v3 (3.8x), 30 layers in one launch; the model
// suggests temperature 0.6, top_k 20 (used by jobs with "sampling": "model")"
std::string ready_text(const EngineProfile& engine);

}  // namespace millrace::client
