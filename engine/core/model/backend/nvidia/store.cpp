// The rotation and store of keys and values of NVIDIA GPUs.
#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t items = 128;
constexpr std::uint32_t unit_channels = 8;  // of kernels/rope/nvidia.cl

// What that kernel writes; the generic kernel writes the rest.
bool serves(const KvCodecs& codecs, const AttentionKind& kind) {
  constexpr std::uint32_t half_bits = 16;
  return !codecs.key.packed() && !codecs.value.packed() && codecs.key.bits == half_bits &&
         codecs.value.bits == half_bits && !codecs.in_key && !codecs.centered &&
         kind.head_dim % unit_channels == 0 && kind.rope_dim % unit_channels == 0;
}

std::uint32_t units_of(const AttentionKind& kind) {
  return (kind.heads + 2 * kind.stored_heads()) * (kind.head_dim / unit_channels);
}

}  // namespace

Result<Kernel> NvidiaBackend::build_store(const KvCodecs& codecs, std::uint32_t kind) {
  const AttentionKind& of = target().kinds[kind];
  if (!serves(codecs, of)) return GenericBackend::build_store(codecs, kind);
  ProgramSpec program{
      .name = "store", .sources = {"rope/nvidia.cl"}, .defines = target().attention_defines(kind)};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("ITEMS", items);
  add("STORED_HEADS", of.stored_heads());
  add("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0);
  MILLRACE_ASSIGN(const Program built, target().device->build(program));
  return target().device->kernel(built, "rope_kv");
}

Status NvidiaBackend::rope_and_store(const AttentionCall& call) {
  const AttentionKind& kind = target().kinds[call.kv.kind];
  if (!serves(call.kv.codecs, kind)) return GenericBackend::rope_and_store(call);
  const AttentionItems& at = call.step.attention[target().cut_of(call.kv.kind)];
  return target().device->launch(
      store_kernel(call.kv),
      {.groups = {parts(units_of(kind), items), call.step.tokens}, .local = {items}},
      {call.qkv, call.rope, call.kv.buffer, call.step_words, at.positions_at, at.tables_at,
       kind.qkv_stride()});
}

}  // namespace millrace::engine
