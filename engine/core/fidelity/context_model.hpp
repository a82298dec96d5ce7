#pragma once
// Loads a model with KV memory for one context of any policy, to measure or calibrate it. Errors:
// those of Model::load; out_of_memory and kv_exceeded if the memory does not hold a context of so
// many tokens, with a hint to `--context`. Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>

#include "engine/core/model/model.hpp"

namespace millrace::engine {

// kv_bytes of `options` is ignored. The pool has at least the pages of one context.
Result<std::unique_ptr<Model>> load_for_context(Device& device, const GgufFile& file,
                                                ModelOptions options, std::uint32_t context_tokens);

}  // namespace millrace::engine
