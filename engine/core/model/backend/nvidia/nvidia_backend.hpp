#pragma once
// The family of NVIDIA GPUs since compute capability 8.0. In math fast it has kernels of its own:
// of products on the matrix unit over halves (kernels/matmul/half_nvidia.cl), those of gate and up
// with their activation at the end, of norms (kernels/norm/nvidia.cl), of attention over halves and
// most packed codes (kernels/attention/nvidia.cl, nvidia_levels.cl), of the store of keys and
// values (kernels/rope/nvidia.cl, half_nvidia.cl), and of experts; the rest is generic. Math int8
// has products of bytes besides. On other devices, where tests force it, plain arithmetic stands
// for the instructions of these GPUs.
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/model/backend/generic/generic_backend.hpp"
#include "engine/core/model/backend/nvidia/attention_units.hpp"
#include "engine/core/model/backend/nvidia/byte_rows.hpp"
#include "engine/core/model/backend/nvidia/int8_products.hpp"
#include "engine/core/model/backend/nvidia/wide_products.hpp"

namespace millrace::engine {

// How a product of some size is cut (half_nvidia.cl): into tiles of a warp, and stages.
enum class Weights : std::uint8_t { any, codes, halves };
struct WarpShape {
  std::uint32_t warps = 1;              // of a group
  std::uint32_t panels = 1, tiles = 1;  // of a warp; a tile has 8 columns
  std::uint32_t stage_blocks = 2, stages = 2;
  Weights weights = Weights::any;  // that it is for
  auto operator<=>(const WarpShape&) const = default;
};

// The program of half_nvidia.cl for a shape.
ProgramSpec warp_program(const Target& target, const PanelLayout& layout, const WarpShape& shape);

class NvidiaBackend final : public GenericBackend {
 public:
  explicit NvidiaBackend(Target of)
      : GenericBackend(with_halves(std::move(of)), true),
        wide_(target()),
        byte_rows_(target()),
        int8_(target()),
        limits_(matrix_limits()) {}

  // Codes, which are halves, for all matrices but those of floats, or of columns that do not fill
  // whole blocks; bytes for those of bytes.
  Forms inputs_of(const PanelFormat& format, std::uint32_t columns, MathMode math) const override;
  // BF16 as the halves that are multiplied, MXFP4 as floats of 4 bits; in math int8 bytes, of all
  // types and columns that products of codes take, but for logits.
  PanelFormat stored_format(TensorType type, std::uint32_t columns, bool logits) const override;
  // Gate and up in turns, of all types but floats.
  bool pairs_gate(const PanelFormat& format, std::uint32_t columns) const override;
  Result<Forms> gated(const GatedCall& call) override;
  std::unique_ptr<ExpertProducts> experts(const ExpertsSpec& spec, Gate gate) override;
  Status to_bytes(const BytesCall& call) override { return byte_rows_.run(call); }
  // Where products round, in a kernel of its own.
  Status prepare_norm() override;
  Result<Forms> norm(const NormCall& call) override;
  void cut_attention(StepTable& step) override { planner_.append(limits_, step); }
  Status prepare_attention(const KvCodecs& codecs, std::uint32_t kind) override;
  // Does nothing where attend() does it all.
  Status rope_and_store(const AttentionCall& call) override;
  Result<Forms> attend(const AttentionCall& call, const Activation& out, Forms forms) override;
  // None; its text also says how products run.
  Result<JoinedLayers> join(std::span<const LayerProgram> layers) override;
  std::vector<const Buffer*> counters() const override;

  // The limits by which a step's attention is cut, one for each entry of Target::cuts.
  const std::vector<MatrixLimits>& attention_limits() const { return limits_; }

 protected:
  // Of the generic kernel: a work-item for each of 128 channels, which most models' heads have.
  // Other numbers were not measured.
  std::uint32_t attention_items() const override { return 128; }
  Result<Kernel> build_attention(const KvCodecs& codecs, std::uint32_t kind) override;
  Result<Kernel> build_store(const KvCodecs& codecs, std::uint32_t kind) override;
  std::uint32_t store_groups(const KvPages& kv) const override;
  std::uint32_t store_items(const KvPages& kv) const override;
  Status prepare_codes(const PanelLayout& layout) override;
  Status project_codes(const ProductCall& call, const WeightRun& run) override;
  // Of matrices of floats, in a kernel of its own.
  Status prepare_rows(const PanelLayout& layout) override;
  Status project_rows(const ProductCall& call, const WeightRun& run) override;

 private:
  static Target with_halves(Target target);
  // Format, padded K, and the shape.
  using UnitKey = std::tuple<PanelFormat, std::uint32_t, WarpShape>;
  bool suits(const WarpShape& shape, const PanelFormat& format) const;
  const WarpShape& shape_for(const PanelFormat& format, std::uint32_t panels,
                             std::uint32_t columns) const;
  Status prepare(const PanelLayout& layout, const WarpShape& shape);
  // The mode is that of the kernels (kernels/matmul/mode.h).
  Status multiply(const ProductCall& call, const WeightRun& run, std::uint32_t mode);

  struct AttentionOutput {
    const Buffer &rows, &codes, &bytes;  // empty: not wanted
  };
  // The groups of a unit: the warps of each, and the tokens that have a group of their own.
  struct UnitGroups {
    std::uint32_t warps = 1, tokens = 1;
  };
  bool has_matrix_attention(const AttentionKind& kind) const;
  bool makes_bytes(const KvCodecs& codecs, std::uint32_t kind) const;
  bool on_matrix_unit(const KvCodecs& codecs, std::uint32_t kind) const;
  bool stores_halves(const KvCodecs& codecs, std::uint32_t kind) const;
  bool stores_in_attention(const AttentionCall& call) const;
  std::vector<MatrixLimits> matrix_limits() const;
  std::uint32_t wide_warps(const KvCodecs& codecs, std::uint32_t kind) const;
  Result<Kernel> build_matrix_attention(const KvCodecs& codecs, std::uint32_t kind,
                                        std::uint32_t warps, bool shared_rows);
  Status reserve_attention(const AttentionKind& kind, const MatrixLimits& limits,
                           const AttentionItems& items, std::uint32_t tokens);
  Status attend_units(Kernel& kernel, const UnitGroups& groups, const AttentionCall& call,
                      const AttentionOutput& out, const ItemList& units);

  std::map<UnitKey, Kernel> unit_products_;
  // Products of floats, by padded K, for few and for many columns.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Kernel> float_products_;
  WideProducts wide_;
  ByteRows byte_rows_;
  Int8Products int8_;
  Kernel norm_;
  std::vector<MatrixLimits> limits_;
  MatrixPlanner planner_;
  std::map<std::pair<KvCodecs, std::uint32_t>, Kernel> wide_attention_;  // by codecs and kind
  // Results of segments, and counters, of tiles that are cut. Launches run in order, so all layers
  // use the same; the driver keeps an old buffer until its commands are done.
  Buffer partials_, attention_counters_;
  Buffer written_;  // counts the sets of heads of each token's tile that are done
};

}  // namespace millrace::engine
