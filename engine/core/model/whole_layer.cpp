// Runs whole layers in one launch (kernels/layer/cpu.cl).
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// These equal the kernel's LAYER_WORDS and SYNC_WORDS.
constexpr std::uint32_t layer_words = 13, sync_words = 18;

std::array<const Buffer*, layer_words> buffers_of(const LayerParts& layer) {
  return {&layer.qkv.runs[0].buffer,
          &layer.output.runs[0].buffer,
          &layer.gate_up.runs[0].buffer,
          &layer.down.runs[0].buffer,
          &layer.qkv.bias,
          &layer.output.bias,
          &layer.gate_up.bias,
          &layer.down.bias,
          &layer.attention_norm,
          &layer.ffn_norm,
          &layer.kv.buffer,
          &layer.kv.means,
          &layer.kv.sinks};
}

std::uint32_t padded_columns(const Projection& projection) {
  return PanelLayout{projection.runs[0].format, projection.columns}.k();
}

std::string type_text(const WeightTensor& tensor) {
  return tensor.name + " is " + std::string(traits_of(tensor.type).name);
}

// Returns "blk.3" for "blk.3.attn_q.weight".
std::string layer_name(const WeightTensor& tensor) {
  return tensor.name.substr(0, tensor.name.find('.', tensor.name.find('.') + 1));
}

std::string no_whole_blocks(const char* what, std::uint32_t width) {
  return std::string(what) + " of " + std::to_string(width) + " channels are not a multiple of " +
         std::to_string(block_columns);
}

}  // namespace

std::string Operations::why_in_parts(const LayerParts& layer) const {
  if (device_->family() != Family::cpu || !device_->has_addresses()) {
    return "whole layers need a CPU device that shares the host's memory";
  }
  if (math_ != MathMode::fast) return "whole layers need --math fast";
  const WeightTensor& first = layer.qkv.tensors[0];
  for (const Projection* product : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
    for (const WeightTensor& tensor : product->tensors) {
      if (!format_of(tensor.type).quantized())
        return type_text(tensor) + ", which is not quantized";
      if (format_of(tensor.type) != format_of(first.type)) {
        return type_text(tensor) + ", " + type_text(first);
      }
    }
    if (product->runs.size() > 1) {
      return product->tensors[0].name + " and its neighbours exceed the device's largest buffer";
    }
  }
  if (spec_.head_dim % block_columns != 0) return no_whole_blocks("heads", spec_.head_dim);
  if (spec_.ffn_width % block_columns != 0) {
    return no_whole_blocks("feed-forwards", spec_.ffn_width);
  }
  return "";
}

Operations::LayerKind Operations::kind_of(const LayerParts& layer) {
  return {layer.qkv.runs[0].format,
          {static_cast<bool>(layer.qkv.bias), static_cast<bool>(layer.output.bias),
           static_cast<bool>(layer.gate_up.bias), static_cast<bool>(layer.down.bias)},
          layer.kv.codecs};
}

std::string Operations::why_apart(const LayerParts& before, const LayerParts& layer) {
  const LayerKind a = kind_of(before), b = kind_of(layer);
  if (a == b) return "";
  const WeightTensor &tensor_a = before.qkv.tensors[0], &tensor_b = layer.qkv.tensors[0];
  if (std::get<PanelFormat>(a) != std::get<PanelFormat>(b)) {
    return type_text(tensor_b) + ", " + type_text(tensor_a);
  }
  const KvCodecs &codecs_a = before.kv.codecs, &codecs_b = layer.kv.codecs;
  if (codecs_a != codecs_b) {
    return layer_name(tensor_b) + " stores its KV in " + codecs_b.name() + ", " +
           layer_name(tensor_a) + " in " + codecs_a.name();
  }
  return layer_name(tensor_b) + " has other biases than " + layer_name(tensor_a);
}

