#pragma once
// The kernels of a model, compiled for its shapes and the device's family, and their launches.
// Model calls them in order, layer by layer. Activations are rows, float [tokens][stride] with
// stride from `input_stride`, zero beyond their true width; if integer products read them they are
// also codes, int [tokens][code_stride] (kernels/quantize/code_block.h). Errors: kernel_build,
// device_error. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "kernels/quantize/code_block.h"
#include "kernels/tuned.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Floats from one row to the next in the input of a matrix product with so many columns. The
// padding keeps rows from the same cache sets.
constexpr std::uint32_t input_stride(std::uint32_t columns) {
  return round_up(columns, 32) + 16;
}
// Words from one row to the next in the same input as codes: an odd number of cache lines, for the
// same reason.
constexpr std::uint32_t code_stride(std::uint32_t columns) {
  constexpr std::uint32_t line_words = 16;
  return round_up(round_up(columns, block_columns) / block_columns * Q_WORDS, 2 * line_words) +
         line_words;
}
// Number of rows that must be readable after the last row of a product's input.
inline constexpr std::uint32_t input_slack_rows = 16;

// The forms that an activation has, or that are wanted.
struct Forms {
  bool rows = false, codes = false;
  Forms operator|(const Forms& other) const { return {rows || other.rows, codes || other.codes}; }
  Forms& operator|=(const Forms& other) { return *this = *this | other; }
};
struct Activation {
  Buffer rows, codes;  // empty if nothing reads that form
};

enum class Accumulate : std::uint8_t { replace, add };

inline const Buffer no_buffer{};

// A layer's pages with their codecs; for centered keys the means that are subtracted, float
// [segments][KV heads][head_dim] (key_center.hpp); the sinks of its heads, float [heads], if the
// model has them; and the kind of its attention (Operations::kind_of).
struct KvPages {
  const Buffer& buffer;
  KvCodecs codecs{};
  const Buffer& means = no_buffer;
  const Buffer& sinks = no_buffer;
  std::uint32_t kind = 0;
};

// Variants of the cpu family's attention kernels. All give the same bits.
struct AttentionVariant {
  std::uint32_t sums = 0;         // vectors of 16 sums kept in registers; 0: the tuned number
  bool half_by_integers = false;  // converts halves without the processor's instruction
};

// The key of a device's row in the tuned table.
kernels::DeviceKey tuning_key(const Device& device);

class Operations {
 public:
  // `tuning` replaces the device's row of the tuned table.
  Operations(Device& device, const ModelSpec& spec, MathMode math, AttentionVariant variant = {},
             const std::optional<kernels::Tuning>& tuning = {});

  // Floats from one row of the residual stream to the next.
  std::uint32_t width_stride() const { return input_stride(spec_.width); }
  // The forms in which a product reads its input.
  Forms inputs_of(const Projection& projection) const;

  // The kind of a layer's attention, by which its kernels are found: layers of one kind share them.
  std::uint32_t kind_of(const AttentionSpec& attention) const;

  // Compile kernels; call each function before the first use. prepare_layer compiles what a layer
  // needs besides its products and attention; `qkv` gives the rows at which k and v begin.
  // prepare_attention is for each pair of codecs and kind, prepare_product for each shape and type;
  // both cost nothing when the kernel is compiled already.
  Status prepare_layer(const Projection& qkv);
  Status prepare_attention(const KvCodecs& codecs = {}, std::uint32_t kind = 0);
  Status prepare_logits();
  Status prepare_embedding(const Projection& embedding);
  Status prepare_product(const Projection& projection);

