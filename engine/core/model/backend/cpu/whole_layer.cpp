#include "engine/core/model/backend/cpu/whole_layer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/model/backend/cpu/layer_join.hpp"
#include "engine/core/model/backend/cpu/layer_text.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"
#include "engine/core/model/recurrence.hpp"
#include "kernels/experts/table.h"
#include "kernels/layer/table.h"

namespace millrace::engine {
namespace {

// Everything that decides what a program compiles to.
std::string key_of(const ProgramSpec& spec) {
  std::string key = spec.text;
  const auto add = [&](std::span<const std::string> defines) {
    for (const std::string& each : defines) key += each + "\n";
  };
  add(spec.defines);
  for (const SourcePart& part : spec.sources) {
    key += part.path + "\n";
    add(part.defines);
  }
  return key;
}

// The bodies of a program's layers as functions, and mr_layer, which calls that of a layer.
std::string functions_of(std::span<const LayerText> texts) {
  const std::string arguments =
      "(const LayerStep* s, uint* patience, __global const ulong* at, "
      "volatile __global uint* sync)";
  std::string out, cases;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = "mr_layer_" + std::to_string(i);
    out +=
        "static inline bool " + name + arguments + " {\n" + texts[i].body + "  return true;\n}\n";
    cases += "    case " + std::to_string(i) + ": return " + name +
             "(s, patience, at + LAYER_BUFFERS, sync);\n";
  }
  return out + "static inline bool mr_layer" + arguments + " {\n  switch (at[LAYER_TEXT]) {\n" +
         cases + "  }\n  return true;\n}\n";
}

}  // namespace

// What the layers of a launch compile to: the texts that differ, and the formats and depths of all
// their products.
struct WholeLayers::Lowered {
  std::vector<LayerText> texts;
  std::vector<LayerProduct> products;

  // Words of a layer in the table, and its counters: those of the longest text.
  std::size_t layer_words() const {
    std::size_t most = 0;
    for (const LayerText& text : texts) most = std::max(most, text.buffers.size());
    return LAYER_BUFFERS + most;
  }
  std::uint32_t sync_words() const {
    std::uint32_t most = 0;
    for (const LayerText& text : texts) most = std::max(most, text.sync_words);
    return most;
  }
};

Result<LayerRun> WholeLayers::prepare(std::span<const LayerProgram> layers) {
  Device& device = *target_->device;
  Lowered lowered;
  std::vector<std::size_t> text_of_layer;
  std::vector<std::vector<LayerBuffer>> buffers_of_layer;
  for (const LayerProgram& layer : layers) {
    LayerText text = text_of(layer, lowered.products);
    const auto known = std::ranges::find(lowered.texts, text.body, &LayerText::body);
    text_of_layer.push_back(static_cast<std::size_t>(known - lowered.texts.begin()));
    buffers_of_layer.push_back(text.buffers);
    if (known == lowered.texts.end()) lowered.texts.push_back(std::move(text));
  }
  // Without attention the functions of any kind do: nothing calls them.
  const LayerProgram* const attends = attending(layers);
  LayerRun run;
  run.kind = attends != nullptr ? attends->kv.kind : 0;
  const KvCodecs codecs = attends != nullptr ? attends->kv.codecs : KvCodecs{};
  const ProgramSpec spec = program_of(layers[0], run.kind, codecs, lowered);
  Program& program = programs_[key_of(spec)];
  if (program.handle() == nullptr) {
    MILLRACE_ASSIGN(program, device.build(spec));
  }
  run.layers = static_cast<std::uint32_t>(layers.size());
  for (const LayerProgram& layer : layers) {
    for (const Projection* product : products_of(layer)) {
      run.weights += std::uint64_t{product->rows} * product->columns;
    }
  }
  run.experts = lowered.texts[0].experts;
  if (run.experts != nullptr) {
    const ExpertsSpec& experts = run.experts->spec();
    run.weights +=
        std::uint64_t{3} * run.layers * experts.used * experts.width * target_->spec.width;
    const std::uint64_t bytes = MEMORY_WORDS * sizeof(std::uint64_t);
    MILLRACE_ASSIGN(run.memory, device.allocate(bytes, "the addresses of the experts' memory"));
  }
  if (attends != nullptr) run.attended = target_->kinds[run.kind].columns();
  run.columns = run.attended;
  if (const Recurrence* const recurrence = recurrence_of(layers); recurrence != nullptr) {
    run.columns = std::max(run.columns, recurrence->spec().outputs());
  }
  run.dense_columns = dense_width(layers[0].spec->feed_forward);
  MILLRACE_ASSIGN(run.kernel, device.kernel(program, "layers"));
  const std::size_t words = lowered.layer_words();
  std::vector<std::uint64_t> table(layers.size() * words, 0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::uint64_t* to = &table[i * words];
    to[LAYER_TEXT] = text_of_layer[i];
    to += LAYER_BUFFERS;
    for (const LayerBuffer& each : buffers_of_layer[i]) {
      run.buffers.push_back(each.buffer);
      *to++ = reinterpret_cast<std::uintptr_t>(each.buffer->address()) + each.offset;
    }
  }
  MILLRACE_TRY(device.reads_by_address(run.kernel, run.buffers));
  const auto bytes = std::as_bytes(std::span(table));
  MILLRACE_ASSIGN(run.table, device.allocate(bytes.size(), "the table of layers"));
  MILLRACE_TRY(device.write(run.table, 0, bytes));
  const std::uint64_t counters = PHASES_LAYERS + std::uint64_t{run.layers} * lowered.sync_words();
  if (phases_.size_bytes() < counters * 4) {
    MILLRACE_ASSIGN(phases_, device.allocate_zeroed(counters * 4, "the phases of layers"));
  }
  MILLRACE_TRY(scratch_->reserve_sums(device));
  return run;
}

