#pragma once
// The operations of a layer program (layer_program.hpp) on a device, compiled for a model's shapes.
// Those that go along rows are the same in every family of devices and stand here; what reads
// weights, attention and what runs in one launch are the backend's (backend/backend.hpp), and
// Operations adds what it left out. Model calls them in order, layer by layer. Activations are
// rows, float [tokens][stride] with stride from `input_stride`, zero beyond their true width; if
// integer products read them they are also codes, int [tokens][code_stride]
// (kernels/quantize/code_block.h). Errors: kernel_build, device_error. Thread safety: the device's
// owner thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/forms.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "kernels/tuned.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// The columns of the activation of gate and up, or of up alone, each rounded up to 16.
inline std::uint32_t gated_columns(const Projection& gate_up) {
  return gate_up.first.size() > 1 ? gate_up.first[1] : gate_up.rows;
}
struct SplitOp;

class Operations {
 public:
  explicit Operations(std::unique_ptr<Backend> backend);
  // With the backend of the device's family; the arguments are Target's.
  Operations(Device& device, const ModelSpec& spec, MathMode math, KernelVariant variant = {},
             const std::optional<kernels::Tuning>& tuning = {})
      : Operations(make_backend(Target(device, spec, math, variant, tuning))) {}

  Backend& backend() { return *backend_; }
  const Target& target() const { return target_; }

  // Floats from one row of the residual stream to the next.
  std::uint32_t width_stride() const { return input_stride(spec_.width); }
  const AttentionKind& kind(std::uint32_t index) const { return target_.kinds[index]; }
  // The forms in which a product reads its input.
  Forms inputs_of(const Projection& projection) const { return backend_->inputs_of(projection); }

  std::uint32_t kind_of(const AttentionSpec& attention) const { return target_.kind_of(attention); }

  // Compile kernels; call each function before the first use. prepare_layer compiles what a layer
  // needs besides its products and attention. prepare_attention is for each pair of codecs and
  // kind, prepare_product for each shape and type; both cost nothing when the kernel is compiled
  // already.
  Status prepare_layer();
  Status prepare_attention(const KvCodecs& codecs = {}, std::uint32_t kind = 0) {
    return backend_->prepare_attention(codecs, kind);
  }
  Status prepare_logits();
  Status prepare_embedding(const Projection& embedding) {
    return backend_->prepare_embedding(embedding);
  }
  Status prepare_product(const Projection& projection) {
    return backend_->prepare_product(projection, target_.math);
  }

