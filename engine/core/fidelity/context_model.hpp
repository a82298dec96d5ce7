#pragma once
// A model with KV memory for one context, whatever its policy: what is measured or calibrated.
// Errors: those of Model::load; out_of_memory and kv_exceeded where a context of so many tokens
// finds no room, with `--context` as the cure. Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>

#include "engine/core/model/model.hpp"

namespace millrace::engine {

// `options` without kv_bytes. The pool has a context's pages at least.
Result<std::unique_ptr<Model>> load_for_context(Device& device, const GgufFile& file,
                                                ModelOptions options, std::uint32_t context_tokens);

}  // namespace millrace::engine
