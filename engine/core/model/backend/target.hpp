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
#include "engine/core/model/forms.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/weights.hpp"
#include "kernels/tuned.hpp"

namespace millrace::engine {

// What the kernels of a layer's attention, of its heads' norms and of what turns or scales heads
// before it are compiled for; and the scale, which they are given. A row of qkv has the queries,
// from k_row() on the keys, from v_row() on the values, and from gate_row() on the gates of the
// heads' outputs, if there are any. A layer that stores none, because it attends to another
// layer's, has no rows of keys and values.
struct AttentionKind {
  std::uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false, halves = false;
  std::uint32_t rope_dim = 0;  // that attention turns
  std::uint32_t turn_dim = 0;  // that is turned before the heads' norms
  HeadNorm head_norm = HeadNorm::none;
  bool output_gate = false;
  // Of latent attention: the channels of a value, which are the last of its key; a row of qkv has
  // no values then. 0: values are as wide as keys.
  std::uint32_t latent = 0;
  bool stores = true, normed_values = false, keys_are_values = false;
  float scale = 0.0f;
  bool operator==(const AttentionKind&) const = default;

  std::uint32_t value_dim() const { return latent > 0 ? latent : head_dim; }
  std::uint32_t columns() const { return heads * value_dim(); }  // of the output
  std::uint32_t k_row() const { return heads * head_dim; }
  std::uint32_t v_row() const { return k_row() + kv_heads * head_dim; }
  std::uint32_t gate_row() const {
    if (!stores) return k_row();
    return v_row() + (latent > 0 ? 0 : kv_heads * head_dim);
  }
  // Floats of a row.
  std::uint32_t qkv_stride() const { return gate_row() + (output_gate ? columns() : 0); }
  std::uint32_t stored_heads() const { return stores ? kv_heads : 0; }
};

// Kinds whose attention a step cuts alike, and so share an entry of StepTable::attention.
struct AttentionCut {
  std::uint32_t window = 0, heads = 0, kv_heads = 0;
  bool latent = false;
  bool operator==(const AttentionCut&) const = default;
};

// The key of a device's row in the tuned table.
kernels::DeviceKey tuning_key(const Device& device);

struct Target {
  // `tuning` replaces the device's row of the tuned table.
  Target(Device& device, const ModelSpec& spec, MathMode math, KernelVariant variant = {},
         const std::optional<kernels::Tuning>& tuning = {});

  // The kind of a layer's attention, by which its kernels are found: layers of one kind share them.
  // The layer must have attention.
  std::uint32_t kind_of(const AttentionSpec& attention) const;
  // The place of a kind's entry in `cuts`, and in StepTable::attention.
  std::uint32_t cut_of(std::uint32_t kind) const;
  // The windows of `cuts`, one each, for StepLimits.
  std::vector<std::uint32_t> windows() const;

  float inverse_width() const;
  std::string gate_define() const;
  // Words that memory for so many rows of codes has, and of bytes.
  std::uint64_t byte_words(std::uint32_t columns, std::uint64_t rows) const {
    return engine::code_stride(columns, CodeForm::bytes) * code_rows(rows, CodeForm::bytes);
  }
  std::uint64_t code_words(std::uint32_t columns, std::uint64_t rows) const {
    return code_stride(columns) * code_rows(rows, code_form);
  }
  // Words from one row of codes to the next, and the defines of kernels that write codes.
  std::uint32_t code_stride(std::uint32_t columns) const {
    return engine::code_stride(columns, code_form);
  }
  std::vector<std::string> code_defines() const;
  // The defines of kernels that read rows of qkv; those of attention_defines also have its rope.
  std::vector<std::string> head_defines(std::uint32_t kind) const;
  std::vector<std::string> attention_defines(std::uint32_t kind) const;
  // Those of kernels/norm/heads.cl, besides head_defines.
  std::vector<std::string> head_norm_defines(std::uint32_t kind) const;
  void add_attention_shape(ProgramSpec& program, std::uint32_t kind) const;

  Device* device;
  ModelSpec spec;
  MathMode math;
  CodeForm code_form = CodeForm::integers;
  kernels::Tuning tuning;
  KernelVariant variant;
  std::vector<AttentionKind> kinds;
  std::vector<AttentionCut> cuts;
};

}  // namespace millrace::engine
