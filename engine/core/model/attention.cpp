// The operations that depend on the KV codecs: rotation with the store of keys and values, and
// attention over them.
#include <algorithm>

#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t attention_items = 64;  // work-items of a group, as in the generic source

}  // namespace

Status Operations::prepare_attention(const KvCodecs& codecs, std::uint32_t kind) {
  KvKernels& kernels = kv_kernels_[{codecs, kind}];
  if (kernels.rope_kv) return {};
  const bool cpu = device_->family() == Family::cpu;
  MILLRACE_ASSIGN(kernels.attend_one, build_attention(codecs, kind, 1));
  if (cpu) {
    MILLRACE_ASSIGN(kernels.attend_many, build_attention(codecs, kind, attention_.tile_tokens));
  }
  ProgramSpec program{.name = "store",
                      .sources = {variant_of("rope/", device_->family())},
                      .defines = attention_defines(kind)};
  add_kv_defines(program, codecs, spec_.attention().head_dim, device_->family(), MathMode::exact);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(kernels.rope_kv, device_->kernel(built, "rope_kv"));
  return {};
}

Result<Kernel> Operations::build_attention(const KvCodecs& codecs, std::uint32_t kind,
                                           std::uint32_t queries) {
  // Only the cpu family rotates and stores in this program, and has variants of it.
  const bool cpu = device_->family() == Family::cpu;
  ProgramSpec program{.name = "attention",
                      .sources = {variant_of("attention/", device_->family())},
                      .defines = cpu ? attention_defines(kind) : layer_defines_};
  if (cpu) {
    program.defines.push_back(define("QUERIES", queries));
    program.defines.push_back(define("SUMS", variant_.sums));
    if (variant_.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
    program.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_->dot())));
  }
  add_kv_defines(program, codecs, spec_.attention().head_dim, device_->family(), math_);
  add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "attention");
}

// Constants of features that the model lacks stay undefined, so its kernels do not contain these
// features.
void Operations::add_attention_shape(ProgramSpec& program, std::uint32_t kind) const {
  const AttentionKind& shape = kinds_[kind];
  if (shape.window > 0) program.defines.push_back(define("WINDOW", shape.window));
  if (shape.soft_cap > 0) {
    program.defines.push_back("SOFT_CAP=" + float_text(static_cast<double>(shape.soft_cap)));
  }
  if (shape.sinks) program.defines.emplace_back("SINKS=1");
}

Status Operations::rope_and_store(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                                  const StepTable& step, const Buffer& step_words) {
  Kernel& rope_kv = kv_kernels_.at({kv.codecs, kv.kind}).rope_kv;
  const AttentionItems& items = step.attention[window_of(kv.kind)];
  if (device_->family() == Family::cpu) {
    if (step.tiles.count == 0) return {};
    return device_->launch(rope_kv, {.groups = {step.tiles.count}},
                           {qkv, rope, kv.means, kv.buffer, step_words, items.positions_at,
                            items.tables_at, step.tiles.offset, qkv_stride_});
  }
  const AttentionSpec& heads = spec_.attention();
  return device_->launch(
      rope_kv, {.groups = {heads.heads + heads.kv_heads, step.tokens}, .local = {row_items()}},
      {qkv, rope, kv.means, kv.buffer, step_words, items.positions_at, items.tables_at,
       qkv_stride_});
}

Status Operations::attend_units(Kernel& kernel, const Buffer& qkv, const Buffer& rope,
                                const KvPages& kv, AttentionOutput out, const AttentionItems& items,
                                const Buffer& step_words, ItemList units) {
  if (units.count == 0) return {};
  const AttentionSpec& heads = spec_.attention();
  const std::uint32_t columns = heads.heads * heads.head_dim;
  const std::uint32_t groups = std::min(units.count * heads.kv_heads, attention_.workers);
  return device_->launch(
      kernel, {.groups = {groups}},
      {qkv, rope, kv.means, kv.sinks, kv.buffer, step_words, out.rows, partials_, work_,
       items.positions_at, items.tables_at, units.offset, units.count, qkv_stride_,
       input_stride(columns), out.codes, code_stride(columns), kinds_[kv.kind].scale});
}

Status Operations::attend(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                          const Activation& out, Forms forms, const StepTable& step,
                          const Buffer& step_words) {
  KvKernels& kernels = kv_kernels_.at({kv.codecs, kv.kind});
  const AttentionSpec& heads = spec_.attention();
  const std::uint32_t columns = heads.heads * heads.head_dim;
  const AttentionItems& items = step.attention[window_of(kv.kind)];
  if (device_->family() == Family::cpu) {
    MILLRACE_TRY(reserve_scratch(step));
    const bool quantizes = forms.codes && heads.head_dim % block_columns == 0;
    const Buffer none;
    const bool rows = forms.rows || !quantizes;
    const AttentionOutput to{rows ? out.rows : none, quantizes ? out.codes : none};
    MILLRACE_TRY(
        attend_units(kernels.attend_one, qkv, rope, kv, to, items, step_words, items.single_units));
    MILLRACE_TRY(
        attend_units(kernels.attend_many, qkv, rope, kv, to, items, step_words, items.multi_units));
    if (!forms.codes || quantizes) return {};
  } else {
    MILLRACE_TRY(device_->launch(
        kernels.attend_one, {.groups = {heads.heads, step.tokens}, .local = {attention_items}},
        {qkv, kv.means, kv.sinks, kv.buffer, step_words, out.rows, items.positions_at,
         items.tables_at, qkv_stride_, input_stride(columns), kinds_[kv.kind].scale}));
    if (!forms.codes) return {};
  }
  return quantize(out, columns, step.tokens);
}

}  // namespace millrace::engine
