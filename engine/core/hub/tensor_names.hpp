#pragma once
// Turns the tensors of a folder into those of its architecture: other names, other orders of rows,
// experts as one tensor, values that are changed. What needs no change is used where it lies.
// Thread safety: a pure function.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "engine/core/hub/gathered_rows.hpp"
#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/made_tensor.hpp"
#include "engine/core/hub/multipliers.hpp"

namespace millrace::engine {

// The matrices of a folder by the hub's names.
using Sources = std::map<std::string, Source, std::less<>>;

struct NamedSizes {
  std::uint32_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  std::uint32_t groups = 0;  // of a norm of states
  bool tied = false;         // an output matrix is not read
  DeltaSizes delta{};
  LatentSizes latent{};
  std::vector<Multiplier> multipliers{};
};

// `source` names the folder in messages. Errors: unsupported_architecture (a tensor that the family
// does not have), unsupported_quantization (a quantized matrix whose values would have to be moved
// or changed one by one), folder_malformed (experts that are missing or differ, shapes that cannot
// be).
Result<std::vector<ModelPieces::Piece>> name_tensors(const HubFamily& family,
                                                     const NamedSizes& sizes,
                                                     const Sources& sources,
                                                     const std::string& source);

}  // namespace millrace::engine
