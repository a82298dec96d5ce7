#pragma once
// The weights of a mixture of experts on the device. Matrices of experts are packed in panels as
// all others are; an expert's panels, of gate and up stacked, follow those of the expert before. A
// buffer that would exceed the device's largest allocation is split between experts. Errors:
// gguf_malformed, with the name of a tensor that is missing, has another shape or, if it is no
// matrix, holds a number that is not finite, or of a layer whose metadata contradict one another;
// out_of_memory, device_error. Thread safety: the device's owner thread.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/feed_forward_spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Some panels of each of consecutive experts in one buffer.
struct ExpertRun {
  PanelFormat format;
  std::uint32_t first_row = 0;  // of an expert's output, a multiple of 16
  std::uint32_t panels = 0;     // of an expert
  std::uint32_t first_expert = 0, experts = 0;
  Buffer buffer;
};

// One matrix of each expert; or two over the same input, stacked.
struct ExpertMatrix {
  std::uint32_t columns = 0;          // inputs, the true number
  std::uint32_t rows = 0;             // outputs of an expert, each part rounded up to 16
  std::vector<WeightTensor> tensors;  // of each part
  std::vector<ExpertRun> runs;
  Buffer bias;  // float [experts][rows], or empty
  // Gate and up of each expert stand in turns, as Projection::paired says.
  bool paired = false;
};

struct ExpertWeights {
  // The row of each expert; then, at shared_gate_row, that of the shared expert's gate.
  Projection router;
  std::uint32_t shared_gate_row = 0;  // 0: the shared expert has no gate
  Buffer selection_bias;              // float [experts, rounded up to 16], or empty
  Buffer router_norm;                 // float [width, padded]: of the router's own input, or empty
  Buffer expert_factors;              // float [experts], of the weights of chosen ones, or empty
  ExpertMatrix gate_up, down;
  Projection shared_gate_up, shared_down;  // without runs if there is no shared expert
};

// Loads a matrix of each head of layer `index`, from a tensor of that name without "blk.N." and
// ".weight".
Result<ExpertMatrix> load_head_matrix(const Backend& backend, const GgufFile& file,
                                      const char* name, std::uint32_t columns, std::uint32_t rows,
                                      std::uint32_t heads, std::uint32_t index,
                                      WeightUploads& uploads);

// Loads the experts of layer `index` of a model of so many channels. If the file has
// ffn_gate_up_exps, rows of gate and then of up, it takes the place of ffn_gate_exps and
// ffn_up_exps. Where the gate function has no gate, gate_up and shared_gate_up are up alone.
Result<ExpertWeights> load_experts(const Backend& backend, const GgufFile& file,
                                   const ExpertsSpec& spec, Gate gate, std::uint32_t width,
                                   std::uint32_t index, WeightUploads& uploads);

}  // namespace millrace::engine
