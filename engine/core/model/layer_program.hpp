#pragma once
// A layer as a list of operations over named activations. compile_layer() makes it from what a
// family says of the layer (families/spec.hpp); a backend runs the list one by one or makes fewer
// launches of it (whole_layer.cpp). There is no other description of the forward pass.
//
// Activations of a step, one row for each token:
//
//   hidden     the residual stream
//   normed     the input of a product, after a norm or as it is in hidden
//   qkv        queries, keys and values side by side; of a recurrence all that its first product
//              gives (kernels/recurrence/shape.cl)
//   attended   the heads' outputs side by side; the recurrence's outputs
//   activated  the gated product of a feed-forward
//   latents    the latents of queries, or queries, and of keys, side by side; then, of latent
//              attention (families/spec.hpp, LatentSpec) alone, too:
//   query_latent  the normed latent of queries
//   queries    the queries before a head's matrix multiplies them
//   summed     the heads' weighed sums of latents, side by side
//   branch     the output of a sublayer that is normed or scaled before it joins hidden
//   routed     the input of a router that does not read normed
//   mixed      the sum of two feed-forwards side by side
// Thread safety: plain values, which point to the weights.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/core/families/spec.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/head_products.hpp"
#include "engine/core/model/latent_weights.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/recurrence.hpp"
#include "engine/core/model/weights.hpp"

namespace millrace::engine {

enum class Slot : std::uint8_t {
  hidden,
  normed,
  qkv,
  attended,
  activated,
  branch,
  routed,
  mixed,
  latents,
  query_latent,
  queries,
  summed
};
std::string_view slot_name(Slot slot);

// out = norm(hidden) with this weight, or hidden as it is if there is none.
struct NormOp {
  const Buffer* weight = nullptr;
  std::string_view name;  // of the weight
  Forms forms{};          // in which the operations that follow read it
  Slot out = Slot::normed;
};
// out = in x matrix, or out += in x matrix.
struct ProductOp {
  const Projection* matrix = nullptr;
  Slot in = Slot::normed, out = Slot::qkv;
  Accumulate accumulate = Accumulate::replace;
};
// Rotates queries and keys in qkv; attention then does not.
struct TurnOp {};
// Multiplies queries in qkv by the factors of their positions.
struct QueryScaleOp {
  const Buffer* factors = nullptr;
};
// Norms of queries and keys, and of values where the kind says so, in qkv.
struct HeadNormOp {
  const Buffer* weight = nullptr;
};
// Splits latents: query_latent = their normed first part, unless queries have no latent; the key of
// qkv = the channels that rotate, and the normed rest.
struct SplitOp {
  const Projection* latents = nullptr;  // whose product they are
  const LatentWeights* weights = nullptr;
  Forms forms{};
};
// A product of each head: the queries of qkv = what rotates of `in`, and the product of the rest;
// or attended = the product of summed.
struct HeadProductOp {
  HeadProducts* products = nullptr;
  const ExpertMatrix* matrix = nullptr;
  Slot in = Slot::queries, out = Slot::qkv;
  Forms forms{};  // of attended
};
// Rotates keys and writes keys and values of qkv to the cache.
struct StoreOp {};
// attended = attention of the rotated queries of qkv over the cache.
struct AttendOp {
  Forms forms{};
  Slot out = Slot::attended;
};
// attended *= sigmoid(gates of qkv).
struct GateOutputOp {
  Forms forms{};
};
// attended = the recurrence over qkv, which moves the sequences' states on.
struct RecurrenceOp {
  Recurrence* recurrence = nullptr;
  const RecurrenceWeights* weights = nullptr;
  const Buffer* states = nullptr;
  Forms forms{};
};
// activated = gate(normed x gate matrix) * (normed x up matrix).
struct GatedOp {
  const Projection* matrix = nullptr;  // gate and up
  Forms forms{};
};
// activated = gate(normed x gate matrix) * the layer's embedding.
struct EmbeddingGateOp {
  const Projection* matrix = nullptr;
  const Buffer* embeddings = nullptr;  // LayerEmbedding::rows
  std::uint32_t layer = 0;
  std::uint32_t embeddings_stride = 0;  // from a token's to the next one's
  Forms forms{};
};
// out += scale * the weighed sum of the experts' outputs for normed, and of branch, the shared
// expert's output, if there is one. With out = branch, it replaces what was there, and the router
// reads `routed`.
struct ExpertsOp {
  Experts* experts = nullptr;
  const ExpertWeights* weights = nullptr;
  bool shared = false;
  float scale = 1.0f;
  Slot out = Slot::hidden;
};
// to = (to + scale * norm(from)) * total, without the norm if there is no weight, without the first
// `to` if the sum replaces it, and without the number `total` if it is null.
struct AddOp {
  const Buffer* weight = nullptr;
  std::string_view name;
  float scale = 1.0f;
  Slot from = Slot::branch, to = Slot::hidden;
  Accumulate accumulate = Accumulate::add;
  const Buffer* total = nullptr;
};
using LayerOp = std::variant<NormOp, ProductOp, TurnOp, QueryScaleOp, HeadNormOp, SplitOp,
                             HeadProductOp, StoreOp, AttendOp, GateOutputOp, RecurrenceOp, GatedOp,
                             EmbeddingGateOp, ExpertsOp, AddOp>;

struct LayerProgram {
  const LayerSpec* spec = nullptr;
  KvPages kv;
  const Buffer* rope = nullptr;  // the table of the layer's rope
  std::vector<LayerOp> operations;
};

// What a layer's operations read besides activations; `experts` and `expert_weights` are null for a
// dense layer, `recurrence` for one without.
struct LayerParts {
  const LayerWeights& weights;
  KvPages kv;
  const Buffer& rope;
  const Buffer& query_factors;  // float [positions], or empty
  Experts* experts = nullptr;
  const ExpertWeights* expert_weights = nullptr;
  HeadProducts* head_products = nullptr;  // of latent attention
  Recurrence* recurrence = nullptr;
  const Buffer& states = no_buffer;            // of the layer's recurrence
  const Buffer& layer_embeddings = no_buffer;  // LayerEmbedding::rows
  std::uint32_t embeddings_stride = 0;         // from a token's to the next one's
  std::uint32_t index = 0;                     // of the layer
};
LayerProgram compile_layer(const LayerSpec& spec, const LayerParts& parts,
                           const Operations& operations);

// The program for people: one line for each operation; equal layers once.
std::string program_text(const ModelSpec& spec, std::span<const LayerProgram> layers,
                         const Projection& embedding, const Projection& head);

}  // namespace millrace::engine
