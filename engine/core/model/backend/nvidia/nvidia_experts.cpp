#include "engine/core/model/backend/nvidia/nvidia_experts.hpp"

#include <algorithm>
#include <bit>

#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/experts/tiles.h"

namespace millrace::engine {
namespace {

constexpr std::uint32_t group_items = 256;  // of a group of group.cl
constexpr std::uint64_t most_choices = std::uint64_t{1} << 24;

// Steps of about as many choices share a shape, so that all that are asked for can be compiled
// before: 1, 2, 3, 4, 6, 8, 12, ...
std::uint64_t about(std::uint64_t choices) {
  const std::uint64_t next = std::bit_ceil(choices);
  return choices <= next / 4 * 3 ? next / 4 * 3 : next;
}

}  // namespace

std::unique_ptr<ExpertProducts> NvidiaBackend::experts(const ExpertsSpec& spec, Gate gate) {
  return std::make_unique<NvidiaExperts>(*this, wide_, spec, gate);
}

std::optional<RoutingKernels> NvidiaExperts::routing() const {
  if (spec_.groups > 1) return std::nullopt;
  constexpr std::uint32_t combine_items = 256;
  return RoutingKernels{.source = "experts/nvidia.cl",
                        .defines = {define("USED", spec_.used), define("ITEMS", combine_items)},
                        .route_items = warp_items,
                        .combine_items = combine_items};
}

std::uint64_t NvidiaExperts::slots_for(std::uint64_t choices) const {
  return MOST_SLOTS(choices, std::min<std::uint64_t>(spec_.count, choices));
}

NvidiaExperts::Key NvidiaExperts::key_of(const PanelFormat& format, std::uint32_t columns,
                                         const ExpertShape& shape) const {
  return {format, round_up(columns, block_columns),
          static_cast<std::uint32_t>(&shape - expert_shapes().data())};
}

const ExpertShape& NvidiaExperts::shape_for(std::uint64_t choices) const {
  const std::uint32_t forced = backend_->target().variant.expert_shape;
  if (forced > 0) return expert_shapes()[forced - 1];
  return expert_shape_for(about(choices), spec_.count, has_wide_);
}

Status NvidiaExperts::prepare(const ExpertWeights& weights) {
  if (!groups(weights)) {
    MILLRACE_TRY(generic_.prepare(weights.gate_up));
    return generic_.prepare(weights.down);
  }
  MILLRACE_TRY(prepare_group());
  MILLRACE_TRY(prepare_shapes(weights.gate_up));
  return prepare_shapes(weights.down);
}

Status NvidiaExperts::prepare_group() {
  if (group_) return {};
  constexpr std::uint32_t vector_words = 4;
  const Target& target = backend_->target();
  MILLRACE_ASSIGN(
      const Program built,
      device_->build(
          {.name = "group_experts",
           .sources = {"experts/group.cl"},
           .defines = {define("EXPERTS", spec_.count),
                       define("VECTORS", target.code_stride(target.spec.width) / vector_words),
                       define("ITEMS", group_items)}}));
  MILLRACE_ASSIGN(group_, device_->kernel(built, "group_rows"));
  return {};
}

Status NvidiaExperts::prepare_shapes(const ExpertMatrix& matrix) {
  for (const ExpertRun& run : matrix.runs) {
    layouts_.push_back(backend_->layout_of(run.format, matrix.columns));
    MILLRACE_TRY(build_shapes(layouts_.back()));
  }
  return {};
}

// Those that any number of choices may ask for. Where one of four warps fails, none is chosen any
// more, and all matrices need those of one warp.
Status NvidiaExperts::build_shapes(const PanelLayout& layout) {
  for (std::uint64_t choices = 1; choices < most_choices; choices = about(choices + 1)) {
    const ExpertShape& shape = shape_for(choices);
    const Status done = build(layout, shape);
    if (done) continue;
    const bool is_forced = backend_->target().variant.expert_shape > 0;
    if (!shape.wide || is_forced || done.error().code != Code::kernel_build) return done;
    wide_->give_up(done.error());
    has_wide_ = false;
    const std::vector<PanelLayout> all = layouts_;
    for (const PanelLayout& each : all) MILLRACE_TRY(build_shapes(each));
    return {};
  }
  return {};
}

Status NvidiaExperts::build(const PanelLayout& layout, const ExpertShape& shape) {
  Kernel& kernel = products_[key_of(layout.format, layout.columns, shape)];
  if (kernel) return {};
  const Target& target = backend_->target();
  ProgramSpec program = shape.wide ? wide_program(target, layout, shape.four, false)
                                   : warp_program(target, layout, shape.warp);
  program.name = "experts_" + program.name;
  program.defines.back() = define("GATE", static_cast<std::uint64_t>(gate_));
  program.defines.push_back(define("RAGGED", 1));
  program.defines.push_back(define("EXPERTS", spec_.count));
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(kernel, device_->kernel(built, "experts_matmul"));
  return {};
}

Status NvidiaExperts::reserve(std::uint64_t choices) {
  if (room_ >= choices) return {};
  const std::uint64_t room = std::bit_ceil(choices);
  constexpr std::uint64_t word = 4, tile_words = 4, least_columns = 8;
  const std::uint64_t words =
      TILES_AT(spec_.count) + tile_words * MOST_TILES(room, spec_.count, least_columns);
  MILLRACE_ASSIGN(tiles_, device_->allocate_zeroed(words * word, "the tiles of experts"));
  room_ = room;
  return {};
}

Status NvidiaExperts::group(const GroupCall& call) {
  const std::uint32_t choices = call.tokens * spec_.used;
  MILLRACE_TRY(reserve(choices));
  // Groups that share an expert's rows, so that all multiprocessors are busy.
  constexpr std::uint32_t most = 8;
  const std::uint32_t shared =
      std::clamp(2 * device_->info().compute_units / spec_.count, 1u, most);
  return device_->launch(group_, {.groups = {shared, spec_.count}, .local = {group_items}},
                         {call.chosen, call.x.codes, call.sorted.codes, call.places, call.scratch,
                          tiles_, choices, spec_.used, shape_for(choices).columns()});
}

Status NvidiaExperts::launch(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out,
                             std::uint32_t out_stride, std::uint32_t mode) {
  const std::uint32_t choices = call.slot_count;
  const ExpertShape& shape = shape_for(choices);
  const std::uint32_t busy = std::min(choices, spec_.count);
  const std::uint32_t tiles = MOST_TILES(choices, busy, shape.columns());
  for (const ExpertRun& run : matrix.runs) {
    const std::uint32_t rows = parts(run.panels, shape.panels());
    Grid grid;
    if (shape.wide) {
      const std::uint32_t resident = device_->info().compute_units * shape.four.groups;
      grid = {.groups = {std::min(tiles * rows, resident)},
              .local = {warp_items, shape.panels() + 1}};
    } else {
      grid = {.groups = {tiles, rows}, .local = {warp_items, shape.warp.warps}};
    }
    MILLRACE_TRY(device_->launch(
        products_.at(key_of(run.format, matrix.columns, shape)), grid,
        {run.buffer, call.sorted.codes, out, matrix.bias, run.panels, choices, out_stride,
         run.first_row, mode, tiles_, run.first_expert, run.experts, matrix.rows}));
  }
  return {};
}

Status NvidiaExperts::run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) {
  if (!call.grouped) return generic_.run(matrix, call, out);
  return launch(matrix, call, out, matrix.rows, product_mode(Accumulate::replace, matrix.bias));
}

Status NvidiaExperts::gated(const ExpertWeights& weights, const ExpertsCall& call,
                            const Buffer& codes) {
  const ExpertMatrix& matrix = weights.gate_up;
  return launch(matrix, call, codes, backend_->target().code_stride(spec_.width),
                product_mode(Accumulate::replace, matrix.bias) | MODE_GATED | MODE_CODES);
}

}  // namespace millrace::engine
