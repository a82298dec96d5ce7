#include "engine/core/model/backend/cpu/layer_text.hpp"

#include <algorithm>
#include <utility>

#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/program_text.hpp"
#include "engine/core/model/recurrence.hpp"
#include "kernels/experts/table.h"
#include "kernels/layer/table.h"

namespace millrace::engine {
namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

// Appends the calls of a layer's operations.
class Writer {
 public:
  Writer(const LayerProgram& layer, std::vector<LayerProduct>& products, LayerText& out)
      : layer_(layer), qkv_(*products_of(layer).front()), products_(products), out_(out) {}

  void write() {
    for (const LayerOp& operation : layer_.operations) {
      std::visit(
          [this]<class Op>(const Op& each) {
            if constexpr (has_text<Op>) add(each);
          },
          operation);
    }
    end_rows();
  }

 private:
  void add(const NormOp& norm) {
    row(norm.weight != nullptr ? "MR_NORM(" + vector(*norm.weight) + ");" : "MR_CONVERT();");
    if (norm.forms.rows) row("MR_NORM_ROWS(" + vector(*norm.weight) + ");");
  }
  void add(const TurnOp&) {
    out_.turns = true;
    row("MR_TURN(" + number(qkv_.rows) + ", " + vector(*layer_.rope) + ");");
  }
  void add(const QueryScaleOp& scale) {
    out_.scales_queries = true;
    row("MR_SCALE_QUERIES(" + number(qkv_.rows) + ", " + vector(*scale.factors) + ");");
  }
  void add(const HeadNormOp& norm) {
    out_.norms_heads = true;
    row("MR_NORM_HEADS(" + number(qkv_.rows) + ", " + vector(*norm.weight) + ");");
  }
  void add(const AddOp& add) {
    out_.adds = true;
    row("MR_ADD(" + (add.weight != nullptr ? vector(*add.weight) : "0") + ", " +
        float_text(static_cast<double>(add.scale)) + ", " +
        (add.total != nullptr ? vector(*add.total) : "0") + ");");
  }
  void add(const StoreOp&) {
    if (layer_.spec->attention.stores()) phase("MR_STORE", attention_arguments());
  }
  // A gate reads rows, a product codes.
  void add(const AttendOp& attend) {
    phase("MR_ATTEND",
          std::string(attend.forms.rows ? "s->attended_rows, 0" : "0, s->attended") + ", " +
              attention_arguments(),
          ATTEND_COUNTERS);
  }
  void add(const GateOutputOp&) {
    out_.gates_outputs = true;
    const std::uint32_t channels = layer_.spec->attention.columns();
    row("MR_GATE_ATTENDED(" + number(qkv_.rows) + ", " + number(qkv_.rows - channels) + ", " +
        number(channels) + ");");
  }
  void add(const RecurrenceOp& op) {
    const RecurrenceWeights& weights = *op.weights;
    const RecurrenceSpec& spec = op.recurrence->spec();
    const std::string stride = number(weights.in.rows), states = memory(*op.states);
    out_.recurrence = op.recurrence;
    phase("MR_CONVOLVE",
          stride + ", " + vector(weights.taps) + ", " + vector(weights.conv_bias) + ", " + states);
    if (spec.has_heads()) {
      const std::string gates = memory(op.recurrence->gates());
      row("MR_RECURRENCE_GATES(" + stride + ", " + vector(weights.a) + ", " +
          vector(weights.dt_bias) + ", " + gates + ");");
      phase("MR_RECUR", stride + ", " + gates + ", " + vector(weights.skip) + ", " + states);
      row("MR_RECURRENCE_OUTPUT(" + stride + ", " + vector(weights.norm) + ");");
    }
    row("MR_QUANTIZE_OUTPUT(" + stride + ", " + number(code_stride(spec.outputs())) + ");");
  }
  // The runs of a matrix share a phase: their chunks follow one another.
  void add(const ProductOp& product) {
    std::string chunks, calls;
    for (const WeightRun& run : product.matrix->runs) {
      const std::uint32_t pairs = (run.panels + 1) / 2;
      chunks += (chunks.empty() ? "MR_CHUNKS(" : " + MR_CHUNKS(") + number(pairs) + ")";
      calls += "\n    MR_PRODUCT(" + run_arguments(*product.matrix, run) + ", " + input(product) +
               ", s->" + std::string(slot_name(product.out)) + " + " + number(run.first_row) +
               ", " + stride(product) + ", " + mode(product.accumulate, *product.matrix) + ")";
    }
    phase("MR_PRODUCTS", chunks + "," + calls);
  }
  void add(const GatedOp& gated) {
    phase("MR_GATED", run_arguments(*gated.matrix, gated.matrix->runs[0]) + ", " +
                          mode(Accumulate::replace, *gated.matrix));
  }
  // The gates are a product into qkv, which no operation reads after the attention.
  void add(const EmbeddingGateOp& gate) {
    const std::uint32_t channels = gate.matrix->rows;
    add(ProductOp{gate.matrix, Slot::normed, Slot::qkv});
    const std::uint64_t first = std::uint64_t{gate.layer} * channels * sizeof(float);
    row("MR_GATE_EMBEDDING(" + number(channels) + ", MR_VECTOR(" + place({gate.embeddings, first}) +
        "), " + number(gate.embeddings_stride) + ", " + number(channels / block_columns) + ", " +
        number(code_stride(channels)) + ");");
  }
  void add(const ExpertsOp& op) {
    const ExpertWeights& weights = *op.weights;
    const ExpertsSpec& spec = op.experts->spec();
    const std::string used = number(spec.used);
    out_.experts = op.experts;
    router(weights.router);
    phase("MR_ROUTE", (weights.selection_bias ? vector(weights.selection_bias) : "0") + ", " +
                          number(weights.router.rows) + ", " + used + ", " +
                          number(static_cast<std::uint64_t>(spec.router)) + ", " +
                          number(op.experts->route_flags(weights)) + ", " + number(spec.groups) +
                          ", " + number(spec.groups_used) + ", " + number(weights.shared_gate_row) +
                          ", " + float_text(static_cast<double>(spec.scale)));
    const std::uint32_t sorting = out_.sync_words;
    phase("MR_SORT",
          used + ", " + number(spec.count) + ", " + number(expert_product(weights.gate_up)) + ", " +
              number(weights.gate_up.runs[0].panels) + ", " + number(expert_product(weights.down)) +
              ", " + number(weights.down.runs[0].panels),
          SORT_COUNTERS);
    phase("MR_GATHER", used);
    phase("MR_EXPERTS_GATED",
          number(sorting + PHASE_GATED_CHUNKS) + ", " + expert_arguments(weights.gate_up));
    phase("MR_EXPERTS",
          number(sorting + PHASE_DOWN_CHUNKS) + ", " + expert_arguments(weights.down));
    phase("MR_COMBINE", used + ", " + number(weights.down.rows) + ", " +
                            number(COMBINE_ADDS | (op.shared ? COMBINE_SHARED : 0u)) + ", " +
                            float_text(static_cast<double>(op.scale)));
  }
  // The router's logits are exact. Its matrix has one run (layer_join.hpp).
  void router(const Projection& matrix) {
    const WeightRun& run = matrix.runs[0];
    out_.router = PanelLayout{run.format, matrix.columns};
    phase("MR_ROUTER", number(run.panels) + ", " + weight(run.buffer) + ", " +
                           (matrix.bias ? vector(matrix.bias) : "0") + ", " +
                           mode(Accumulate::replace, matrix) + ", " + number(matrix.rows));
  }
  std::size_t expert_product(const ExpertMatrix& matrix) {
    const std::size_t product = product_number({matrix.runs[0].format, matrix.columns});
    products_[product].of_experts = true;
    return product;
  }
  // Number of the product, panels, weight, bias, mode, experts, rows.
  std::string expert_arguments(const ExpertMatrix& matrix) {
    const ExpertRun& run = matrix.runs[0];
    return number(expert_product(matrix)) + ", " + number(run.panels) + ", " + weight(run.buffer) +
           ", " + (matrix.bias ? vector(matrix.bias) : "0") + ", " +
           number(product_mode(Accumulate::replace, matrix.bias)) + ", " + number(run.experts) +
           ", " + number(matrix.rows);
  }

