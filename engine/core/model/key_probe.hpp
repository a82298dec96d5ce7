#pragma once
// Supplies keys of a model to the outlier test of kv/outliers.hpp: its biases, and the keys of a
// prompt that the model reads when it is loaded. The prompt is always the same, a walk over the
// vocabulary, because the way keys are stored must not depend on the first request. Errors: those
// of Model::forward and of reading pages. Thread safety: the device's owner thread.
#include <cstdint>

#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/outliers.hpp"
#include "engine/core/model/model.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t probe_pages = 4;

// Takes a layer's bias as the key of one token. The differences between tokens are not known
// without a prompt; they are estimated from the weights, for inputs without correlation. Layers
// without a bias are empty.
Result<KeySample> keys_of_biases(const GgufFile& file, const ModelSpec& spec);

// Reads the walk into the first pages of `model` and returns its keys. Every layer of the model
// must store halves and have at least probe_pages pages. The first token is left out, because
// attention uses it as a sink and its key differs from all others.
Result<KeySample> keys_of_probe(Device& device, Model& model, const ModelSpec& spec,
                                std::uint32_t step_tokens);

// Tests the keys of layers that quantize them and changes `kv` as protect_outliers does; `halves`
// is a model as for keys_of_probe. Centered keys are tested as they are stored, without their mean,
// and only with the probe, because a bias is part of the mean. Logs the largest figure and each
// layer that is protected.
Result<std::vector<OutlierLayer>> test_keys(Device& device, const GgufFile& file, Model& halves,
                                            const ModelSpec& spec, const ModelOptions& options,
                                            KvLayers& kv);

}  // namespace millrace::engine