Result<LayerRun> Operations::prepare_whole(std::span<const LayerParts> layers) {
  Program& program = whole_[kind_of(layers[0])];
  if (program.handle() == nullptr) {
    MILLRACE_ASSIGN(program, build_whole(layers[0]));
  }
  LayerRun run;
  run.layers = static_cast<std::uint32_t>(layers.size());
  MILLRACE_ASSIGN(run.kernel, device_->kernel(program, "layers"));
  std::vector<const Buffer*> buffers;
  std::vector<std::uint64_t> table;
  for (const LayerParts& layer : layers) {
    for (const Buffer* buffer : buffers_of(layer)) {
      buffers.push_back(buffer);
      table.push_back(reinterpret_cast<std::uintptr_t>(buffer->address()));
    }
  }
  MILLRACE_TRY(device_->reads_by_address(run.kernel, buffers));
  const auto bytes = std::as_bytes(std::span(table));
  MILLRACE_ASSIGN(run.table, device_->allocate(bytes.size(), "the table of layers"));
  MILLRACE_TRY(device_->write(run.table, 0, bytes));
  const std::uint64_t words = 1 + std::uint64_t{run.layers} * sync_words;
  if (phases_.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(phases_, device_->allocate_zeroed(words * 4, "the phases of layers"));
  }
  MILLRACE_TRY(reserve_sums());
  return run;
}

Result<Program> Operations::build_whole(const LayerParts& layer) {
  const PanelFormat& format = layer.qkv.runs[0].format;
  ProgramSpec program{.name = "whole_layer", .defines = layer_defines_};
  add_kv_sources(program, layer.kv.codecs, spec_.head_dim, device_->family(), math_);
  for (const char* part :
       {"rope/rotate.cl", "rope/tile.cl", "quantize/block.cl", "matmul/layout.cl", "norm/rms.cl",
        "activation/silu.cl", "quantize/norm.cl", "matmul/target.cl", "matmul/levels.cl",
        "matmul/dot.cl"}) {
    program.sources.emplace_back(part);
  }
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  std::set<std::uint32_t> depths;
  const auto add_product = [&](const std::string& name, const Projection& projection) {
    depths.insert(padded_columns(projection));
    add(name + "_K", padded_columns(projection));
    add(name + "_PANELS", projection.runs[0].panels);
    add(name + "_BIAS", projection.bias ? 1 : 0);
  };
  add_product("QKV", layer.qkv);
  add_product("O", layer.output);
  add_product("GATE_UP", layer.gate_up);
  add_product("DOWN", layer.down);
  for (const std::string& text : PanelLayout{format, layer.qkv.columns}.defines()) {
    program.defines.push_back(text);
  }
  add("LAYER_WORDS", layer_words);
  add("SYNC_WORDS", sync_words);
  add("HIDDEN_STRIDE", input_stride(spec_.width));
  add("NORMED_STRIDE", code_stride(spec_.width));
  add("ATTENDED_STRIDE", code_stride(spec_.heads * spec_.head_dim));
  add("ACTIVATED_STRIDE", code_stride(spec_.ffn_width));
  add("DOT", static_cast<std::uint64_t>(device_->dot()));
  add("TILE", tuning_.integer_tile);
  add("TILE_TOKENS", attention_.tile_tokens);
  add("SUMS", variant_.sums);
  if (variant_.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  for (const std::uint32_t depth : depths) {
    program.sources.emplace_back(
        "matmul/integer_tiles.cl",
        std::vector{define("K", depth), define("X_STRIDE", code_stride(depth))});
  }
  program.sources.push_back(attention_shape());
  program.sources.emplace_back("attention/units.cl");
  for (const std::uint32_t queries : {1u, attention_.tile_tokens}) {
    add_tile_sources(program, queries);
  }
  program.sources.emplace_back("layer/cpu.cl");
  return device_->build(program);
}

Status Operations::run_whole(LayerRun& layers, const LayerStep& x) {
  MILLRACE_TRY(reserve_scratch(x.step));
  const StepTable& step = x.step;
  // A chunk of a wide step takes 10 to 40 us, less if many cores share the step.
  const bool many = device_->info().compute_units > kernels::layer_tuning_cores;
  return device_->launch(layers.kernel, {.groups = {device_->info().compute_units}},
                         {layers.table,
                          layers.layers,
                          x.hidden,
                          x.normed_codes,
                          x.qkv,
                          x.attended_codes,
                          x.activated_codes,
                          sums_,
                          x.rope,
                          x.step_words,
                          partials_,
                          work_,
                          phases_,
                          step.positions_at,
                          step.tables_at,
                          step.tiles.offset,
                          step.tiles.count,
                          step.multi_units.offset,
                          step.multi_units.count,
                          step.single_units.offset,
                          step.single_units.count,
                          step.tokens,
                          many ? 1 : tuning_.layer_pairs,
                          many ? std::min(4u, tuning_.layer_tiles) : tuning_.layer_tiles,
                          attention_scale(),
                          inverse_width(),
                          spec_.norm_epsilon});
}

}  // namespace millrace::engine
