#pragma once
// The embeddings that a token has for each layer (families/spec.hpp has the formula), of models
// that have them. A step makes them after its embedding and before its first layer; each layer
// reads its own. Errors: those of loading weights, kernel_build, device_error, out_of_memory.
// Thread safety: the device's owner thread.
#include <cstdint>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class LayerEmbedding {
 public:
  // Loads the matrices through `uploads`, if the model has embeddings by layer, and makes room for
  // so many tokens. The operations must outlive it.
  Status load(Operations& operations, const GgufFile& file, std::uint32_t tokens,
              WeightUploads& uploads);
  Status prepare();  // compiles kernels

  bool exists() const { return operations_ != nullptr; }
  // The forms in which run() reads a step's rows.
  Forms inputs() const { return operations_->inputs_of(projection_); }
  // float [tokens][layers * layer_embedding], after run().
  const Buffer& rows() const { return rows_; }
  // `hidden` is the step's embedding; `normed` is overwritten with it. `ids` is as in
  // Operations::embed.
  Status run(const Buffer& hidden, const Activation& normed, const StepTable& step,
             const Buffer& step_words, const Buffer& ids);

 private:
  Operations* operations_ = nullptr;  // null: the model has none
  Projection table_, projection_;     // the tokens' own parts, and what multiplies their embedding
  Buffer norm_, rows_, projected_;
};

}  // namespace millrace::engine
