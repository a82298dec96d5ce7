#pragma once
// Loads the weights of a layer's recurrence. Errors: those of weights.hpp. Thread safety: the
// device's owner thread.
#include <cstdint>

#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// The layer must have a recurrence.
Result<RecurrenceWeights> load_recurrence(const Backend& backend, const GgufFile& file,
                                          const ModelSpec& spec, std::uint32_t index,
                                          WeightUploads& uploads);

}  // namespace millrace::engine
