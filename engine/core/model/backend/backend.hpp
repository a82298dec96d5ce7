#pragma once
// What a family of devices does its own way: weights in memory, matrix products, attention over the
// cache, the products of experts, and layers that share a launch. Each family has a folder here
// with one implementation; make_backend() chooses it, and nothing above asks for the family. What
// is true for all families (what goes along rows, routing, the order of a layer) stands above, in
// Operations and Experts, which call a backend and make what it left out.
//
// Whatever the family, a result has the same bits in any company: they depend neither on the other
// rows of a launch, nor on the cut into groups (kernels/README.md). Functions enqueue and do not
// wait. Errors: kernel_build, device_error, out_of_memory. Thread safety: the device's owner
// thread.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/expert_products.hpp"
#include "engine/core/model/backend/pack.hpp"
#include "engine/core/model/backend/panel_layout.hpp"
#include "engine/core/model/backend/target.hpp"
#include "engine/core/model/forms.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct Activations;
struct LayerProgram;

// A layer's pages with their codecs; for centered keys the means that are subtracted, float
// [segments][KV heads][head_dim] (key_center.hpp); the sinks of its heads, float [heads], if the
// model has them; and the kind of its attention (Target::kind_of).
struct KvPages {
  const Buffer& buffer;
  KvCodecs codecs{};
  const Buffer& means = no_buffer;
  const Buffer& sinks = no_buffer;
  std::uint32_t kind = 0;
};

// out = matrix * x, or out += matrix * x, with the matrix's bias, for `columns` rows of x.
struct ProductCall {
  const Projection& matrix;
  const Activation& x;
  std::uint32_t columns = 0;
  const Buffer& out;
  std::uint32_t out_stride = 0;  // floats
  Accumulate accumulate = Accumulate::replace;
};

// gate function(gate) * up for rows of x, wanted in `forms`.
struct GatedCall {
  const Projection& matrix;  // gate and up
  const Activation& x;
  const Activation& out;
  Forms forms{};
  std::uint32_t tokens = 0;
};

// The norm of x's rows (kernels/norm/rms.cl), wanted in `forms`; with `gather`, only of the rows
// that the step's outputs name.
struct NormCall {
  const Buffer &x, &weight;
  const Activation& out;
  Forms forms{};
  const StepTable& step;
  const Buffer& step_words;
  bool gather = false;
};

// out = bytes of an activation that stands in `from`: its codes, or its rows.
struct BytesCall {
  const Buffer& from;
  bool codes = false;
  const Buffer& out;
  std::uint32_t columns = 0, tokens = 0;
};

// A layer's attention in a step. qkv has the rows of the layer's AttentionKind; `rope` is the table
// of its rope.
struct AttentionCall {
  const Buffer &qkv, &rope;
  const KvPages& kv;
  const StepTable& step;
  const Buffer& step_words;
};

// Consecutive layers that run in one launch. It lives no longer than its backend and the weights.
class LayerLaunch {
 public:
  LayerLaunch() = default;
  LayerLaunch(const LayerLaunch&) = delete;
  LayerLaunch& operator=(const LayerLaunch&) = delete;
  virtual ~LayerLaunch() = default;
  // Leaves in x.hidden, and in the cache, what run_layer() (activations.hpp) does layer by layer.
  virtual Status run(const Activations& x, const StepTable& step, const Buffer& step_words) = 0;
};

struct JoinedLayers {
  std::uint32_t count = 0;              // of layers in the launch; 0: the first one runs in parts
  std::unique_ptr<LayerLaunch> launch;  // null if there are none
  std::string why;  // for people: why the next layer is not in the launch; "" if there is no next
};

// Where rows of an embedding go, how far apart they are, and by what they are multiplied.
struct EmbeddedRows {
  const Buffer& rows;
  std::uint32_t stride = 0;  // floats
  float scale = 1.0f;
};

class Backend {
 public:
  // With `lanes` blocks stand as the lanes of a matrix unit take them (PanelLayout::lanes).
  explicit Backend(Target target, bool lanes = false) : target_(std::move(target)), lanes_(lanes) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  const Target& target() const { return target_; }

  // The form in which a product over such a matrix reads its input: rows in math exact, rows or
  // codes in math fast, one of the three in math int8; by default, where products round, codes for
  // quantized matrices and rows for all others. What codes are is for Target::code_form to say.
  virtual Forms inputs_of(const PanelFormat& format, std::uint32_t columns, MathMode math) const;
  Forms inputs_of(const Projection& matrix) const;
  Forms inputs_of(const ExpertMatrix& matrix) const;

