#pragma once
// The matrices of each layer, and where in the file they are: a file may hold several matrices over
// the same input as one tensor, one below the other. The check that a file has the tensors that its
// model needs, and no others. Errors: gguf_malformed (a tensor is missing),
// unsupported_architecture (one is unknown). Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/families/keys.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// A matrix of [rows][columns]; of experts, `matrices` of them. It is rows [first_row, first_row +
// rows) of the tensor `tensor`.weight, which has tensor_rows, times `matrices`. If the file has
// `tensor`.bias, [matrices][tensor_rows], the same rows of it are added to the product; before
// that, `tensor`.scale, [matrices] or [1], multiplies it.
struct LayerMatrix {
  std::string_view name;  // as if nothing were fused: "attn_k"
  std::uint32_t columns = 0, rows = 0, matrices = 1;
  std::string tensor{};  // "blk.3.attn_k", or "blk.3.attn_qkv"
  std::uint32_t first_row = 0, tensor_rows = 0;
};

// Returns, if the layer attends, attn_q, of attn_k and attn_v those that it has, and attn_output;
// or, of latent attention, attn_kv_a_mqa, attn_k_b and attn_v_b (a matrix of each head),
// attn_output, and attn_q, or attn_q_a and attn_q_b; those of its recurrence, the last of them into
// the residual stream; then, of a dense feed-forward, ffn_gate, ffn_up and ffn_down; of experts
// ffn_gate_inp, ffn_gate_exps, ffn_up_exps and ffn_down_exps, then, where there is a shared expert,
// ffn_gate_shexp, ffn_up_shexp and ffn_down_shexp, and, where it has a gate, ffn_gate_inp_shexp;
// then, in a model with embeddings by layer, inp_gate and proj. Fused in some files: q, k and v
// (attn_qkv), the gates and ups of experts (ffn_gate_up_exps), and gate and up of a dense layer
// (ffn_up, with twice the rows). Where the gate function has no gate, there are no matrices of
// gates. With AttentionSpec::output_gate attn_q has for each head its queries, then the gates of
// its output.
std::vector<LayerMatrix> layer_matrices(const GgufFile& file, const ModelSpec& spec,
                                        std::uint32_t layer);

// The name of a layer's norm in the file. Converters leave out the ending of falcon-h1's.
std::string norm_tensor(const GgufFile& file, std::uint32_t layer, const std::string& name);

// Checks the names of the file's tensors, those of `blocks` that only draft left out.
Status check_tensors(const GgufFile& file, const ModelSpec& spec, Blocks blocks);

}  // namespace millrace::engine