  // Number of the product, panels, weight, bias.
  std::string run_arguments(const Projection& matrix, const WeightRun& run) {
    const std::string bias =
        matrix.bias ? vector(matrix.bias) + " + " + number(run.first_row) : "0";
    return number(product_number({run.format, matrix.columns})) + ", " + number(run.panels) + ", " +
           weight(run.buffer) + ", " + bias;
  }
  static std::string mode(Accumulate accumulate, const Projection& matrix) {
    return number(product_mode(accumulate, matrix.bias));
  }
  std::size_t product_number(const PanelLayout& layout) {
    const auto same = [&](const LayerProduct& each) {
      return each.layout.format == layout.format && each.layout.k() == layout.k();
    };
    const auto known = std::ranges::find_if(products_, same);
    const auto place = static_cast<std::size_t>(known - products_.begin());
    if (known == products_.end()) products_.push_back({layout});
    return place;
  }
  std::string attention_arguments() {
    return weight(layer_.kv.buffer) + ", " + vector(layer_.kv.means) + ", " +
           vector(layer_.kv.sinks) + ", " + vector(*layer_.rope) + ", " + number(qkv_.rows);
  }
  // The codes that a product reads, and the words from one row to the next.
  static std::string input(const ProductOp& product) {
    return "s->" + std::string(slot_name(product.in)) + ", " +
           number(code_stride(product.matrix->columns));
  }
  // Numbers from one row of a product's result to the next.
  static std::string stride(const ProductOp& product) {
    return product.out == Slot::qkv ? number(product.matrix->rows) : "HIDDEN_STRIDE";
  }
  // Appends a phase: the arguments follow the phase's place among the counters.
  void phase(const std::string& macro, const std::string& arguments,
             std::uint32_t counters = PHASE_COUNTERS) {
    end_rows();
    out_.body += "  " + macro + "(" + number(out_.sync_words) + ", " + arguments + ")\n";
    out_.sync_words += counters;
  }
  // Appends a statement for row `c`. Statements that follow each other share a phase.
  void row(const std::string& statement) { rows_ += (rows_.empty() ? "" : " ") + statement; }
  void end_rows() {
    if (rows_.empty()) return;
    const std::string statements = std::exchange(rows_, {});
    phase("MR_ROWS", statements);
  }
  // The expression for a buffer of the layer. Its address is in the layer's table.
  std::string vector(const Buffer& buffer) { return "MR_VECTOR(" + place({&buffer}) + ")"; }
  std::string weight(const Buffer& buffer) { return "MR_WEIGHT(" + place({&buffer}) + ")"; }
  std::string memory(const Buffer& buffer) { return "MR_FLOATS(" + place({&buffer}) + ")"; }
  std::string place(const LayerBuffer& buffer) {
    const auto known = std::ranges::find(out_.buffers, buffer);
    if (known != out_.buffers.end())
      return number(static_cast<std::size_t>(known - out_.buffers.begin()));
    out_.buffers.push_back(buffer);
    return number(out_.buffers.size() - 1);
  }

  const LayerProgram& layer_;
  const Projection& qkv_;
  std::vector<LayerProduct>& products_;
  LayerText& out_;
  std::string rows_;
};

}  // namespace

std::vector<const Projection*> products_of(const LayerProgram& layer) {
  std::vector<const Projection*> out;
  for (const LayerOp& operation : layer.operations) {
    if (const auto* product = std::get_if<ProductOp>(&operation)) out.push_back(product->matrix);
    if (const auto* gated = std::get_if<GatedOp>(&operation)) out.push_back(gated->matrix);
    if (const auto* gate = std::get_if<EmbeddingGateOp>(&operation)) out.push_back(gate->matrix);
  }
  return out;
}

LayerText text_of(const LayerProgram& layer, std::vector<LayerProduct>& products) {
  LayerText out;
  Writer(layer, products, out).write();
  return out;
}

}  // namespace millrace::engine
