#pragma once
// Settings of config.json that classes, and versions of one class, state in different ways, in one
// way: their names as the family's row says, and `layer_types` as one kind for each layer:
//
//   full_attention, sliding_attention, linear_attention (all recurrences), conv, mlp, moe
//
// Settings of experts are absent from what has no experts. Thread safety: pure functions.
#include <string>
#include <vector>

#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {

// With the family's defaults. `family` is any of the class. Errors: folder_malformed (kinds that
// are absent, unknown, or not as many as layers), unsupported_architecture.
Result<Settings> uniform_settings(const HubFamily& family, const Settings& config);

// Which of a class's families uniform settings are of, as hub_families.cpp calls it.
Result<std::string> class_variant(std::string_view class_name, const Settings& config);

// The kinds of layers of uniform settings; empty: the class has one kind.
Result<std::vector<std::string>> read_layer_kinds(const HubFamily& family, const Settings& config);

}  // namespace millrace::engine
