#pragma once
// The rotary tables of a model: one for each rope that its layers have. Thread safety: plain
// values.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/portable_math.hpp"
#include "engine/core/families/rotary.hpp"
#include "engine/core/families/spec.hpp"

namespace millrace::engine {

struct RopeTables {
  std::vector<RopeSpec> ropes;
  std::vector<std::vector<float>> tables;  // of each rope, [positions][dim / 2][2]
  std::vector<std::uint32_t> of_layer;     // the index of each layer's rope

  RopeTables(const ModelSpec& spec, std::uint32_t positions) {
    for (const LayerSpec& layer : spec.layers) {
      const RopeSpec& rope = layer.attention.rope;
      const auto found = std::ranges::find(ropes, rope);
      of_layer.push_back(static_cast<std::uint32_t>(found - ropes.begin()));
      if (found != ropes.end()) continue;
      ropes.push_back(rope);
      tables.push_back(rope_table(rope, positions));
    }
  }
  const std::vector<float>& layer(std::size_t index) const { return tables[of_layer[index]]; }
};

// The same on the device. Errors: out_of_memory, device_error.
struct DeviceRopes {
  std::vector<Buffer> tables;           // an empty buffer for layers that do not rotate
  std::vector<std::uint32_t> of_layer;  // the index of each layer's
  std::uint32_t positions = 0;

  static Result<DeviceRopes> load(Device& device, const ModelSpec& spec, std::uint32_t positions) {
    DeviceRopes out;
    RopeTables host(spec, positions);
    for (const std::vector<float>& table : host.tables) {
      Buffer buffer;
      if (!table.empty()) {
        MILLRACE_ASSIGN(buffer, device.allocate(table.size() * sizeof(float), "a rotary table"));
        MILLRACE_TRY(device.write(buffer, 0, std::as_bytes(std::span(table))));
      }
      out.tables.push_back(std::move(buffer));
    }
    out.of_layer = std::move(host.of_layer);
    out.positions = positions;
    return out;
  }
  const Buffer& layer(std::size_t index) const { return tables[of_layer[index]]; }
};

// The factors by which queries are multiplied, by position; empty if the model has none. Layers
// that have them have the same.
inline Result<Buffer> load_query_factors(Device& device, const ModelSpec& spec,
                                         std::uint32_t positions) {
  const auto layer = std::ranges::find_if(
      spec.layers, [](const LayerSpec& each) { return each.attention.temperature_beta != 0.0f; });
  if (layer == spec.layers.end()) return Buffer();
  const AttentionSpec& attention = layer->attention;
  std::vector<float> factors(positions);
  for (std::uint32_t p = 0; p < positions; ++p) {
    const std::uint32_t whole = p / attention.temperature_tokens;
    const double turns = 1.0 + whole;
    factors[p] = static_cast<float>(1.0 + double{attention.temperature_beta} * log_of(turns));
  }
  MILLRACE_ASSIGN(Buffer buffer, device.allocate(positions * sizeof(float), "factors of queries"));
  MILLRACE_TRY(device.write(buffer, 0, std::as_bytes(std::span(factors))));
  return buffer;
}

}  // namespace millrace::engine
