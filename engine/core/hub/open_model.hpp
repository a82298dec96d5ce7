#pragma once
// Opens a model, whatever a user's path is: a GGUF file, the first file of a split model, or a
// folder of a model hub with config.json, tokenizer.json and safetensors.
//
//   MILLRACE_ASSIGN(const GgufFile model, open_model(path));
//
// Errors: those of GgufFile::open and open_folder. A name on a hub, such as owner/model, that is no
// path here is gguf_unreadable, and the hint says what to download. Thread safety: a pure function.
#include <string>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

Result<GgufFile> open_model(const std::string& path);

}  // namespace millrace::engine
