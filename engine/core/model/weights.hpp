#pragma once
// Weights on the device. A Projection is one or several matrices over the same input, stacked; q, k
// and v are one projection. Consecutive matrices of one format share a buffer and a launch. A
// buffer that would exceed the device's largest allocation is split between panels. Errors:
// gguf_malformed, with the name of a tensor that is missing, has another shape or, if it is no
// matrix, holds a number that is not finite; out_of_memory, device_error. Thread safety: the
// device's owner thread.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/panel.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class Backend;
class WeightUploads;

// A matrix, or some rows of one: files may hold q, k and v, or gate and up, in one tensor.
struct MatrixPart {
  std::string name;        // without ".weight"; NAME.bias is added if the file has one
  std::uint32_t rows = 0;  // outputs
  bool may_have_bias = true;
  std::uint32_t first_row = 0;    // in the tensor; a multiple of 16
  std::uint32_t tensor_rows = 0;  // of the whole tensor; 0: this part is all of it
  bool continues = false;         // has no place of its own in Projection::first
  bool may_have_scale = true;     // NAME.scale is the factor of its products
  bool exact = false;   // its rows are looked up, or its products are exact (stored_format)
  bool logits = false;  // its products are logits (stored_format)
};

// Consecutive panels in one buffer.
struct WeightRun {
  PanelFormat format;
  std::uint32_t first_row = 0;  // of the projection's output, a multiple of 16
  std::uint32_t panels = 0;
  Buffer buffer;
};

// A tensor of the file that is part of a projection.
struct WeightTensor {
  std::string name;
  TensorType type = TensorType::f32;
};

struct Projection {
  std::uint32_t columns = 0;          // inputs, the true number
  std::uint32_t rows = 0;             // outputs, each part rounded up to 16
  std::vector<std::uint32_t> first;   // output row at which each part begins
  std::vector<WeightTensor> tensors;  // of each part
  std::vector<WeightRun> runs;
  Buffer bias;  // [rows] float, or empty
  // Two parts, gate and up, stand in turns: a panel has 8 rows of the first, then the same 8 of the
  // second, and so do the runs' rows and the bias. `first` still says where rows of the parts
  // begin where they stand one after the other.
  bool paired = false;
};

// The backend says what a panel looks like in memory, and names the device. Memory is allocated
// here; `uploads` fills it, as it does in the functions below.
Result<Projection> load_projection(const Backend& backend, const GgufFile& file,
                                   std::span<const MatrixPart> parts, std::uint32_t columns,
                                   WeightUploads& uploads);

// Loads a gate and an up, or an up alone, in turns if the backend pairs them (pairs_gate). They are
// as large as each other.
Result<Projection> load_gate_up(const Backend& backend, const GgufFile& file,
                                std::span<const MatrixPart> parts, std::uint32_t columns,
                                WeightUploads& uploads);

// Puts numbers of a gate's rows and of an up's, one after the other, in the turns of their panels.
std::vector<float> in_turns(std::span<const float> rows);

// Loads a vector as fp32, zero-padded to `padded` entries.
Result<Buffer> load_vector(Device& device, const GgufFile& file, const std::string& name,
                           std::uint32_t size, std::uint32_t padded);

// The weights of a layer's recurrence (families/recurrence_spec.hpp). Those that its kind does not
// have are empty.
struct RecurrenceWeights {
  Projection in, out;
  Buffer taps;              // float [taps][channels], the last for the token itself
  Buffer conv_bias;         // float [channels]
  Buffer a, dt_bias, skip;  // A, dt_bias and D: float [heads, padded to 16]
  Buffer norm;              // float [value_dim]; in Mamba 2 [values]
};
// What latent attention has besides LayerWeights::qkv, which holds attn_q_a, or attn_q, and
// attn_kv_a_mqa. Without a latent of queries query_b has no runs, and query_norm is empty.
struct LatentWeights;

// A layer's weights. Norms that the layer does not have are empty; so are `sinks`, float [heads],
// and `head_norm`, the weights of the queries' norm, then of the keys', each float [head_dim] or
// [heads * head_dim] by HeadNorm.
struct LayerWeights {
  Buffer attention_norm, attention_post_norm, ffn_norm, ffn_post_norm, sinks, head_norm;
  Buffer dense_post_norm, experts_norm, experts_post_norm;
  Projection qkv, attention_output, gate_up, down;
  RecurrenceWeights recurrence;
  std::shared_ptr<const LatentWeights> latent;  // null: the layer has no latent attention
  // Of models with embeddings by layer.
  Projection embedding_gate, embedding_output;
  Buffer embedding_post_norm;
  Buffer output_scale;  // float [1], or empty
};
Result<LayerWeights> load_layer(const Backend& backend, const GgufFile& file, const ModelSpec& spec,
                                std::uint32_t index, WeightUploads& uploads);

}  // namespace millrace::engine
