#pragma once
// Reads a model's architecture from GGUF metadata and tensor names. If the file has anything that
// would change the arithmetic and is not known here, read_spec refuses it by name.
// Errors: unsupported_architecture, gguf_malformed. Thread safety: a pure function.
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

Result<ModelSpec> read_spec(const GgufFile& file);

}  // namespace millrace::engine
