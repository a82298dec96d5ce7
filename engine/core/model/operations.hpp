#pragma once
// The kernels of a model, compiled for its shapes and the device's family, and how each is
// launched. Operations know nothing of layers; Model strings them together. Activations are kept
// as rows, float [tokens][stride] with stride from `input_stride`, zero beyond their true width;
// and, where integer products read them, as codes, int [tokens][code_stride]
// (kernels/quantize/block.cl). Errors: kernel_build, device_error. Thread safety: the device's
// owner thread.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/spec.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "kernels/tuned.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Floats from one row to the next of a matrix product's input with so many columns: padded so
// that rows do not fall on the same cache sets.
constexpr std::uint32_t input_stride(std::uint32_t columns) {
  return round_up(columns, 32) + 16;
}
// Words from one row to the next of the same input in codes: an odd number of cache lines, for the
// same reason.
constexpr std::uint32_t code_stride(std::uint32_t columns) {
  constexpr std::uint32_t block_words = 12, line_words = 16;
  return round_up(round_up(columns, block_columns) / block_columns * block_words, 2 * line_words) +
         line_words;
}
// Rows that must be readable after the last row of a product's input.
inline constexpr std::uint32_t input_slack_rows = 16;

// In which forms an activation is there, or wanted.
struct Forms {
  bool rows = false, codes = false;
  Forms operator|(const Forms& other) const { return {rows || other.rows, codes || other.codes}; }
  Forms& operator|=(const Forms& other) { return *this = *this | other; }
};
struct Activation {
  Buffer rows, codes;  // empty where nothing reads that form
};

// The input of a product that begins with a norm: rows of the residual stream, the norm's weight,
// and where the normed rows go if they must be written.
struct Normed {
  const Buffer& rows;
  const Buffer& weight;
  const Activation& normed;
};

enum class Accumulate : std::uint8_t { replace, add };

inline const Buffer no_buffer{};

// A layer's pages, how keys and values are stored there, and, for centered keys, what is taken off
// them: float [segments][KV heads][head_dim] (key_center.hpp). With the sinks of its heads, float
// [heads], where the model has them.
struct KvPages {
  const Buffer& buffer;
  KvCodecs codecs{};
  const Buffer& means = no_buffer;
  const Buffer& sinks = no_buffer;
};

// What a layer is made of, and its keys and values.
struct LayerParts {
  const Buffer &attention_norm, &ffn_norm;
  const Projection &qkv, &output, &gate_up, &down;
  KvPages kv;
};

// Layers that follow each other and run in one launch.
struct LayerRun {
  Kernel kernel;  // its own: the driver knows what it reads
  std::uint32_t layers = 0;
  Buffer table;  // the addresses of what each is made of
};

// What a step of layers reads and writes.
struct LayerStep {
  const Buffer &hidden, &normed_codes, &qkv, &attended_codes, &activated_codes;
  const Buffer& rope;
  const StepTable& step;
  const Buffer& step_words;
};

// Of the cpu family's attention kernels; all give the same bits.
struct AttentionVariant {
  std::uint32_t sums = 0;         // vectors of 16 sums kept in registers; 0 as tuned
  bool half_by_integers = false;  // converts halves without the processor's instruction
};

// Appends the tiles of attention/ for so many queries.
void add_tile_sources(ProgramSpec& program, std::uint32_t queries);

// What a device's row of the tuned table is looked up by.
kernels::DeviceKey tuning_key(const Device& device);

class Operations {
 public:
  // `tuning` instead of the device's row of the tuned table.
  Operations(Device& device, const ModelSpec& spec, MathMode math, AttentionVariant variant = {},
             const std::optional<kernels::Tuning>& tuning = {});

  // The forms in which a product reads its input.
  Forms inputs_of(const Projection& projection) const;

  // Compile what a layer needs besides its products and attention (`qkv` gives the rows at which k
  // and v begin), then attention, what looks up embeddings, and a product; each before its first
  // use, attention for every way to store keys and values and the last for every shape and type, at
  // no cost when it is known already.
  Status prepare_layer(const Projection& qkv);
  Status prepare_attention(const KvCodecs& codecs = {});
  Status prepare_embedding(const Projection& embedding);
  Status prepare_product(const Projection& projection);

