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
  MILLRACE_ASSIGN(kernels.attend_many, build_attention(codecs, kind, attention_.tile_tokens));
  ProgramSpec program{
      .name = "store", .sources = {"rope/cpu.cl"}, .defines = target().attention_defines(kind)};
  add_kv_defines(program, codecs, target().spec.attention().head_dim, MathMode::exact);
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
  program.defines.push_back(define("SUMS", target().variant.sums));
  if (target().variant.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  program.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_->dot())));
  add_kv_defines(program, codecs, target().spec.attention().head_dim, target().math);
  target().add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "attention");
}

Status CpuBackend::rope_and_store(const AttentionCall& call) {
  const StepTable& step = call.step;
  if (step.tiles.count == 0) return {};
  const AttentionItems& items = step.attention[target().window_of(call.kv.kind)];
  return device_->launch(
      kv_kernels_.at({call.kv.codecs, call.kv.kind}).rope_kv, {.groups = {step.tiles.count}},
      {call.qkv, call.rope, call.kv.means, call.kv.buffer, call.step_words, items.positions_at,
       items.tables_at, step.tiles.offset, target().qkv_stride});
}

Status CpuBackend::attend_units(Kernel& kernel, const AttentionCall& call, AttentionOutput out,
                                ItemList units) {
  if (units.count == 0) return {};
  const KvPages& kv = call.kv;
  const AttentionSpec& heads = target().spec.attention();
  const AttentionItems& items = call.step.attention[target().window_of(kv.kind)];
  const std::uint32_t columns = heads.heads * heads.head_dim;
  const std::uint32_t groups = std::min(units.count * heads.kv_heads, attention_.workers);
  return device_->launch(
      kernel, {.groups = {groups}},
      {call.qkv, call.rope, kv.means, kv.sinks, kv.buffer, call.step_words, out.rows,
       scratch_.partials, scratch_.work, items.positions_at, items.tables_at, units.offset,
       units.count, target().qkv_stride, input_stride(columns), out.codes, code_stride(columns),
       target().kinds[kv.kind].scale});
}

Result<Forms> CpuBackend::attend(const AttentionCall& call, const Activation& out, Forms forms) {
  KvKernels& kernels = kv_kernels_.at({call.kv.codecs, call.kv.kind});
  const AttentionSpec& heads = target().spec.attention();
  const AttentionItems& items = call.step.attention[target().window_of(call.kv.kind)];
  MILLRACE_TRY(scratch_.reserve_attention(*device_, heads, attention_, call.step));
  const bool quantizes = forms.codes && heads.head_dim % block_columns == 0;
  const bool rows = forms.rows || !quantizes;
  const AttentionOutput to{rows ? out.rows : no_buffer, quantizes ? out.codes : no_buffer};
  MILLRACE_TRY(attend_units(kernels.attend_one, call, to, items.single_units));
  MILLRACE_TRY(attend_units(kernels.attend_many, call, to, items.multi_units));
  return Forms{.rows = rows, .codes = quantizes};
}

}  // namespace millrace::engine
