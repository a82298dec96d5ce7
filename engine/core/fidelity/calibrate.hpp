#pragma once
// Computes the mean key of each layer and KV head over a text. Centered keys are stored without it.
//
//   MILLRACE_ASSIGN(KeyMeans means, calibrate_keys(*device, file, contexts, {}));
//
// The model reads the contexts one after the other with fp16 KV. The keys are averaged as they were
// before rotation, in double precision, in the order of layers, contexts and positions. The first
// key of each context is left out, because it differs from all others. Errors: those of Model::load
// and Model::forward; invalid_value for contexts beyond the model's. Thread safety: the device's
// owner thread.
#include <cstdint>
#include <functional>

#include "engine/core/device/device.hpp"
#include "engine/core/fidelity/contexts.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/key_means.hpp"
#include "engine/core/model/math_mode.hpp"

namespace millrace::engine {

struct CalibrateOptions {
  MathMode math = MathMode::fast;
  std::uint32_t step_tokens = 256;
  std::function<void(std::uint32_t done)> progress{};  // called after each context
};

Result<KeyMeans> calibrate_keys(Device& device, const GgufFile& file,
                                const FidelityContexts& contexts, const CalibrateOptions& options);

}  // namespace millrace::engine