  // How the device wants attention cut; StepTable is made with it.
  const AttentionLimits& attention_limits() const { return attention_; }

  Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
               const Buffer& device_ids, const Buffer& hidden);
  // Rows of x -> out, in the forms asked for; with `gather`, those that the step's outputs name.
  Status norm(const Buffer& x, const Buffer& weight, const Activation& out, Forms forms,
              const StepTable& step, const Buffer& step_words, bool gather);
  Status project(const Projection& projection, const Activation& x, std::uint32_t columns,
                 const Buffer& out, std::uint32_t out_stride, Accumulate accumulate);
  // The norm of a step's rows, then the product.
  Status norm_project(const Normed& x, const Projection& projection, const Buffer& out,
                      const StepTable& step, const Buffer& step_words);
  // The norm, gate and up, and SiLU(gate) * up in the forms asked for: one or two launches where
  // all is in codes, else by way of `gate_up`.
  Status norm_gate_up(const Normed& x, const Projection& projection, const Buffer& gate_up,
                      const Activation& out, Forms forms, const StepTable& step,
                      const Buffer& step_words);
  Status rope_and_store(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                        const StepTable& step, const Buffer& step_words);
  // After rope_and_store. The two share the work: on CPUs `attend` rotates the queries, and stores
  // rows of one token. Leaves the forms asked for; what `out` holds of another form may be written
  // over.
  Status attend(const Buffer& qkv, const Buffer& rope, const KvPages& kv, const Activation& out,
                Forms forms, const StepTable& step, const Buffer& step_words);
  Status silu(const Buffer& gate_up, const Activation& out, Forms forms, std::uint32_t tokens);

  // Whole layers in one launch, with the same bits as the operations one by one. Why a layer has no
  // kernel for that and runs in parts, and why two layers that have one need a launch each: for a
  // person, empty where they run whole, or together.
  std::string why_in_parts(const LayerParts& layer) const;
  static std::string why_apart(const LayerParts& before, const LayerParts& layer);
  // The compilation for layers that all run together (after prepare_layer; nothing else needs to be
  // prepared then), whose buffers must outlive the run; and the launch.
  Result<LayerRun> prepare_whole(std::span<const LayerParts> layers);
  Status run_whole(LayerRun& layers, const LayerStep& x);

  // What the groups of a launch share its work by, as far as it is allocated: zero before and after
  // each launch, but for one that broke off.
  std::vector<const Buffer*> counters() const;
  Status clear_counters();

 private:
  bool is_integer(const PanelFormat& format) const {
    return math_ == MathMode::fast && format.quantized();
  }
  // The kernels of one format and K; all but the first for integer products of the cpu family.
  struct Product {
    Kernel plain, gate_up;
  };
  // Of one way to store keys and values.
  struct KvKernels {
    Kernel rope_kv, attend_one, attend_many;
  };
  // What a whole layer's kernel is compiled for: the format, which of its four products have a
  // bias, in their order, and how keys and values are stored; a file may give a bias to some layers
  // and not to others.
  using LayerKind = std::tuple<PanelFormat, std::array<bool, 4>, KvCodecs>;
  static LayerKind kind_of(const LayerParts& layer);
  Result<Program> build_whole(const LayerParts& layer);
  // Work-items a row in the kernels that go along rows.
  std::uint32_t row_items() const { return device_->family() == Family::cpu ? 1 : 32; }
  float attention_scale() const;
  float inverse_width() const;
  Result<Kernel> build_exact_product(const PanelLayout& layout);
  Result<Product> build_integer_product(const PanelLayout& layout);
  Product& product_of(const WeightRun& run, const Projection& projection);
  bool is_fusable(const Projection& projection) const;
  Status reserve_sums();
  Status run_product(const WeightRun& run, const Projection& projection, const Activation& x,
                     std::uint32_t columns, const Buffer& out, std::uint32_t out_stride,
                     std::uint32_t mode);
  Result<Kernel> build_attention(const KvCodecs& codecs, std::uint32_t queries);
  SourcePart attention_shape() const;
  // x's rows to its codes.
  Status quantize(const Activation& x, std::uint32_t columns, std::uint32_t tokens);
  Status reserve_scratch(const StepTable& step);
  struct AttentionOutput {
    const Buffer &rows, &codes;  // empty: not wanted
  };
  Status attend_units(Kernel& kernel, const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                      AttentionOutput out, const StepTable& step, const Buffer& step_words,
                      ItemList units);

  Device* device_;
  ModelSpec spec_;
  MathMode math_;
  kernels::Tuning tuning_;
  AttentionVariant variant_;
  AttentionLimits attention_;
  std::uint32_t qkv_stride_ = 0;
  Kernel embed_, norm_, silu_;
  Kernel norm_quantize_, silu_quantize_, quantize_;  // math fast
  Buffer sums_, claims_;    // of gate and up, by group; of products' chunks
  Buffer partials_, work_;  // of attention units: what cut tiles gave, and counters
  Buffer phases_;           // of whole layers
  std::vector<std::string> layer_defines_;
  std::map<KvCodecs, KvKernels> kv_kernels_;
  std::map<std::pair<PanelFormat, std::uint32_t>, Product> products_;  // by format and padded K
  std::map<LayerKind, Program> whole_;
};

}  // namespace millrace::engine