ProgramSpec WholeLayers::program_of(const LayerProgram& layer, std::uint32_t kind_index,
                                    const KvCodecs& codecs, const Lowered& lowered) const {
  const AttentionKind& kind = target_->kinds[kind_index];
  const auto any = [&](bool LayerText::*flag) { return std::ranges::any_of(lowered.texts, flag); };
  ProgramSpec program{.name = "whole_layer",
                      .defines = target_->attention_defines(kind_index),
                      .text = functions_of(lowered.texts)};
  add_kv_defines(program, codecs, kind.head_dim, target_->math);
  target_->add_attention_shape(program, kind_index);
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  if (any(&LayerText::turns)) {
    program.sources.emplace_back(
        "rope/in_place.cl",
        std::vector{define("TURN_DIM", kind.turn_dim), define("TURN_HALVES", kind.halves ? 1 : 0)});
  }
  if (any(&LayerText::scales_queries)) program.sources.emplace_back("rope/temperature.cl");
  if (any(&LayerText::norms_heads)) {
    program.sources.emplace_back("norm/heads.cl", target_->head_norm_defines(kind_index));
  }
  if (any(&LayerText::adds)) program.sources.emplace_back("norm/add.cl");
  if (any(&LayerText::gates_outputs)) program.sources.emplace_back("activation/sigmoid_gate.cl");
  add_recurrence(program, lowered);
  if (target_->spec.centered_norms) add("NORM_CENTERED", 1);
  add("GATE", static_cast<std::uint64_t>(layer.spec->feed_forward.gate));
  add("LAYER_WORDS", lowered.layer_words());
  add("SYNC_WORDS", lowered.sync_words());
  add("WIDTH", target_->spec.width);
  add("HIDDEN_STRIDE", input_stride(target_->spec.width));
  add("NORMED_STRIDE", code_stride(target_->spec.width));
  add("ATTENDED_STRIDE", code_stride(kind.columns()));
  add("ATTENDED_ROWS_STRIDE", input_stride(kind.columns()));
  add("ACTIVATED_STRIDE", code_stride(dense_width(layer.spec->feed_forward)));
  add("DOT", static_cast<std::uint64_t>(target_->device->dot()));
  add("TILE", target_->tuning.integer_tile);
  add("TILE_TOKENS", limits_of(kind_index).tile_tokens);
  add("SUMS", target_->variant.sums);
  if (target_->variant.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  if (const Experts* experts = lowered.texts[0].experts; experts != nullptr) {
    const PanelLayout& router = *lowered.texts[0].router;
    std::vector<std::string> defines = router.defines();
    defines.push_back(define("PRODUCT", lowered.products.size()));
    defines.push_back(define("X_STRIDE", input_stride(router.columns)));
    defines.push_back(define("FLOAT_TILE", target_->tuning.float_tile));
    program.sources.emplace_back("matmul/exact_cpu.cl", std::move(defines));
    add("EXPERTS", experts->spec().count);
    add("DIRECT_TOKENS", experts->direct_tokens());
    add("EXPERTS_STRIDE", code_stride(experts->spec().width));
  }
  for (std::size_t i = 0; i < lowered.products.size(); ++i) {
    const PanelLayout& product = lowered.products[i].layout;
    std::vector<std::string> defines = product.defines();
    defines.push_back(define("PRODUCT", i));
    defines.push_back(define("X_STRIDE", code_stride(product.k())));
    program.sources.emplace_back(
        lowered.products[i].of_experts ? "experts/integer_tiles.cl" : "matmul/integer_tiles.cl",
        std::move(defines));
  }
  if (lowered.texts[0].experts != nullptr) program.sources.emplace_back("layer/experts.cl");
  program.sources.emplace_back("layer/cpu.cl");
  return program;
}

// All layers of a launch that have a recurrence have the same one (why_apart).
void WholeLayers::add_recurrence(ProgramSpec& program, const Lowered& lowered) {
  const auto found = std::ranges::find_if(lowered.texts, &LayerText::recurrence);
  if (found == lowered.texts.end()) return;
  const Recurrence& recurrence = *found->recurrence;
  for (std::string& define : recurrence.defines()) program.defines.push_back(std::move(define));
  program.sources.emplace_back(recurrence.spec().has_heads() ? "layer/recurrence.cl"
                                                             : "layer/convolve.cl");
}

// Writes the addresses of the experts' memory, if they have other ones than in the run before.
Status WholeLayers::name_memory(LayerRun& layers, std::uint32_t tokens) {
  if (layers.experts == nullptr) return {};
  MILLRACE_ASSIGN(const ExpertsMemory* const memory, layers.experts->memory(tokens));
  if (memory->generation == layers.memory_generation) return {};
  std::vector<const Buffer*> all = layers.buffers;
  std::array<std::uint64_t, MEMORY_WORDS> table{};
  const auto name = [&](std::size_t place, const Buffer& buffer) {
    all.push_back(&buffer);
    table[place] = reinterpret_cast<std::uintptr_t>(buffer.address());
  };
  name(MEMORY_LOGITS, memory->logits);
  name(MEMORY_WEIGHTS, memory->weights);
  name(MEMORY_CHOSEN, memory->chosen);
  name(MEMORY_RUNS, memory->runs);
  name(MEMORY_SLOTS, memory->slots);
  name(MEMORY_PLACES, memory->places);
  name(MEMORY_CURSORS, memory->cursors);
  name(MEMORY_SORTED, memory->sorted.codes);
  name(MEMORY_ACTIVATED, memory->activated.codes);
  name(MEMORY_DOWN, memory->down);
  MILLRACE_TRY(target_->device->reads_by_address(layers.kernel, all));
  MILLRACE_TRY(target_->device->write(layers.memory, 0, std::as_bytes(std::span(table))));
  layers.memory_generation = memory->generation;
  return {};
}

// Returns how many of the layers a launch runs.
std::uint32_t WholeLayers::layers_a_launch(const LayerRun& layers, std::uint64_t products) const {
  const auto launches = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      products / target_->variant.layer_launch_products, 1, layers.layers));
  return (layers.layers + launches - 1) / launches;
}