  // Target::windows, which StepLowering needs.
  std::vector<std::uint32_t> windows() const { return target_.windows(); }

  Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
               const Buffer& device_ids, const Buffer& hidden) {
    return backend_->embed(embedding, step, step_words, device_ids,
                           {hidden, width_stride(), spec_.embedding_scale});
  }
  // Looks up rows of another matrix of as many rows, times `scale`.
  Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
               const Buffer& device_ids, const EmbeddedRows& out) {
    return backend_->embed(embedding, step, step_words, device_ids, out);
  }
  // Writes the norm of x's rows to out in `forms`; with `gather`, only of the rows that the step's
  // outputs name.
  Status norm(const Buffer& x, const Buffer& weight, const Activation& out, Forms forms,
              const StepTable& step, const Buffer& step_words, bool gather);
  Status project(const Projection& projection, const Activation& x, std::uint32_t columns,
                 const Buffer& out, std::uint32_t out_stride, Accumulate accumulate);
  // Computes gate and up, and gate function(gate) * up in `forms`. Unless the backend makes one
  // launch of it, gate and up go through the buffer `gate_up`.
  Status gated(const Activation& x, const Projection& projection, const Buffer& gate_up,
               const Activation& out, Forms forms, std::uint32_t tokens);
  Status rope_and_store(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                        const StepTable& step, const Buffer& step_words);
  // Call this after rope_and_store; the two share the work. It leaves `forms` in `out`, and may
  // overwrite the other form.
  Status attend(const Buffer& qkv, const Buffer& rope, const KvPages& kv, const Activation& out,
                Forms forms, const StepTable& step, const Buffer& step_words);
  // Computes gate function(gate) * up of rows `width` channels wide, a multiple of 16.
  Status gated_mul(const Buffer& gate_up, const Activation& out, Forms forms, std::uint32_t width,
                   std::uint32_t tokens);
  // Makes the forms of x that are wanted and not made yet: codes of rows, bytes of codes or rows.
  Status complete(const Activation& x, Forms made, Forms wanted, std::uint32_t columns,
                  std::uint32_t tokens) {
    return complete(x.rows, x, made, wanted, columns, tokens);
  }
  // Writes rows as they are to out in `forms`.
  Status convert(const Buffer& rows, const Activation& out, Forms forms, std::uint32_t tokens);
  // The embeddings that each token has for each layer, in place of the tokens' own parts of them
  // (kernels/embed/by_layer.cl): float [tokens][layers * layer_embedding].
  Status embed_by_layer(const Buffer& embeddings, const Buffer& projected, const Buffer& weight,
                        std::uint32_t tokens);
  // Computes gate function(gate) * the embedding of a layer; `gate_up` has room for both.
  Status gate_embedding(const Activation& x, const Projection& gate, const Buffer& embeddings,
                        std::uint32_t layer, const Buffer& gate_up, const Activation& out,
                        Forms forms, std::uint32_t tokens);
  std::uint32_t qkv_stride(std::uint32_t kind) const { return target_.kinds[kind].qkv_stride(); }
  // The next four are of layers of one kind. Norms latents (kernels/latent/split.cl), those of
  // queries in the forms that `split` names.
  Status split_latents(const Buffer& latents, const SplitOp& split, std::uint32_t kind,
                       const Activation& query_latent, const Buffer& qkv, std::uint32_t tokens);
  // Norms queries and keys in place, and values.
  Status norm_heads(const Buffer& qkv, const Buffer& weight, std::uint32_t kind,
                    std::uint32_t tokens);
  // Rotates queries and keys in place, for layers that norm them afterwards.
  Status turn_heads(const Buffer& qkv, const Buffer& rope, std::uint32_t kind,
                    const StepTable& step, const Buffer& step_words);
  // Multiplies the heads' outputs, which are in out.rows, by their gates, and leaves `forms`.
  Status gate_output(const Buffer& qkv, const Activation& out, Forms forms, std::uint32_t kind,
                     std::uint32_t tokens);
  // Multiplies queries by the factors of their positions, float [positions].
  Status scale_queries(const Buffer& qkv, const Buffer& factors, std::uint32_t kind,
                       const StepTable& step, const Buffer& step_words);
  // to = (to + scale * from) * total, `from` normed if `weight` is not empty, `total` 1 if it is;
  // or without the first `to`. Rows of width_stride().
  struct Sum {
    const Buffer &to, &from, &weight, &total;
    float scale = 1.0f;
    Accumulate accumulate = Accumulate::add;
  };
  Status add_branch(const Sum& sum, std::uint32_t tokens);
  // Scales and limits rows of logits in place, if the model asks for it.
  Status limit_logits(const Buffer& logits, std::uint32_t rows, std::uint32_t stride);

 private:
  std::uint32_t row_items() const { return device_->row_items(); }
  Status complete(const Buffer& rows, const Activation& out, Forms made, Forms wanted,
                  std::uint32_t columns, std::uint32_t tokens);
  // The kernels that change queries and keys before attention, as far as a kind needs them.
  struct HeadKernels {
    Kernel norm, turn, scale_queries, gate_output, split;
  };
  Status prepare_branches();
  Status prepare_embeddings();
  Status prepare_heads(std::uint32_t kind);
  Result<Kernel> build_for_heads(const char* source, const char* kernel, std::uint32_t kind,
                                 std::vector<std::string> defines = {});
  std::vector<std::string> row_defines() const;

  std::unique_ptr<Backend> backend_;
  const Target& target_;   // the backend's
  const ModelSpec& spec_;  // the target's
  Device* device_;
  Kernel norm_, gated_mul_;
  std::vector<HeadKernels> heads_;  // by kind
  // Of models that need them.
  Kernel add_branch_, limit_logits_, embed_by_layer_, place_embedding_;
  Kernel norm_quantize_, gated_mul_quantize_, quantize_;  // not in math exact
};

}  // namespace millrace::engine
