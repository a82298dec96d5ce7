#include "engine/core/model/whole_layer.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

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

// The products of a layer, in order.
std::vector<const Projection*> products_of(const LayerProgram& layer) {
  std::vector<const Projection*> out;
  for (const LayerOp& operation : layer.operations) {
    if (const auto* product = std::get_if<ProductOp>(&operation)) out.push_back(product->matrix);
    if (const auto* gated = std::get_if<GatedOp>(&operation)) out.push_back(gated->matrix);
  }
  return out;
}

}  // namespace

struct WholeLayers::Lowered {
  std::string text;
  std::vector<const Buffer*> buffers;
  std::uint32_t sync_words = 0;
  std::set<std::uint32_t> depths;  // padded columns of the products
  bool turns = false, scales_queries = false, norms_heads = false, adds = false,
       adds_normed = false;
};

namespace {

// Writes the function mr_layer of kernels/layer/cpu.cl, operation by operation.
class Writer {
 public:
  Writer(std::string& text, std::vector<const Buffer*>& buffers) : text_(text), buffers_(buffers) {}

  // Appends a phase: the arguments follow the phase's place among the counters.
  void phase(const std::string& macro, const std::string& arguments, std::uint32_t words = 2) {
    end_rows();
    text_ += "  " + macro + "(" + std::to_string(sync_words_) + ", " + arguments + ")\n";
    sync_words_ += words;
  }
  // Appends a statement for row `c`. Statements that follow each other share a phase.
  void row(const std::string& statement) { rows_ += (rows_.empty() ? "" : " ") + statement; }
  void end_rows() {
    if (rows_.empty()) return;
    const std::string statements = std::exchange(rows_, {});
    phase("MR_ROWS", statements);
  }
  // The expression for a buffer of the layer.
  std::string vector(const Buffer& buffer) { return "MR_VECTOR(" + place(buffer) + ")"; }
  std::string weight(const Buffer& buffer) { return "MR_WEIGHT(" + place(buffer) + ")"; }
  std::uint32_t sync_words() const { return sync_words_; }

 private:
  std::string place(const Buffer& buffer) {
    buffers_.push_back(&buffer);
    return std::to_string(buffers_.size() - 1);
  }
  std::string& text_;
  std::vector<const Buffer*>& buffers_;
  std::string rows_;
  std::uint32_t sync_words_ = 0;
};

std::string matrix_arguments(Writer& out, const Projection& matrix) {
  return std::to_string(padded_columns(matrix)) + ", " + std::to_string(matrix.runs[0].panels) +
         ", " + out.weight(matrix.runs[0].buffer) + ", " +
         (matrix.bias ? out.vector(matrix.bias) + ", 1" : "0, 0");
}

// An activation with the stride of its rows.
std::string slot_arguments(Slot slot, const Projection& qkv) {
  switch (slot) {
    case Slot::normed:
      return "s->normed, NORMED_STRIDE";
    case Slot::attended:
      return "s->attended, ATTENDED_STRIDE";
    case Slot::activated:
      return "s->activated, ACTIVATED_STRIDE";
    case Slot::qkv:
      return "s->qkv, " + std::to_string(qkv.rows);
    case Slot::branch:
      return "s->branch, HIDDEN_STRIDE";
    case Slot::hidden:
      break;
  }
  return "s->hidden, HIDDEN_STRIDE";
}

}  // namespace

WholeLayers::Lowered WholeLayers::lower(const LayerProgram& layer) const {
  Lowered out;
  Writer to(out.text, out.buffers);
  out.text =
      "static inline void mr_layer(const LayerStep* s, __global const ulong* at,\n"
      "                            volatile __global uint* sync) {\n";
  const Projection& qkv = *products_of(layer).front();
  const std::string kv = to.weight(layer.kv.buffer) + ", " + to.vector(layer.kv.means) + ", " +
                         to.vector(layer.kv.sinks) + ", " + to.vector(*layer.rope);
  for (const LayerOp& operation : layer.operations) {
    if (const auto* norm = std::get_if<NormOp>(&operation)) {
      to.row(norm->weight != nullptr ? "MR_NORM(" + to.vector(*norm->weight) + ");"
                                     : "MR_CONVERT();");
    } else if (std::holds_alternative<TurnOp>(operation)) {
      out.turns = true;
      to.row("MR_TURN(" + std::to_string(qkv.rows) + ", " + to.vector(*layer.rope) + ");");
    } else if (const auto* scale = std::get_if<QueryScaleOp>(&operation)) {
      out.scales_queries = true;
      to.row("MR_SCALE_QUERIES(" + std::to_string(qkv.rows) + ", " + to.vector(*scale->factors) +
             ");");
    } else if (const auto* heads = std::get_if<HeadNormOp>(&operation)) {
      out.norms_heads = true;
      to.row("MR_NORM_HEADS(" + std::to_string(qkv.rows) + ", " + to.vector(*heads->weight) + ");");
    } else if (const auto* add = std::get_if<AddOp>(&operation)) {
      out.adds = true;
      out.adds_normed = out.adds_normed || add->weight != nullptr;
      to.row("MR_ADD(" + (add->weight != nullptr ? to.vector(*add->weight) : "0") + ", " +
             float_text(static_cast<double>(add->scale)) + ");");
    } else if (const auto* product = std::get_if<ProductOp>(&operation)) {
      out.depths.insert(padded_columns(*product->matrix));
      to.phase("MR_PRODUCT", matrix_arguments(to, *product->matrix) + ", " +
                                 slot_arguments(product->in, qkv) + ", " +
                                 slot_arguments(product->out, qkv) + ", " +
                                 (product->accumulate == Accumulate::add ? "1" : "0"));
    } else if (const auto* gated = std::get_if<GatedOp>(&operation)) {
      out.depths.insert(padded_columns(*gated->matrix));
      to.phase("MR_GATED", matrix_arguments(to, *gated->matrix));
    } else if (std::holds_alternative<StoreOp>(operation)) {
      to.phase("MR_STORE", kv + ", " + std::to_string(qkv.rows));
    } else {
      to.phase("MR_ATTEND", kv + ", " + std::to_string(qkv.rows), 3);
    }
  }
  to.end_rows();
  out.text += "}\n";
  out.sync_words = to.sync_words();
  return out;
}

