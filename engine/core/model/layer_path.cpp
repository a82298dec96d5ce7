#include "engine/core/model/layer_path.hpp"

#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

std::string count_text(std::uint32_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

// `why_apart` says why these layers do not share a launch with those before them.
void LayerPath::add_whole(std::uint32_t count, std::string_view why_apart) {
  if (launches > 0 && in_parts == 0 && reason.empty()) reason = why_apart;
  layers += count;
  ++launches;
}

// Layers in parts cost the most, so their reason replaces that of layers in separate launches.
void LayerPath::add_in_parts(std::string_view why) {
  if (in_parts == 0) reason = why;
  ++layers;
  ++in_parts;
}

// Layers on several devices never share a launch; only what else parts them is a reason.
void LayerPath::add(const LayerPath& path) {
  if (path.in_parts > 0 && in_parts == 0) reason = path.reason;
  if (reason.empty()) reason = path.reason;
  layers += path.layers;
  launches += path.launches;
  in_parts += path.in_parts;
}

std::string_view LayerPath::name() const {
  if (in_parts > 0) return "parts";
  return launches == 1 ? "one launch" : "several launches";
}

std::string LayerPath::text() const {
  std::string out = count_text(layers, "layer", "layers");
  if (in_parts == 0) {
    out += " in " + (launches == 1 ? "one launch" : std::to_string(launches) + " launches");
  } else if (launches == 0) {
    out += " in parts, several launches each";
  } else {
    out += ", of which " + std::to_string(in_parts) + " in parts, several launches each, and " +
           std::to_string(layers - in_parts) + " in " + count_text(launches, "launch", "launches");
  }
  return reason.empty() ? out : out + ": " + reason;
}

void LayerPath::log() const {
  log_info("how the layers run", {{"path", name()},
                                  {"layers", layers},
                                  {"whole_launches", launches},
                                  {"in_parts", in_parts},
                                  {"reason", reason}});
}

}  // namespace millrace::engine