  // In memory a matrix is panels of panel_rows rows, one after the other. What a panel looks like
  // is the family's: by default that of panel_layout.hpp. A family that wants another one replaces
  // the following four functions together. panel_bytes is the size of a panel of so many columns.
  virtual std::uint64_t panel_bytes(const PanelFormat& format, std::uint32_t columns) const;
  // Where the numbers of a panel stand, for families with the layout of panel_layout.hpp.
  PanelLayout layout_of(const PanelFormat& format, std::uint32_t columns) const {
    return {format, columns, lanes_};
  }
  // The format in which matrices of a type and so many columns are stored whose only use is
  // products of Target::math: another one than the type's own if such products read its values no
  // better. `logits`: the products are logits, which math int8 does not make of bytes. Scales of
  // another format that takes no factor have none: such matrices keep the type's own.
  virtual PanelFormat stored_format(TensorType type, std::uint32_t /*columns*/,
                                    bool /*logits*/) const {
    return format_of(type);
  }
  // Packs the rows of a tensor, whose type has the format or is stored in it, from panel_rows *
  // panel on, at most panel_rows, into `out`, which has panel_bytes. Scales are multiplied by
  // `factor`, which only formats with scales as float allow. Several threads pack at once.
  virtual void pack(const PanelFormat& format, const Tensor& tensor, std::uint32_t panel,
                    std::span<std::byte> out, float factor) const;
  // Whether a gate and an up of one type and so many columns are to stand in turns (Projection::
  // paired). Such a matrix is only for gated(), which then leaves none of it out. The default says
  // no; with it, pack_pair is not called.
  virtual bool pairs_gate(const PanelFormat& /*format*/, std::uint32_t /*columns*/) const {
    return false;
  }
  // Packs at most 8 rows of gate and the same of up into a panel.
  virtual void pack_pair(const PanelFormat& format, const PanelRows& gate, const PanelRows& up,
                         std::span<std::byte> out) const;
  // Looks up the rows of the step's ids, or of device_ids for tokens with a slot. prepare_embedding
  // compiles what a matrix needs.
  virtual Status prepare_embedding(const Projection& embedding);
  virtual Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
                       const Buffer& device_ids, const EmbeddedRows& out);

  // Compiles what project() and gated() launch for a matrix; costs nothing if that is done. `math`
  // may be exact where the model's is not: for products whose rounding would change a choice.
  virtual Status prepare_product(const Projection& matrix, MathMode math) = 0;
  virtual Status project(const ProductCall& call, MathMode math) = 0;
  // Returns the forms that it wrote: all of call.forms, but for codes in place of bytes; or, if the
  // family does not compute this matrix and gate in one launch, none. Nothing is enqueued in the
  // second case, which a paired matrix excludes.
  virtual Result<Forms> gated(const GatedCall& call) = 0;

  // Makes bytes of an activation's codes or rows, as products by a prepared matrix of so many
  // columns read them. Only families have it whose products do.
  virtual Status to_bytes(const BytesCall& call);

  // Compiles what norm() launches, if it launches anything.
  virtual Status prepare_norm() { return {}; }
  // Returns the forms that it wrote: all of call.forms or, as the default does, none.
  virtual Result<Forms> norm(const NormCall& /*call*/) { return Forms{}; }

  // Appends to a step what attention reads besides the lists that all families share. Call this
  // once for each step, before its words are written to the device. The default appends nothing.
  virtual void cut_attention(StepTable& /*step*/) {}
  // Compiles what the next two launch, for a pair of codecs and a kind; costs nothing if that is
  // done.
  virtual Status prepare_attention(const KvCodecs& codecs, std::uint32_t kind) = 0;
  // The two share the work, in this order: after both, the rotated keys and the values of all rows
  // are in the cache, and out has the heads' outputs. attend() returns the forms that it wrote: all
  // of `forms`, but for codes in place of bytes, or only rows. The caller makes what is left. It
  // may overwrite the other forms.
  virtual Status rope_and_store(const AttentionCall& call) = 0;
  virtual Result<Forms> attend(const AttentionCall& call, const Activation& out, Forms forms) = 0;

  // The bytes of a page of keys and values are those of its codecs (kv/policy.hpp); where they
  // stand in it is for the kernels of rope_and_store() and attend() to say, by default as
  // kernels/kv/layout.cl does. This function reads a key, float [head_dim], from a host copy of a
  // page of one layer that stores halves; `slot` is the token's place in the page.
  virtual void read_key(std::span<const std::byte> page, std::uint32_t head, std::uint32_t slot,
                        std::span<float> out) const;

  // The products of one kind of experts, which must not outlive the backend.
  virtual std::unique_ptr<ExpertProducts> experts(const ExpertsSpec& spec, Gate gate) = 0;

  // Compiles as many of the layers, from the first one on, as can run in one launch. A family that
  // has no such launch says so. `layers` is not empty; what it points to must outlive the launch.
  virtual Result<JoinedLayers> join(std::span<const LayerProgram> layers) = 0;

  // The counters by which groups share the work of a launch, as far as they are allocated. They are
  // zero before and after each launch, except after one that was aborted.
  virtual std::vector<const Buffer*> counters() const = 0;

 private:
  Target target_;
  bool lanes_ = false;
  std::map<std::pair<PanelFormat, std::uint32_t>, Kernel> embed_;  // by format and columns
};

// Refuses, as invalid_value, a mode that the device's family does not have.
Status check_math(const Device& device, MathMode math);

// The backend of the device's family, which has the target's mode. A new family adds its line here.
std::unique_ptr<Backend> make_backend(Target target);

}  // namespace millrace::engine