// Returns the turns of 20 to 40 ns that a group may wait in a launch: those of the variant, and
// a sixtieth of the time that products take at 100 Gmac/s a core.
std::uint32_t WholeLayers::patience_of(std::uint64_t products) const {
  const std::uint32_t least = target_->variant.layer_patience;
  if (least == 0) return 0;
  constexpr std::uint64_t products_a_turn = 200'000;
  return least +
         static_cast<std::uint32_t>(std::min<std::uint64_t>(products / products_a_turn, 1u << 30));
}

Status WholeLayers::run(LayerRun& layers, const LayerStep& x) {
  const StepTable& step = x.step;
  const AttentionKind& kind = target_->kinds[layers.kind];
  const AttentionItems& items = step.attention[target_->cut_of(layers.kind)];
  MILLRACE_TRY(scratch_->reserve_attention(*target_->device, kind, limits_of(layers.kind), items));
  MILLRACE_TRY(name_memory(layers, step.tokens));
  const kernels::Tuning& tuning = target_->tuning;
  const std::uint32_t cores = target_->device->info().compute_units;
  // A chunk of a wide step takes 10 to 40 us, less if many cores share the step.
  const bool many = cores > kernels::layer_tuning_cores;
  const std::uint64_t products = layers.weights * step.tokens / cores;
  const std::uint32_t most = layers_a_launch(layers, products);
  const std::uint32_t patience = patience_of(products * most / layers.layers);
  for (std::uint32_t first = 0; first < layers.layers; first += most) {
    MILLRACE_TRY(
        target_->device->launch(layers.kernel, {.groups = {cores}},
                                {layers.table,
                                 first,
                                 std::min(most, layers.layers - first),
                                 x.hidden,
                                 x.normed.codes,
                                 x.normed.rows,
                                 x.qkv,
                                 x.attended_codes,
                                 x.attended_rows,
                                 x.activated_codes,
                                 x.branch,
                                 scratch_->sums,
                                 layers.memory,
                                 x.step_words,
                                 scratch_->partials,
                                 scratch_->work,
                                 phases_,
                                 items.positions_at,
                                 items.tables_at,
                                 items.tiles.offset,
                                 items.tiles.count,
                                 items.multi_units.offset,
                                 items.multi_units.count,
                                 items.single_units.offset,
                                 items.single_units.count,
                                 step.state_rows.offset,
                                 step.state_rows.count,
                                 step.tokens,
                                 many ? 1 : tuning.layer_pairs,
                                 many ? std::min(4u, tuning.layer_tiles) : tuning.layer_tiles,
                                 patience,
                                 kind.scale,
                                 target_->inverse_width(),
                                 target_->spec.norm_epsilon}));
  }
  return {};
}

}  // namespace millrace::engine
