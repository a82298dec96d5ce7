#pragma once
// Metadata of a folder's tokenizer: tokenizer.json, tokenizer_config.json, the chat template, and
// what generation_config.json says of ends and of sampling. Thread safety: a pure function.
#include <string>

#include "engine/core/gguf/metadata_writer.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {

// `config` is config.json. Errors: those of read_tokenizer_file; folder_unreadable, without a
// tokenizer.json; folder_malformed.
Status write_tokenizer_keys(const std::string& folder, const Settings& config, MetadataWriter& out);

}  // namespace millrace::engine
