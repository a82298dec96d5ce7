#include "engine/core/hub/hub_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace millrace::engine {
namespace {

// What may stand before a text model's own names.
constexpr auto prefixes =
    std::to_array<std::string_view>({"model.language_model.", "language_model.model.",
                                     "language_model.", "model.backbone.", "backbone.", "model."});
// Of images and sound, of drafts, of activations in few bits, and tables that follow from the
// configuration.
constexpr auto unused_parts = std::to_array<std::string_view>(
    {"vision_tower.", "multi_modal_projector.", "vision_model.", "visual.", "audio_tower.",
     "embed_vision.", "embed_audio.", "vision_embedder.", "mtp_", "mtp.", "rotary_emb.", ".k_scale",
     ".v_scale", ".input_scale", "activation_scale", ".attention.masked_bias"});

// Takes a number and a dot from the front of a text.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() + text.size() || *parsed.ptr != '.') {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()) + 1);
  return number;
}

}  // namespace

HubName split_hub_name(std::string_view name) {
  HubName out;
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  for (const std::string_view ending : {".weight", ".bias"}) {
    if (!name.ends_with(ending)) continue;
    out.ending = ending;
    name.remove_suffix(ending.size());
    break;
  }
  if (constexpr std::string_view layers = "layers."; name.starts_with(layers)) {
    name.remove_prefix(layers.size());
    out.layer = take_number(name);
  }
  constexpr std::string_view experts = ".experts.";
  if (const auto at = name.find(experts); at != std::string_view::npos) {
    std::string_view rest = name.substr(at + experts.size());
    out.expert = take_number(rest);
    if (out.expert) {
      out.stem = std::string(name.substr(0, at + experts.size())) + "*." + std::string(rest);
      return out;
    }
  }
  out.stem = name;
  return out;
}

bool is_unused(std::string_view name) {
  return std::ranges::any_of(unused_parts, [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

}  // namespace millrace::engine
