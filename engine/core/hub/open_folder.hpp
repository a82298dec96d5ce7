#pragma once
// Opens a folder of a model hub as if it were the GGUF file that a converter would make of it:
// config.json, tokenizer.json and what stands beside them as metadata, safetensors as tensors.
//
// Errors: folder_unreadable (a file is missing), folder_malformed, unsupported_architecture,
// unsupported_quantization, unsupported_tensor_type, unsupported_tokenizer. Thread safety: a pure
// function.
#include <string>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

Result<GgufFile> open_folder(const std::string& folder);

}  // namespace millrace::engine