  // The limits for cutting attention on this device; StepLowering needs them.
  const AttentionLimits& attention_limits() const { return attention_; }
  const std::vector<std::uint32_t>& windows() const { return windows_; }

  Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
               const Buffer& device_ids, const Buffer& hidden);
  // Writes the norm of x's rows to out in `forms`; with `gather`, only of the rows that the step's
  // outputs name.
  Status norm(const Buffer& x, const Buffer& weight, const Activation& out, Forms forms,
              const StepTable& step, const Buffer& step_words, bool gather);
  Status project(const Projection& projection, const Activation& x, std::uint32_t columns,
                 const Buffer& out, std::uint32_t out_stride, Accumulate accumulate);
  // Computes gate and up, and gate function(gate) * up in `forms`. This takes one launch if
  // everything is in codes; otherwise gate and up go through the buffer `gate_up`.
  Status gated(const Activation& x, const Projection& projection, const Buffer& gate_up,
               const Activation& out, Forms forms, std::uint32_t tokens);
  Status rope_and_store(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                        const StepTable& step, const Buffer& step_words);
  // Call this after rope_and_store. The two share the work: on CPUs `attend` rotates the queries,
  // and stores rows of one token. It leaves `forms` in `out`, and may overwrite the other form.
  Status attend(const Buffer& qkv, const Buffer& rope, const KvPages& kv, const Activation& out,
                Forms forms, const StepTable& step, const Buffer& step_words);
  // Computes gate function(gate) * up of rows `width` channels wide, a multiple of 16.
  Status gated_mul(const Buffer& gate_up, const Activation& out, Forms forms, std::uint32_t width,
                   std::uint32_t tokens);
  // Writes rows as they are to out in `forms`.
  Status convert(const Buffer& rows, const Activation& out, Forms forms, std::uint32_t tokens);
  // Norms queries and keys in place.
  Status norm_heads(const Buffer& qkv, const Buffer& weight, std::uint32_t tokens);
  // Rotates queries and keys in place, for layers that norm them afterwards.
  Status turn_heads(const Buffer& qkv, const Buffer& rope, const StepTable& step,
                    const Buffer& step_words);
  // Multiplies queries by the factors of their positions, float [positions].
  Status scale_queries(const Buffer& qkv, const Buffer& factors, const StepTable& step,
                       const Buffer& step_words);
  // Adds scale * branch to the residual stream, normed if `weight` is not empty.
  Status add_branch(const Buffer& hidden, const Buffer& branch, const Buffer& weight, float scale,
                    std::uint32_t tokens);
  // Scales and limits rows of logits in place, if the model asks for it.
  Status limit_logits(const Buffer& logits, std::uint32_t rows, std::uint32_t stride);

  // The counters that groups share the work of a launch by, as far as they are allocated. They are
  // zero before and after each launch, except after one that was aborted.
  std::vector<const Buffer*> counters() const;

 private:
  friend class WholeLayers;  // builds the same parts into one kernel
  bool is_integer(const PanelFormat& format) const {
    return math_ == MathMode::fast && format.quantized();
  }
  // The kernels of one format and K. Only integer products of the cpu family have `gate_up`.
  struct Product {
    Kernel plain, gate_up;
  };
  // The kernels of one pair of codecs.
  struct KvKernels {
    Kernel rope_kv, attend_one, attend_many;
  };
  // What attention's kernels are compiled for, and the scale, which they are given.
  struct AttentionKind {
    std::uint32_t window = 0;
    float soft_cap = 0.0f;
    bool sinks = false, halves = false;
    std::uint32_t rope_dim = 0;
    float scale = 0.0f;
    bool operator==(const AttentionKind&) const = default;
  };
  static AttentionKind kind_for(const AttentionSpec& attention);
  // Work-items for each row in kernels that work on rows.
  std::uint32_t row_items() const { return device_->family() == Family::cpu ? 1 : 32; }
  // The place of the layers' window in windows().
  std::uint32_t window_of(std::uint32_t kind) const;
  std::string gate_define() const;
  std::vector<std::string> attention_defines(std::uint32_t kind) const;
  void add_attention_shape(ProgramSpec& program, std::uint32_t kind) const;
  float inverse_width() const;
  Status prepare_norms();
  Status prepare_queries();
  std::vector<std::string> row_defines() const;
  Result<Product> build_product(const PanelLayout& layout);
  Product& product_of(const WeightRun& run, const Projection& projection);
  bool is_fusable(const Projection& projection) const;
  Status reserve_sums();
  Status run_product(const WeightRun& run, const Projection& projection, const Activation& x,
                     std::uint32_t columns, const Buffer& out, std::uint32_t out_stride,
                     std::uint32_t mode);
  Result<Kernel> build_attention(const KvCodecs& codecs, std::uint32_t kind, std::uint32_t queries);
  // Converts x's rows to its codes.
  Status quantize(const Activation& x, std::uint32_t columns, std::uint32_t tokens);
  Status reserve_scratch(const StepTable& step);
  struct AttentionOutput {
    const Buffer &rows, &codes;  // empty: not wanted
  };
  Status attend_units(Kernel& kernel, const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                      AttentionOutput out, const AttentionItems& items, const Buffer& step_words,
                      ItemList units);

  Device* device_;
  ModelSpec spec_;
  MathMode math_;
  kernels::Tuning tuning_;
  AttentionVariant variant_;
  AttentionLimits attention_;
  std::uint32_t qkv_stride_ = 0;
  std::vector<AttentionKind> kinds_;
  std::vector<std::uint32_t> windows_;
  Kernel embed_, norm_, gated_mul_;
  // Of models that need them.
  Kernel norm_heads_, turn_heads_, scale_queries_, add_branch_, limit_logits_;
  Kernel norm_quantize_, gated_mul_quantize_, quantize_;  // math fast
  Buffer sums_, claims_;    // sums of gate and up by group; counters for chunks of products
  Buffer partials_, work_;  // partial sums of cut attention tiles; counters of attention
  std::vector<std::string> layer_defines_;
  std::map<std::pair<KvCodecs, std::uint32_t>, KvKernels> kv_kernels_;  // by codecs and kind
  std::map<std::pair<PanelFormat, std::uint32_t>, Product> products_;   // by format and padded K
};

}  // namespace millrace::engine
