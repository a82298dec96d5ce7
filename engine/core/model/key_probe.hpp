#pragma once
// What a model's keys are like, for the test of kv/outliers.hpp: by the biases that its file adds
// to them, and by a prompt that it reads when it is loaded. The prompt is the same for everybody,
// a walk over the vocabulary: how keys are stored must not depend on who asked first. Errors: those
// of Model::forward and of reading pages. Thread safety: the device's owner thread.
#include <cstdint>

#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/outliers.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/model/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t probe_pages = 4;

// A bias as the key of one token. What tells tokens apart is not known without a prompt: it is
// taken to be what the weights make of inputs without correlation. Layers without a bias are empty.
Result<KeySample> keys_of_biases(const GgufFile& file, const ModelSpec& spec);

// Keys of the walk, which is read into the first pages of `model`; these must be halves in every
// layer, at least probe_pages. The first token is left out: attention uses it as a sink, and its
// key is like no other's.
Result<KeySample> keys_of_probe(Device& device, Model& model, const ModelSpec& spec,
                                std::uint32_t step_tokens);

// Tests the keys of layers that quantize them and changes `kv` as protect_outliers does; `halves`
// is as above. Centered keys are tested as they are stored, less their mean, and by the probe
// alone: a bias is part of the mean. Says in the log how large figures are, and names each layer
// that is protected.
Result<std::vector<OutlierLayer>> test_keys(Device& device, const GgufFile& file, Model& halves,
                                            const ModelSpec& spec, const ModelOptions& options,
                                            KvLayers& kv);

}  // namespace millrace::engine
