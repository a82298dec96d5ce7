// Attention of the generic family, with the store of keys and values.
#include "engine/core/model/backend/generic/generic_backend.hpp"
#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/attention/work.h"

namespace millrace::engine {
namespace {

void add_generic_kv_defines(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                            MathMode math) {
  add_kv_defines(program, codecs, head_dim, math);
  program.defines.emplace_back("ATOMIC_VALUES=1");  // work-items of a group share a row
}

}  // namespace

std::uint32_t GenericBackend::attention_items() const {
  return ATTENTION_ITEMS;
}

Result<Kernel> GenericBackend::build_attention(const KvCodecs& codecs, std::uint32_t kind) {
  ProgramSpec program{.name = "attention",
                      .sources = {"attention/generic.cl"},
                      .defines = target().head_defines(kind)};
  add_generic_kv_defines(program, codecs, target().kinds[kind].head_dim, target().math);
  program.defines.push_back(define("ITEMS", attention_items()));
  target().add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "attention");
}

Status GenericBackend::prepare_attention(const KvCodecs& codecs, std::uint32_t kind) {
  KvKernels& kernels = kv_kernels_[{codecs, kind}];
  if (kernels.rope_kv) return {};
  MILLRACE_ASSIGN(kernels.attend, build_attention(codecs, kind));
  MILLRACE_ASSIGN(kernels.rope_kv, build_store(codecs, kind));
  return {};
}

Result<Kernel> GenericBackend::build_store(const KvCodecs& codecs, std::uint32_t kind) {
  ProgramSpec store{
      .name = "store", .sources = {"rope/generic.cl"}, .defines = target().attention_defines(kind)};
  add_generic_kv_defines(store, codecs, target().kinds[kind].head_dim, MathMode::exact);
  MILLRACE_ASSIGN(const Program built, device_->build(store));
  return device_->kernel(built, "rope_kv");
}

std::uint32_t GenericBackend::store_groups(const KvPages& kv) const {
  const AttentionKind& kind = target().kinds[kv.kind];
  return kind.heads + kind.stored_heads();
}

std::uint32_t GenericBackend::store_items(const KvPages&) const {
  return device_->row_items();
}

Status GenericBackend::rope_and_store(const AttentionCall& call) {
  const KvPages& kv = call.kv;
  const AttentionKind& kind = target().kinds[kv.kind];
  const AttentionItems& items = call.step.attention[target().cut_of(kv.kind)];
  return device_->launch(
      kv_kernels_.at({kv.codecs, kv.kind}).rope_kv,
      {.groups = {store_groups(kv), call.step.tokens}, .local = {store_items(kv)}},
      {call.qkv, call.rope, kv.means, kv.buffer, call.step_words, items.positions_at,
       items.tables_at, kind.qkv_stride()});
}

Result<Forms> GenericBackend::attend(const AttentionCall& call, const Activation& out, Forms) {
  const KvPages& kv = call.kv;
  const AttentionKind& kind = target().kinds[kv.kind];
  const AttentionItems& items = call.step.attention[target().cut_of(kv.kind)];
  MILLRACE_TRY(device_->launch(
      kv_kernels_.at({kv.codecs, kv.kind}).attend,
      {.groups = {kind.heads, call.step.tokens}, .local = {attention_items()}},
      {call.qkv, kv.means, kv.sinks, kv.buffer, call.step_words, out.rows, items.positions_at,
       items.tables_at, kind.qkv_stride(), input_stride(kind.columns()), kind.scale}));
  return Forms{.rows = true};
}

}  // namespace millrace::engine
