// Attention of NVIDIA GPUs.
#include <algorithm>

#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// What kernels/attention/nvidia.cl reads; the generic kernel reads the rest.
bool is_plain(const KvCodecs& codecs) {
  constexpr std::uint32_t half_bits = 16;
  return !codecs.key.packed() && !codecs.value.packed() && codecs.key.bits == half_bits &&
         codecs.value.bits == half_bits && !codecs.in_key && !codecs.centered;
}

// Query heads of a KV head that share a group, of which registers hold so many.
std::uint32_t heads_at_once(const AttentionKind& kind) {
  constexpr std::uint32_t most = 8;
  const std::uint32_t group = kind.heads / kind.kv_heads;
  std::uint32_t heads = std::min(group, most);
  while (group % heads != 0) --heads;
  return heads;
}

}  // namespace

Result<Kernel> NvidiaBackend::build_attention(const KvCodecs& codecs, std::uint32_t kind) {
  if (!is_plain(codecs)) return GenericBackend::build_attention(codecs, kind);
  ProgramSpec program{.name = "attention",
                      .sources = {"attention/nvidia.cl"},
                      .defines = target().head_defines(kind)};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("ITEMS", attention_items());
  add("HEADS_AT_ONCE", heads_at_once(target().kinds[kind]));
  add("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0);
  target().add_attention_shape(program, kind);
  MILLRACE_ASSIGN(const Program built, target().device->build(program));
  return target().device->kernel(built, "attention");
}

// Writes codes in the same launch, if they are wanted.
Result<Forms> NvidiaBackend::attend(const AttentionCall& call, const Activation& out, Forms forms) {
  const KvPages& kv = call.kv;
  if (!is_plain(kv.codecs)) return GenericBackend::attend(call, out, forms);
  const AttentionKind& kind = target().kinds[kv.kind];
  const AttentionItems& items = call.step.attention[target().cut_of(kv.kind)];
  const std::uint32_t parts = kind.heads / heads_at_once(kind);
  MILLRACE_TRY(target().device->launch(
      attention_kernel(kv), {.groups = {parts, call.step.tokens}, .local = {attention_items()}},
      {call.qkv, kv.sinks, kv.buffer, call.step_words, forms.rows ? out.rows : no_buffer,
       forms.codes ? out.codes : no_buffer, items.positions_at, items.tables_at, kind.qkv_stride(),
       input_stride(kind.columns()), target().code_stride(kind.columns()), kind.scale}));
  return forms;
}

}  // namespace millrace::engine
