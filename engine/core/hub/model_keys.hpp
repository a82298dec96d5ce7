#pragma once
// Metadata of an architecture from a folder's config.json: sizes, attention, experts, ropes. Ropes
// whose frequencies have factors of their own give tensors, too. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/metadata_writer.hpp"
#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {

// Writes keys with the architecture before them.
class ModelKeys {
 public:
  ModelKeys(MetadataWriter& out, std::string_view architecture)
      : out_(out), prefix_(std::string(architecture) + ".") {}

  template <class T>
  void put(std::string_view name, const T& value) {
    out_.put(prefix_ + std::string(name), value);
  }
  // Writes a setting, if it is there. T is the setting's type.
  template <class T>
  Status copy(const Settings& config, std::string_view from, std::string_view to) {
    MILLRACE_ASSIGN(const auto value, config.find<T>(from));
    if (value) put_number(to, *value);
    return {};
  }

 private:
  void put_number(std::string_view name, double value) { put(name, static_cast<float>(value)); }
  void put_number(std::string_view name, std::uint32_t value) { put(name, value); }
  void put_number(std::string_view name, bool value) { put(name, value); }

  MetadataWriter& out_;
  std::string prefix_;
};

struct RopeFactors {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> values;
};

// `config` has the family's defaults and is uniform (uniform_settings.hpp).
// What the arithmetic of a model is, and what would change it is refused. Errors: folder_malformed
// (keys), unsupported_architecture (settings that the engine does not have).
Status write_model_keys(const HubFamily& family, const Settings& config, ModelKeys& keys);
// Those of layers that differ and of parts that only some families have; called by the above.
Status write_layer_keys(const HubFamily& family, const Settings& config, ModelKeys& keys);
Result<std::vector<RopeFactors>> write_rope_keys(const HubFamily& family, const Settings& config,
                                                 std::uint32_t head_dim, ModelKeys& keys);

// The channels of a head.
Result<std::uint32_t> read_head_dim(const Settings& config);
// The number of experts; 0: none.
Result<std::uint32_t> read_expert_count(const Settings& config);

std::unexpected<Error> refuse_setting(const Settings& config, const std::string& what);

}  // namespace millrace::engine
