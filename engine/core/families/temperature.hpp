#pragma once
// Reads the temperature by which some families multiply queries beyond a number of positions.
// Internal. Errors: gguf_malformed. Thread safety: pure function.
#include "engine/core/families/keys.hpp"
#include "engine/core/families/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Sets AttentionSpec::temperature_beta and temperature_tokens of all layers. Without the key
// `attention.temperature_length` the temperature grows beyond the original context.
Status read_temperature(Keys& keys, ModelSpec& spec);

}  // namespace millrace::engine