std::string WholeLayers::why_in_parts(const LayerProgram& layer) const {
  if (ops_->device_->family() != Family::cpu || !ops_->device_->has_addresses()) {
    return "whole layers need a CPU device that shares the host's memory";
  }
  if (ops_->math_ != MathMode::fast) return "whole layers need --math fast";
  for (const LayerOp& operation : layer.operations) {
    if (std::holds_alternative<ExpertsOp>(operation)) return "experts run in parts";
  }
  const std::vector<const Projection*> products = products_of(layer);
  const WeightTensor& first = products.front()->tensors[0];
  for (const Projection* product : products) {
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
  const std::uint32_t head_dim = layer.spec->attention.head_dim;
  if (head_dim % block_columns != 0) return no_whole_blocks("heads", head_dim);
  const std::uint32_t ffn = layer.spec->feed_forward.width;
  if (ffn % block_columns != 0) return no_whole_blocks("feed-forwards", ffn);
  return "";
}

std::string WholeLayers::why_apart(const LayerProgram& before, const LayerProgram& layer) const {
  const Projection &a = *products_of(before).front(), &b = *products_of(layer).front();
  if (a.runs[0].format != b.runs[0].format) {
    return type_text(b.tensors[0]) + ", " + type_text(a.tensors[0]);
  }
  const std::string name = layer_name(b.tensors[0]), other = layer_name(a.tensors[0]);
  if (before.kv.codecs != layer.kv.codecs) {
    return name + " stores its KV in " + layer.kv.codecs.name() + ", " + other + " in " +
           before.kv.codecs.name();
  }
  if (before.kv.kind != layer.kv.kind) return name + " has another attention than " + other;
  if (lower(before).text == lower(layer).text) return "";
  const auto has_bias = [](const Projection* product) { return static_cast<bool>(product->bias); };
  const bool same_biases =
      std::ranges::equal(products_of(before), products_of(layer), {}, has_bias, has_bias);
  return name + " has other " + (same_biases ? "operations" : "biases") + " than " + other;
}

Result<LayerRun> WholeLayers::prepare(std::span<const LayerProgram> layers) {
  Device& device = *ops_->device_;
  const Lowered first = lower(layers[0]);
  const ProgramSpec spec = program_of(layers[0], first);
  Program& program = programs_[key_of(spec)];
  if (program.handle() == nullptr) {
    MILLRACE_ASSIGN(program, device.build(spec));
  }
  LayerRun run;
  run.layers = static_cast<std::uint32_t>(layers.size());
  run.kind = layers[0].kv.kind;
  MILLRACE_ASSIGN(run.kernel, device.kernel(program, "layers"));
  std::vector<const Buffer*> buffers;
  std::vector<std::uint64_t> table;
  for (const LayerProgram& layer : layers) {
    for (const Buffer* buffer : lower(layer).buffers) {
      buffers.push_back(buffer);
      table.push_back(reinterpret_cast<std::uintptr_t>(buffer->address()));
    }
  }
  MILLRACE_TRY(device.reads_by_address(run.kernel, buffers));
  const auto bytes = std::as_bytes(std::span(table));
  MILLRACE_ASSIGN(run.table, device.allocate(bytes.size(), "the table of layers"));
  MILLRACE_TRY(device.write(run.table, 0, bytes));
  const std::uint64_t words = 1 + std::uint64_t{run.layers} * first.sync_words;
  if (phases_.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(phases_, device.allocate_zeroed(words * 4, "the phases of layers"));
  }
  MILLRACE_TRY(ops_->reserve_sums());
  return run;
}

ProgramSpec WholeLayers::program_of(const LayerProgram& layer, const Lowered& lowered) const {
  const AttentionSpec& heads = layer.spec->attention;
  const PanelFormat& format = products_of(layer).front()->runs[0].format;
  ProgramSpec program{.name = "whole_layer",
                      .defines = ops_->attention_defines(layer.kv.kind),
                      .text = lowered.text};
  add_kv_sources(program, layer.kv.codecs, heads.head_dim, Family::cpu, ops_->math_);
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  for (const char* part :
       {"rope/rotate.cl", "rope/tile.cl", "quantize/block.cl", "matmul/layout.cl", "norm/rms.cl",
        "activation/silu.cl", "quantize/norm.cl", "matmul/target.cl", "matmul/levels.cl",
        "matmul/dot.cl"}) {
    program.sources.emplace_back(part);
  }
  if (lowered.turns) {
    const RopeSpec& rope = heads.rope;
    program.sources.emplace_back(
        "rope/in_place.cl",
        std::vector{define("TURN_DIM", rope.dim),
                    define("TURN_HALVES", rope.kind == RopeKind::halves ? 1 : 0)});
  }
  if (lowered.scales_queries) program.sources.emplace_back("rope/temperature.cl");
  if (lowered.norms_heads) {
    const bool whole = heads.head_norm == HeadNorm::whole_width;
    program.sources.emplace_back("norm/heads.cl", std::vector{define("NORM_WHOLE", whole ? 1 : 0)});
  }
  if (lowered.adds) {
    program.sources.emplace_back("norm/add.cl",
                                 std::vector{define("ADD_NORMED", lowered.adds_normed ? 1 : 0)});
  }
  for (const std::string& text : PanelLayout{format, ops_->spec_.width}.defines()) {
    program.defines.push_back(text);
  }
  if (ops_->spec_.centered_norms) add("NORM_CENTERED", 1);
  add("GATE", static_cast<std::uint64_t>(layer.spec->feed_forward.gate));
  add("LAYER_WORDS", lowered.buffers.size());
  add("SYNC_WORDS", lowered.sync_words);
  add("WIDTH", ops_->spec_.width);
  add("HIDDEN_STRIDE", input_stride(ops_->spec_.width));
  add("NORMED_STRIDE", code_stride(ops_->spec_.width));
  add("ATTENDED_STRIDE", code_stride(heads.heads * heads.head_dim));
  add("ACTIVATED_STRIDE", code_stride(layer.spec->feed_forward.width));
  add("DOT", static_cast<std::uint64_t>(ops_->device_->dot()));
  add("TILE", ops_->tuning_.integer_tile);
  add("TILE_TOKENS", ops_->attention_.tile_tokens);
  add("SUMS", ops_->variant_.sums);
  if (ops_->variant_.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  for (const std::uint32_t depth : lowered.depths) {
    program.sources.emplace_back(
        "matmul/integer_tiles.cl",
        std::vector{define("K", depth), define("X_STRIDE", code_stride(depth))});
  }
  program.sources.push_back(ops_->attention_shape(layer.kv.kind));
  program.sources.emplace_back("attention/units.cl");
  for (const std::uint32_t queries : {1u, ops_->attention_.tile_tokens}) {
    add_tile_sources(program, queries);
  }
  program.sources.emplace_back("layer/cpu.cl");
  return program;
}

Status WholeLayers::run(LayerRun& layers, const LayerStep& x) {
  MILLRACE_TRY(ops_->reserve_scratch(x.step));
  const StepTable& step = x.step;
  const AttentionItems& items = step.attention[ops_->window_of(layers.kind)];
  const kernels::Tuning& tuning = ops_->tuning_;
  const std::uint32_t cores = ops_->device_->info().compute_units;
  // A chunk of a wide step takes 10 to 40 us, less if many cores share the step.
  const bool many = cores > kernels::layer_tuning_cores;
  return ops_->device_->launch(layers.kernel, {.groups = {cores}},
                               {layers.table,
                                layers.layers,
                                x.hidden,
                                x.normed_codes,
                                x.qkv,
                                x.attended_codes,
                                x.activated_codes,
                                x.branch,
                                ops_->sums_,
                                x.step_words,
                                ops_->partials_,
                                ops_->work_,
                                phases_,
                                items.positions_at,
                                items.tables_at,
                                step.tiles.offset,
                                step.tiles.count,
                                items.multi_units.offset,
                                items.multi_units.count,
                                items.single_units.offset,
                                items.single_units.count,
                                step.tokens,
                                many ? 1 : tuning.layer_pairs,
                                many ? std::min(4u, tuning.layer_tiles) : tuning.layer_tiles,
                                ops_->kinds_[layers.kind].scale,
                                ops_->inverse_width(),
                                ops_->spec_.norm_epsilon});
}

}  // namespace millrace::engine
