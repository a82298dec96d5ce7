// Attention of the cpu family, with the store of keys and values: `attend` rotates the queries, and
// stores rows of one token.
#include <algorithm>

#include "engine/core/model/backend/cpu/cpu_backend.hpp"
#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Status CpuBackend::prepare_attention(const KvCodecs& codecs, std::uint32_t kind) {
  KvKernels& kernels = kv_kernels_[{codecs, kind}];
  if (kernels.rope_kv) return {};
  MILLRACE_ASSIGN(kernels.attend_one, build_attention(codecs, kind, 1));
  MILLRACE_ASSIGN(kernels.attend_many, build_attention(codecs, kind, limits_of(kind).tile_tokens));
  ProgramSpec program{
      .name = "store", .sources = {"rope/cpu.cl"}, .defines = target().attention_defines(kind)};
  add_kv_defines(program, codecs, target().kinds[kind].head_dim, MathMode::exact);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(kernels.rope_kv, device_->kernel(built, "rope_kv"));
  return {};
}

Result<Kernel> CpuBackend::build_attention(const KvCodecs& codecs, std::uint32_t kind,
                                           std::uint32_t queries) {
  ProgramSpec program{.name = "attention",
                      .sources = {"attention/cpu.cl"},
                      .defines = target().attention_defines(kind)};
  program.defines.push_back(define("QUERIES", queries));
  program.defines.push_back(define("HEAD_SETS", limits_of(kind).head_sets));
  program.defines.push_back(define("SUMS", target().variant.sums));
  if (target().variant.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  program.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_->dot())));
  add_kv_defines(program, codecs, target().kinds[kind].head_dim, target().math);
  target().add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "attention");
}

Status CpuBackend::rope_and_store(const AttentionCall& call) {
  const AttentionItems& items = call.step.attention[target().cut_of(call.kv.kind)];
  if (items.tiles.count == 0 || !target().kinds[call.kv.kind].stores) return {};
  return device_->launch(
      kv_kernels_.at({call.kv.codecs, call.kv.kind}).rope_kv, {.groups = {items.tiles.count}},
      {call.qkv, call.rope, call.kv.means, call.kv.buffer, call.step_words, items.positions_at,
       items.tables_at, items.tiles.offset, target().kinds[call.kv.kind].qkv_stride()});
}

Status CpuBackend::attend_units(Kernel& kernel, const AttentionCall& call, AttentionOutput out,
                                ItemList units) {
  if (units.count == 0) return {};
  const KvPages& kv = call.kv;
  const AttentionKind& kind = target().kinds[kv.kind];
  const AttentionItems& items = call.step.attention[target().cut_of(kv.kind)];
  const std::uint32_t columns = kind.columns();
  const std::uint32_t groups =
      std::min(units.count * limits_of(kv.kind).head_sets, target().device->info().compute_units);
  return device_->launch(kernel, {.groups = {groups}},
                         {call.qkv, call.rope, kv.means, kv.sinks, kv.buffer, call.step_words,
                          out.rows, scratch_.partials, scratch_.work, items.positions_at,
                          items.tables_at, units.offset, units.count, kind.qkv_stride(),
                          input_stride(columns), out.codes, code_stride(columns), kind.scale});
}

Result<Forms> CpuBackend::attend(const AttentionCall& call, const Activation& out, Forms forms) {
  KvKernels& kernels = kv_kernels_.at({call.kv.codecs, call.kv.kind});
  const AttentionKind& kind = target().kinds[call.kv.kind];
  const AttentionItems& items = call.step.attention[target().cut_of(call.kv.kind)];
  MILLRACE_TRY(scratch_.reserve_attention(*device_, kind, limits_of(call.kv.kind), items));
  const bool quantizes = forms.codes && kind.value_dim() % block_columns == 0;
  const bool rows = forms.rows || !quantizes;
  const AttentionOutput to{rows ? out.rows : no_buffer, quantizes ? out.codes : no_buffer};
  MILLRACE_TRY(attend_units(kernels.attend_one, call, to, items.single_units));
  MILLRACE_TRY(attend_units(kernels.attend_many, call, to, items.multi_units));
  return Forms{.rows = rows, .codes = quantizes};
}

}  // namespace millrace::engine
