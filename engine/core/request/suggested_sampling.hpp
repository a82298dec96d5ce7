#pragma once
// The sampling that a model's file suggests (its keys general.sampling.*), which a job may ask for.
// A suggestion is taken whole or not at all: with one value out of range, or one that Millrace has
// no setting for, a part of it would be another sampling than the model's. The file is not refused,
// because it runs without its suggestion. Thread safety: pure functions.
#include <string>

#include "engine/core/gguf/metadata.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// Reads the suggestion; without any such key it is empty. Errors: gguf_malformed (a wrong type),
// invalid_value (a value that no job may give), unsupported_field (a key without a setting here);
// each names the key.
Result<SuggestedSampling> suggested_sampling(const Metadata& metadata);

// Gives a request that asks for the model's sampling what the model suggests, except for the fields
// that it gives itself. Error: unsupported_field, if the model suggests nothing or, as
// `problem` says, nothing that can be used.
Status apply_suggestion(const SuggestedSampling& suggested, const std::string& problem,
                        GenerationRequest& request);

}  // namespace millrace::engine
