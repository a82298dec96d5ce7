// Attention of NVIDIA GPUs.
#include <algorithm>
#include <utility>

#include "engine/core/kv/codec.hpp"
#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/attention/work.h"

namespace millrace::engine {
namespace {

constexpr std::uint32_t vector_bytes = 16;
// Groups of wide tiles that a multiprocessor computes at the same time, by their registers.
constexpr std::uint32_t groups_at_once = 2;
constexpr std::uint32_t most_warps = 4;
constexpr std::uint32_t bulk_capability = 90;  // from which on pages arrive by few instructions
constexpr std::uint32_t sharing_warps = 4;  // of narrow tiles of halves, which have the same rows

// Query heads that share the rows of a warp, of those of a KV head.
std::uint32_t heads_of_set(const AttentionKind& kind) {
  const std::uint32_t group = kind.heads / kind.kv_heads;
  std::uint32_t heads = std::min<std::uint32_t>(group, MATRIX_ROWS);
  while (group % heads != 0) --heads;
  return heads;
}

bool is_packed(const KvCodecs& codecs) {
  return codecs.key.packed() || codecs.value.packed();
}
// Whether both sides are codes, which kernels/attention/nvidia_levels.cl multiplies as integers.
bool in_levels(const KvCodecs& codecs) {
  return codecs.key.packed() && codecs.value.packed();
}

// The local memory of a group for narrow tiles, and for wide ones of so many warps, besides the
// ring.
constexpr std::uint32_t page_bytes = 1024;  // for numbers of pages, and what the driver takes
std::uint32_t narrow_bytes(const AttentionKind& kind) {
  return MATRIX_SHARED_VECTORS(kind.head_dim) * vector_bytes + page_bytes;
}
std::uint32_t wide_bytes(const AttentionKind& kind, std::uint32_t warps) {
  return warps * MATRIX_OWN_VECTORS(kind.head_dim) * vector_bytes + page_bytes;
}
// Of the keys and values of a block.
std::uint32_t block_bytes(const KvCodecs& codecs, std::uint32_t head_dim) {
  if (!codecs.key.packed()) {
    return (MATRIX_PLAIN_KEYS(head_dim) + MATRIX_PLAIN_VALUES(head_dim)) * vector_bytes;
  }
  const std::uint32_t block = in_levels(codecs) ? LEVEL_BLOCK : MATRIX_BLOCK;
  std::uint64_t bytes = 0;
  for (const KvCodec& codec : {codecs.key, codecs.value}) {
    bytes += code_bytes(codec, block, head_dim) + parameter_bytes(codec, block, head_dim);
  }
  return static_cast<std::uint32_t>(bytes);
}
// The blocks of a ring: as many as hide the time of a load, as far as groups that share a
// multiprocessor leave memory.
std::uint32_t ring_blocks(const KvCodecs& codecs, std::uint32_t head_dim, bool shared_rows) {
  constexpr std::uint32_t kib = 1024, least = 2;
  // More warps at the same time hide more: on an H200, 64 rows of 7,000 take 178 us, 202 with two.
  if (in_levels(codecs)) return 1;
  const std::uint32_t bytes = (shared_rows ? 50 : 34) * kib;
  const std::uint32_t most = shared_rows ? 7 : 4;
  return std::clamp(bytes / block_bytes(codecs, head_dim), least, most);
}

// Warps that share the rows of a warp of a wide tile of halves. Over affine codes two hide more: on
// an H200, 2 prompts of 512 in q8 take 63.6 us in place of 66.8. Where levels are looked up, the
// compiler takes more registers, and fewer groups share a multiprocessor: 94 in place of 79.
std::uint32_t warp_parts(const KvCodecs& codecs, const MatrixLimits& limits) {
  const bool affine =
      codecs.key.kind == CodecKind::affine && codecs.value.kind == CodecKind::affine;
  return affine && limits.warp_tokens % 2 == 0 ? 2 : 1;
}

bool is_half(const KvCodec& codec) {
  constexpr std::uint32_t half_bits = 16;
  return !codec.packed() && codec.bits == half_bits;
}
// Whether codes are operands, as bytes (kernels/attention/levels.cl).
bool has_operands(const KvCodec& codec) {
  switch (codec.kind) {
    case CodecKind::plain:
      return false;
    case CodecKind::affine:
      return codec.bits <= 4 || codec.bits == 8;
    case CodecKind::rotated:
      return codec.bits <= 4;
  }
  std::unreachable();
}

}  // namespace

// Whether narrow tiles of kernels/attention/nvidia.cl make bytes of their outputs: where a row fits
// the registers of the group that is the last of it.
bool NvidiaBackend::makes_bytes(const KvCodecs& codecs, std::uint32_t kind) const {
  constexpr std::uint32_t most_vectors = 8;  // of a work-item
  const std::uint32_t vectors = row_vectors(target().kinds[kind].columns());
  return target().math == MathMode::int8 && !is_packed(codecs) && on_matrix_unit(codecs, kind) &&
         vectors <= most_vectors * sharing_warps * warp_items;
}

// Whether kernels/attention/nvidia.cl computes a kind at all. Where halves have the local memory,
// so have codes: at most 96 KiB for heads of 128 channels, 182 for heads of 256, with four warps.
bool NvidiaBackend::has_matrix_attention(const AttentionKind& kind) const {
  constexpr std::uint32_t widest_head = 256;
  const std::uint32_t limit = local_limit(target().device->info().compute_capability);
  return rounds(target().math) && kind.latent == 0 && kind.head_dim <= widest_head &&
         kind.head_dim % 16 == 0 &&
         2 * block_bytes({}, kind.head_dim) + narrow_bytes(kind) <= limit;
}

bool NvidiaBackend::on_matrix_unit(const KvCodecs& codecs, std::uint32_t kind) const {
  const bool stored = (is_half(codecs.key) && is_half(codecs.value)) ||
                      (has_operands(codecs.key) && has_operands(codecs.value));
  return stored && has_matrix_attention(target().kinds[kind]) && !codecs.in_key && !codecs.centered;
}

// Kinds of one cut share tiles, so they share the number of warps, too.
std::vector<MatrixLimits> NvidiaBackend::matrix_limits() const {
  const DeviceInfo& info = target().device->info();
  std::vector<MatrixLimits> out(target().cuts.size());
  for (MatrixLimits& limits : out) limits.warps = most_warps;
  for (std::uint32_t k = 0; k < target().kinds.size(); ++k) {
    const AttentionKind& kind = target().kinds[k];
    if (!has_matrix_attention(kind)) continue;
    MatrixLimits& limits = out[target().cut_of(k)];
    limits.heads = heads_of_set(kind);
    limits.head_sets = kind.heads / limits.heads;
    limits.warp_tokens = MATRIX_ROWS / limits.heads;
    limits.groups = groups_at_once * info.compute_units;
    while (limits.warps > 1 && 2 * block_bytes({}, kind.head_dim) + wide_bytes(kind, limits.warps) >
                                   local_limit(info.compute_capability)) {
      limits.warps /= 2;
    }
  }
  return out;
}

// The warps of a group of wide tiles; 1: there are no such tiles.
std::uint32_t NvidiaBackend::wide_warps(const KvCodecs& codecs, std::uint32_t kind) const {
  const MatrixLimits& limits = limits_[target().cut_of(kind)];
  if (limits.warps == 1) return 1;
  return limits.warps * warp_parts(codecs, limits);
}

Result<Kernel> NvidiaBackend::build_matrix_attention(const KvCodecs& codecs, std::uint32_t kind,
                                                     std::uint32_t warps, bool shared_rows) {
  ProgramSpec program{
      .name = "attention",
      .sources = {in_levels(codecs) ? "attention/nvidia_levels.cl" : "attention/nvidia.cl"},
      .defines = target().attention_defines(kind)};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("GROUP_WARPS", warps);
  add("SHARED_ROWS", shared_rows ? 1 : 0);
  add("LEVELS", in_levels(codecs) ? 1 : 0);
  if (in_levels(codecs)) {
    add("WARP_PARTS", warps > 1 ? warps / limits_[target().cut_of(kind)].warps : 1);
    add("BULK_COPIES", target().device->info().compute_capability >= bulk_capability ? 1 : 0);
  }
  add("RING", ring_blocks(codecs, target().kinds[kind].head_dim, shared_rows));
  add("HEAD_SETS", limits_[target().cut_of(kind)].head_sets);
  add("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0);
  if (shared_rows && makes_bytes(codecs, kind)) {
    add("ROW_BYTES", 1);
    add("VECTORS", row_vectors(target().kinds[kind].columns()));
    add("ITEMS", warps * warp_items);
  }
  if (codecs.key.packed()) {
    add_kv_defines(program, codecs, target().kinds[kind].head_dim, target().math);
  }
  target().add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, target().device->build(program));
  return target().device->kernel(built, "attention");
}

Result<Kernel> NvidiaBackend::build_attention(const KvCodecs& codecs, std::uint32_t kind) {
  if (!on_matrix_unit(codecs, kind)) return GenericBackend::build_attention(codecs, kind);
  if (in_levels(codecs)) return build_matrix_attention(codecs, kind, 1, false);
  return build_matrix_attention(codecs, kind, sharing_warps, true);
}

Status NvidiaBackend::prepare_attention(const KvCodecs& codecs, std::uint32_t kind) {
  MILLRACE_TRY(GenericBackend::prepare_attention(codecs, kind));
  if (!on_matrix_unit(codecs, kind)) return {};
  const std::uint32_t warps = wide_warps(codecs, kind);
  Kernel& wide = wide_attention_[{codecs, kind}];
  if (!wide && warps > 1) {
    MILLRACE_ASSIGN(wide, build_matrix_attention(codecs, kind, warps, false));
  }
  return {};
}

Status NvidiaBackend::reserve_attention(const AttentionKind& kind, const MatrixLimits& limits,
                                        const AttentionItems& items, std::uint32_t tokens) {
  const std::uint64_t bytes = std::uint64_t{items.partials} * limits.head_sets *
                              MATRIX_PARTIAL_FLOATS(kind.head_dim) * sizeof(float);
  // Half as much again, because contexts grow from step to step.
  if (partials_.size_bytes() < bytes) {
    MILLRACE_ASSIGN(partials_,
                    target().device->allocate(bytes + bytes / 2, "the partial sums of attention"));
  }
  if (target().math == MathMode::int8 && written_.size_bytes() < std::uint64_t{tokens} * 4) {
    MILLRACE_ASSIGN(written_, target().device->allocate_zeroed(std::uint64_t{tokens} * 8,
                                                               "the counters of rows"));
  }
  const std::uint64_t counters = std::uint64_t{items.counters} * limits.head_sets * 4;
  if (attention_counters_.size_bytes() < counters) {
    MILLRACE_ASSIGN(attention_counters_,
                    target().device->allocate_zeroed(2 * counters, "the counters of attention"));
  }
  return {};
}

Status NvidiaBackend::attend_units(Kernel& kernel, const UnitGroups& groups,
                                   const AttentionCall& call, const AttentionOutput& out,
                                   const ItemList& units) {
  if (units.count == 0) return {};
  const KvPages& kv = call.kv;
  const AttentionKind& kind = target().kinds[kv.kind];
  const std::uint32_t cut = target().cut_of(kv.kind);
  return target().device->launch(
      kernel,
      {.groups = {limits_[cut].head_sets, units.count, groups.tokens},
       .local = {warp_items, groups.warps}},
      {call.qkv, stores_in_attention(call) ? call.rope : no_buffer, kv.sinks, kv.buffer,
       call.step_words, out.rows, out.codes, out.bytes, partials_, attention_counters_, written_,
       units.offset, kind.qkv_stride(), input_stride(kind.columns()),
       target().code_stride(kind.columns()), kind.scale});
}

// Writes codes in the same launch, if they are wanted, or bytes are to be made of them; and bytes,
// where there are no tiles of many tokens: of those a launch of its own makes them sooner.
Result<Forms> NvidiaBackend::attend(const AttentionCall& call, const Activation& out, Forms forms) {
  const KvPages& kv = call.kv;
  if (!on_matrix_unit(kv.codecs, kv.kind)) return GenericBackend::attend(call, out, forms);
  const std::uint32_t cut = target().cut_of(kv.kind);
  const AttentionItems& items = call.step.attention[cut];
  MILLRACE_TRY(reserve_attention(target().kinds[kv.kind], limits_[cut], items, call.step.tokens));
  const Forms made{
      .rows = forms.rows,
      .codes = forms.codes || forms.bytes,
      .bytes = forms.bytes && items.multi_units.count == 0 && makes_bytes(kv.codecs, kv.kind)};
  const AttentionOutput to{made.rows ? out.rows : no_buffer, made.codes ? out.codes : no_buffer,
                           made.bytes ? out.bytes : no_buffer};
  Kernel& wide = wide_attention_.at({kv.codecs, kv.kind});
  const UnitGroups wide_groups{.warps = wide_warps(kv.codecs, kv.kind)};
  const UnitGroups narrow_groups = in_levels(kv.codecs)
                                       ? UnitGroups{.warps = 1, .tokens = items.single_tokens}
                                       : UnitGroups{.warps = sharing_warps};
  MILLRACE_TRY(attend_units(attention_kernel(kv), narrow_groups, call, to, items.single_units));
  MILLRACE_TRY(attend_units(wide, wide_groups, call, to, items.multi_units));
  return made;
}

// Whether kernels/rope/half_nvidia.cl stores a layer's keys and values.
bool NvidiaBackend::stores_halves(const KvCodecs& codecs, std::uint32_t kind) const {
  const AttentionKind& of = target().kinds[kind];
  return is_half(codecs.key) && is_half(codecs.value) && !codecs.in_key && !codecs.centered &&
         of.latent == 0 && of.rope_dim > 0 && of.rope_dim % 8 == 0;
}

// Whether attention rotates and stores by itself (kernels/attention/own_token.cl): in steps whose
// sequences have one token each.
bool NvidiaBackend::stores_in_attention(const AttentionCall& call) const {
  const KvPages& kv = call.kv;
  const AttentionKind& kind = target().kinds[kv.kind];
  const std::uint32_t cut = target().cut_of(kv.kind);
  const AttentionItems& items = call.step.attention[cut];
  return stores_halves(kv.codecs, kv.kind) && on_matrix_unit(kv.codecs, kv.kind) && kind.stores &&
         limits_[cut].head_sets == kind.kv_heads && items.multi_units.count == 0 &&
         items.single_tokens == 1;
}

Status NvidiaBackend::rope_and_store(const AttentionCall& call) {
  return stores_in_attention(call) ? Status() : GenericBackend::rope_and_store(call);
}

Result<Kernel> NvidiaBackend::build_store(const KvCodecs& codecs, std::uint32_t kind) {
  const bool halves = stores_halves(codecs, kind);
  if (!halves && !is_packed(codecs)) return GenericBackend::build_store(codecs, kind);
  ProgramSpec store{.name = "store",
                    .sources = {halves ? "rope/half_nvidia.cl" : "rope/nvidia.cl"},
                    .defines = target().attention_defines(kind)};
  store.defines.push_back(define("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0));
  if (!halves) {
    add_kv_defines(store, codecs, target().kinds[kind].head_dim, MathMode::exact);
    const bool turns = codecs.key.kind == CodecKind::rotated && on_matrix_unit(codecs, kind);
    store.defines.push_back(define("TURN_QUERIES", turns ? 1 : 0));
  }
  MILLRACE_ASSIGN(const Program built, target().device->build(store));
  return target().device->kernel(built, "rope_kv");
}

// Packed heads have a warp each; halves are vectors, but for keys, which have a group for a head.
std::uint32_t NvidiaBackend::store_groups(const KvPages& kv) const {
  const AttentionKind& kind = target().kinds[kv.kind];
  if (is_packed(kv.codecs)) return kind.heads + 2 * kind.stored_heads();
  if (!stores_halves(kv.codecs, kv.kind)) return GenericBackend::store_groups(kv);
  const std::uint32_t items = target().device->row_items();
  const std::uint32_t values = kind.stored_heads() * (kind.head_dim / 4);
  return parts(kind.heads * (kind.rope_dim / 8), items) + parts(values, items) +
         kind.stored_heads();
}

std::uint32_t NvidiaBackend::store_items(const KvPages& kv) const {
  return is_packed(kv.codecs) ? warp_items : GenericBackend::store_items(kv);
}

std::vector<const Buffer*> NvidiaBackend::counters() const {
  std::vector<const Buffer*> out;
  for (const Buffer* each : {&attention_counters_, &written_}) {
    if (*each) out.push_back(each);
  }
  return out;
}

}  // namespace millrace::engine
