#pragma once
// The weights of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json names, as one set of tensors. Thread safety: immutable.
#include <memory>
#include <string>
#include <vector>

#include "engine/core/gguf/bytes.hpp"
#include "engine/core/hub/safetensors.hpp"

namespace millrace::engine {

struct Shards {
  std::vector<std::unique_ptr<Bytes>> files;
  HubTensors tensors;
};

// Errors: folder_unreadable (no weights; a shard that the index names is missing), folder_malformed
// (a damaged file; an index that names tensors which its shards lack, or files outside the folder).
Result<Shards> open_shards(const std::string& folder);

}  // namespace millrace::engine
