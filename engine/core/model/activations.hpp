#pragma once
// The activations of one step on the device (layer_program.hpp names them). Errors: out_of_memory,
// device_error. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <span>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/weights.hpp"

namespace millrace::engine {

struct Activations {
  Buffer hidden;      // the residual stream, float [tokens][input_stride(width)]
  Activation normed;  // input of qkv, gate_up and the logits
  Buffer qkv;         // q, k, v side by side, float [tokens][qkv.rows]; layers differ in rows
  // By the channels of all heads, in which layers may differ: rows of each width have zeros after
  // it. They always have the form of rows, because attention writes them.
  std::map<std::uint32_t, Activation> attended;
  // Gate, up side by side, float [tokens][gate_up.rows]; empty if no layer leaves them apart.
  Buffer gate_up;
  // Likewise, of the feed-forwards and of the embeddings by layer, by their width.
  std::map<std::uint32_t, Activation> activated;
  Buffer branch, mixed;  // like hidden; empty if no layer needs them
  Activation routed;     // like normed, rows only
  // Of latent attention, empty without it.
  Buffer latents;           // float [tokens][rows of the products that write it]
  Activation query_latent;  // of the latent's channels
  Buffer queries;           // float [tokens][rows of the product that writes it]
  Activation summed;        // of heads * the latent's channels

  // Allocates them for `tokens` of a step, and rows of `normed` for `outputs` too, which the norm
  // before the logits writes. `head` is the matrix of the logits. `embedding` is the form in which
  // embeddings by layer read normed, if the model has them.
  Status allocate(const ModelSpec& spec, std::span<const LayerProgram> layers,
                  const Projection& head, const Operations& operations, std::uint32_t tokens,
                  std::uint32_t outputs, Forms embedding = {});
  Status allocate_latents(const Target& target, std::span<const LayerProgram> layers,
                          std::uint32_t tokens);
  const Activation& activated_of(std::uint32_t columns) const;
  const Buffer& activated_codes(std::uint32_t columns) const;  // empty if there are none
  const Activation& product_input(const ProductOp& product) const;
  const Buffer& product_output(Slot slot) const;
};

// Compiles what run_layer() launches for the layer's attention, products and recurrence.
Status prepare_layer(Operations& operations, const LayerProgram& layer);

// Runs a layer's operations one by one: what they mean, and the reference of what backends make of
// them.
Status run_layer(Operations& operations, const LayerProgram& layer, const Activations& x,
                 const StepTable& step, const Buffer& step_words);

}  // namespace millrace::engine
