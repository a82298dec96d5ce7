#pragma once
// The parts of a tensor's name on a hub. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::engine {

struct HubName {
  std::optional<std::uint32_t> layer{};
  std::string stem;    // without the layer, an expert's number and the ending; `*` for the number
  std::string ending;  // ".weight", ".bias" or nothing
  std::optional<std::uint32_t> expert{};
};

HubName split_hub_name(std::string_view name);

// Whether no text needs a tensor: those of images, of sound, of drafts, and scales of activations.
bool is_unused(std::string_view name);

}  // namespace millrace::engine
