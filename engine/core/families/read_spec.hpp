#pragma once
// Reads a model's architecture from the metadata and tensor names of its file. A file with anything
// that might change the arithmetic and is not known here is refused by name: a key, a tensor, a
// size that cannot be. Blocks that only draft tokens (`nextn_predict_layers`) are left out.
// Errors: unsupported_architecture, gguf_malformed. Thread safety: pure function.
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

Result<ModelSpec> read_spec(const GgufFile& file);

}  // namespace millrace::engine
