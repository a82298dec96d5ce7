#pragma once
// What a model's kernels are compiled for: the device, the model's shapes, the math mode and the
// tuned numbers; and the defines that follow from them, the same in every family. Thread safety:
// the device's owner thread.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/model/backend/kernel_variant.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/weights.hpp"
#include "kernels/tuned.hpp"

namespace millrace::engine {

// What attention's kernels are compiled for, and the scale, which they are given.
struct AttentionKind {
  std::uint32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false, halves = false;
  std::uint32_t rope_dim = 0;
  float scale = 0.0f;
  bool operator==(const AttentionKind&) const = default;
};

// The key of a device's row in the tuned table.
kernels::DeviceKey tuning_key(const Device& device);

struct Target {
  // `tuning` replaces the device's row of the tuned table.
  Target(Device& device, const ModelSpec& spec, MathMode math, KernelVariant variant = {},
         const std::optional<kernels::Tuning>& tuning = {});

  // Gives the rows of the queries, keys and values: their number, and where keys and values begin.
  void set_qkv(const Projection& qkv);

  // The kind of a layer's attention, by which its kernels are found: layers of one kind share them.
  std::uint32_t kind_of(const AttentionSpec& attention) const;
  // The place of the layers' window in `windows`.
  std::uint32_t window_of(std::uint32_t kind) const;

  float inverse_width() const;
  std::string gate_define() const;
  std::vector<std::string> attention_defines(std::uint32_t kind) const;
  void add_attention_shape(ProgramSpec& program, std::uint32_t kind) const;

  Device* device;
  ModelSpec spec;
  MathMode math;
  kernels::Tuning tuning;
  KernelVariant variant;
  std::vector<AttentionKind> kinds;
  std::vector<std::uint32_t> windows;
  // After set_qkv: the floats of a row of qkv, and the defines of kernels that read such rows.
  std::uint32_t qkv_stride = 0;
  std::vector<std::string> layer_defines;
};

}  // namespace millrace::engine
