#include "engine/core/model/weights.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "engine/core/families/layer_tensors.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/latent_weights.hpp"
#include "engine/core/model/recurrence_weights.hpp"
#include "engine/core/model/shaped_tensor.hpp"
#include "engine/core/model/weight_uploads.hpp"

namespace millrace::engine {
namespace {

// Panels of a part, or of a pair.
struct MatrixPiece {
  PanelSource part;
  std::optional<PanelSource> up;  // then `part` is a gate, and they stand in turns
  std::uint32_t panels = 0;
};

struct Run {
  PanelFormat format;
  std::uint32_t first_row = 0, panels = 0;
  std::vector<MatrixPiece> pieces;
};

// What panels from `first` on hold of a part, of which a panel has `rows` rows.
PanelSource from_panel(const PanelSource& part, std::uint32_t first, std::uint32_t panels,
                       std::uint32_t rows) {
  const std::uint32_t begin = std::min(part.rows, first * rows);
  return {part.tensor, part.first_row + begin, std::min(panels * rows, part.rows - begin),
          part.factor};
}

// How a matrix is used, which says in what format it is stored.
struct Use {
  bool exact = false, logits = false;  // of MatrixPart
};

PanelFormat format_for(const Backend& backend, const Tensor& tensor, const Use& use) {
  if (use.exact) return format_of(tensor.type);
  return backend.stored_format(tensor.type, static_cast<std::uint32_t>(tensor.shape[0]),
                               use.logits);
}

// Appends panels to the runs; begins a new run if the format or the size requires it.
void plan_runs(const Backend& backend, const MatrixPiece& all, const Use& use,
               std::uint32_t first_row, std::vector<Run>& runs) {
  const Tensor& tensor = *all.part.tensor;
  PanelFormat format = format_for(backend, tensor, use);
  const bool factor = all.part.factor != 1.0f || (all.up && all.up->factor != 1.0f);
  if (format.floats && factor) format = format_of(tensor.type);  // its halves take no factor
  const std::uint64_t bytes =
      backend.panel_bytes(format, static_cast<std::uint32_t>(tensor.shape[0]));
  const std::uint64_t most_bytes = backend.target().device->info().max_allocation_bytes;
  const auto most =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most_bytes / bytes, 1, 0x0fffffff));
  for (std::uint32_t at = 0; at < all.panels;) {
    if (runs.empty() || runs.back().format != format || runs.back().panels == most) {
      runs.push_back({format, first_row + at * panel_rows, 0, {}});
    }
    Run& run = runs.back();
    const std::uint32_t take = std::min(all.panels - at, most - run.panels);
    const std::uint32_t rows = all.up ? panel_rows / 2 : panel_rows;
    MatrixPiece piece{from_panel(all.part, at, take, rows), {}, take};
    if (all.up) piece.up = from_panel(*all.up, at, take, rows);
    run.pieces.push_back(piece);
    run.panels += take;
    at += take;
  }
}

std::uint32_t panels_of(const PanelSource& part) {
  return round_up(part.rows, panel_rows) / panel_rows;
}

Result<Buffer> allocate(const Backend& backend, const Run& run, std::uint32_t columns,
                        WeightUploads& uploads) {
  const std::uint64_t bytes = backend.panel_bytes(run.format, columns);
  MILLRACE_ASSIGN(Buffer buffer, backend.target().device->allocate(
                                     bytes * run.panels, run.pieces[0].part.tensor->name));
  std::uint64_t offset = 0;
  for (const MatrixPiece& piece : run.pieces) {
    if (piece.up) {
      uploads.add_pair(piece.part, *piece.up, piece.panels, run.format, buffer, offset);
    } else {
      uploads.add(piece.part, run.format, buffer, offset);
    }
    offset += bytes * piece.panels;
  }
  return buffer;
}

Result<std::vector<float>> read_vector(const GgufFile& file, const std::string& name,
                                       std::uint32_t size) {
  MILLRACE_ASSIGN(const Tensor* tensor, find_finite(file, name, size, 1));
  std::vector<float> values(size);
  MILLRACE_TRY(dequantize_rows(*tensor, 0, 1, values));
  return values;
}

std::uint32_t rows_of_tensor(const MatrixPart& part) {
  return part.tensor_rows == 0 ? part.rows : part.tensor_rows;
}

// Panels are packed from whole groups of 16 rows of a tensor.
Status check_panels(const GgufFile& file, const MatrixPart& part) {
  const std::uint32_t end = part.first_row + part.rows;
  if (part.first_row % panel_rows == 0 && (end % panel_rows == 0 || end == rows_of_tensor(part))) {
    return {};
  }
  return fail(Code::unsupported_architecture,
              file.source() + ": tensor \"" + part.name + ".weight\" joins matrices of " +
                  std::to_string(part.rows) + " rows, which are not a multiple of " +
                  std::to_string(panel_rows),
              "convert the model without joining its matrices");
}

// Whether the parts are a gate and an up that the backend pairs. Panels of two tables do not share
// a panel.
bool paired(const Backend& backend, std::span<const PanelSource> parts, std::uint32_t columns) {
  if (parts.size() != 2 || parts[0].rows != parts[1].rows) return false;
  const TensorType type = parts[0].tensor->type;
  return type == parts[1].tensor->type &&
         backend.pairs_gate(backend.stored_format(type, columns, false), columns);
}

Result<Projection> load(const Backend& backend, const GgufFile& file,
                        std::span<const MatrixPart> parts, std::uint32_t columns, bool may_pair,
                        WeightUploads& uploads) {
  Device& device = *backend.target().device;
  Projection out;
  out.columns = columns;
  std::vector<PanelSource> all;
  std::vector<std::uint32_t> first;  // row of each part
  std::vector<float> bias;
  bool has_bias = false;
  for (const MatrixPart& part : parts) {
    MILLRACE_ASSIGN(const Tensor* tensor,
                    find_shaped(file, part.name + ".weight", columns, rows_of_tensor(part)));
    MILLRACE_TRY(check_panels(file, part));
    std::vector<float> factors{1.0f};
    if (part.may_have_scale) {
      MILLRACE_ASSIGN(factors, packed_factors(file, *tensor));
    }
    all.push_back({tensor, part.first_row, part.rows, factors[0]});
    first.push_back(out.rows);
    if (!part.continues) {
      out.first.push_back(first.back());
      out.tensors.push_back({std::string(tensor->name), tensor->type});
    }
    out.rows += round_up(part.rows, panel_rows);
    bias.resize(out.rows, 0.0f);
    if (part.may_have_bias && file.find_tensor(part.name + ".bias") != nullptr) {
      MILLRACE_ASSIGN(const auto values,
                      read_vector(file, part.name + ".bias", rows_of_tensor(part)));
      std::copy_n(values.begin() + part.first_row, part.rows, bias.begin() + first.back());
      has_bias = true;
    }
  }
  out.paired = may_pair && paired(backend, all, columns);
  std::vector<Run> runs;
  const Use use{std::ranges::any_of(parts, &MatrixPart::exact),
                std::ranges::any_of(parts, &MatrixPart::logits)};
  if (out.paired) {
    plan_runs(backend, {all[0], all[1], out.rows / panel_rows}, use, 0, runs);
    bias = in_turns(bias);
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      plan_runs(backend, {all[i], {}, panels_of(all[i])}, use, first[i], runs);
    }
  }
  for (const Run& run : runs) {
    MILLRACE_ASSIGN(Buffer buffer, allocate(backend, run, columns, uploads));
    out.runs.push_back({run.format, run.first_row, run.panels, std::move(buffer)});
  }
  if (has_bias) {
    MILLRACE_ASSIGN(out.bias, device.allocate(bias.size() * sizeof(float), "a bias"));
    MILLRACE_TRY(device.write(out.bias, 0, std::as_bytes(std::span(bias))));
  }
  return out;
}

}  // namespace

std::vector<float> in_turns(std::span<const float> rows) {
  constexpr std::size_t turn = panel_rows / 2;
  std::vector<float> out(rows.size());
  for (std::size_t i = 0; i < rows.size() / 2; ++i) {
    const std::size_t at = i / turn * panel_rows + i % turn;
    out[at] = rows[i];
    out[at + turn] = rows[rows.size() / 2 + i];
  }
  return out;
}

Result<Projection> load_projection(const Backend& backend, const GgufFile& file,
                                   std::span<const MatrixPart> parts, std::uint32_t columns,
                                   WeightUploads& uploads) {
  return load(backend, file, parts, columns, false, uploads);
}

Result<Projection> load_gate_up(const Backend& backend, const GgufFile& file,
                                std::span<const MatrixPart> parts, std::uint32_t columns,
                                WeightUploads& uploads) {
  return load(backend, file, parts, columns, true, uploads);
}

Result<Buffer> load_vector(Device& device, const GgufFile& file, const std::string& name,
                           std::uint32_t size, std::uint32_t padded) {
  MILLRACE_ASSIGN(auto values, read_vector(file, name, size));
  values.resize(padded, 0.0f);
  MILLRACE_ASSIGN(Buffer buffer, device.allocate(values.size() * sizeof(float), name));
  MILLRACE_TRY(device.write(buffer, 0, std::as_bytes(std::span(values))));
  return buffer;
}

namespace {

// Loads the tensors of one layer.
class LayerLoader {
 public:
  LayerLoader(const Backend& backend, const GgufFile& file, const ModelSpec& spec,
              std::uint32_t index, WeightUploads& uploads)
      : backend_(backend),
        device_(*backend.target().device),
        file_(file),
        width_(spec.width),
        spec_(spec),
        index_(index),
        layer_(spec.layers[index]),
        matrices_(layer_matrices(file, spec, index)),
        prefix_("blk." + std::to_string(index) + "."),
        uploads_(uploads) {}

  Result<LayerWeights> load() {
    const AttentionSpec& attention = layer_.attention;
    const NormNames& norms = layer_.norms;
    const bool after = layer_.placement == NormPlacement::after;
    LayerWeights out;
    MILLRACE_ASSIGN(out.attention_norm, norm(after ? "" : norms.attention));
    MILLRACE_ASSIGN(out.attention_post_norm, norm(after ? norms.attention : norms.attention_post));
    MILLRACE_ASSIGN(out.ffn_norm, norm(after ? "" : norms.feed_forward));
    MILLRACE_ASSIGN(out.ffn_post_norm, norm(after ? norms.feed_forward : norms.feed_forward_post));
    if (attention.exists()) MILLRACE_TRY(load_attention(attention, out));
    if (layer_.recurrence.exists()) {
      MILLRACE_ASSIGN(out.recurrence, load_recurrence(backend_, file_, spec_, index_, uploads_));
    }
    if (layer_.output_scale) {
      MILLRACE_ASSIGN(out.output_scale,
                      load_vector(device_, file_, prefix_ + "layer_output_scale.weight", 1, 1));
    }
    MILLRACE_TRY(load_embedding(out));
    if (layer_.feed_forward.width == 0) return out;
    MILLRACE_ASSIGN(out.dense_post_norm, norm(norms.dense_post));
    MILLRACE_ASSIGN(out.experts_norm, norm(norms.experts));
    MILLRACE_ASSIGN(out.experts_post_norm, norm(norms.experts_post));
    std::vector<std::string_view> gate_up{"ffn_up"};
    if (has_gate(layer_.feed_forward.gate)) gate_up.insert(gate_up.begin(), "ffn_gate");
    MILLRACE_ASSIGN(out.gate_up, stacked(gate_up, load_gate_up));
    MILLRACE_ASSIGN(out.down, stacked({"ffn_down"}));
    return out;
  }

 private:
  bool has_matrix(std::string_view name) const {
    return std::ranges::find(matrices_, name, &LayerMatrix::name) != matrices_.end();
  }
  Status load_embedding(LayerWeights& out) const {
    if (!has_matrix("inp_gate")) return {};
    MILLRACE_ASSIGN(out.embedding_gate, stacked({"inp_gate"}));
    MILLRACE_ASSIGN(out.embedding_output, stacked({"proj"}));
    MILLRACE_ASSIGN(out.embedding_post_norm, norm("post_norm"));
    return {};
  }
  Status load_attention(const AttentionSpec& attention, LayerWeights& out) const {
    if (attention.sinks) {
      MILLRACE_ASSIGN(out.sinks, load_vector(device_, file_, prefix_ + "attn_sinks.weight",
                                             attention.heads, attention.heads));
    }
    if (attention.head_norm != HeadNorm::none) {
      MILLRACE_ASSIGN(out.head_norm, head_norms(attention));
    }
    if (attention.output_gate) {
      MILLRACE_ASSIGN(out.qkv, qkv_with_gates(attention));
    } else if (attention.latent) {
      MILLRACE_TRY(load_latent(attention, out));
    } else {
      std::vector<std::string_view> qkv{"attn_q"};
      for (const char* name : {"attn_k", "attn_v"}) {
        if (has_matrix(name)) qkv.push_back(name);
      }
      MILLRACE_ASSIGN(out.qkv, stacked(qkv));
    }
    MILLRACE_ASSIGN(out.attention_output, stacked({"attn_output"}));
    return {};
  }
  Result<Buffer> norm(const std::string& name) const {
    if (name.empty()) return Buffer();
    return load_vector(device_, file_, norm_tensor(file_, index_, name), width_,
                       round_up(width_, block_columns));
  }
  Status load_latent(const AttentionSpec& attention, LayerWeights& out) const {
    const LatentSpec& latent = *attention.latent;
    const std::uint32_t query_rank = latent.query_rank;
    LatentWeights more;
    more.norm_epsilon = latent.norm_epsilon;
    MILLRACE_ASSIGN(out.qkv, stacked({query_rank > 0 ? "attn_q_a" : "attn_q", "attn_kv_a_mqa"}));
    MILLRACE_ASSIGN(more.latent_norm, load_vector(device_, file_, prefix_ + "attn_kv_a_norm.weight",
                                                  latent.rank, latent.rank));
    if (query_rank > 0) {
      MILLRACE_ASSIGN(more.query_norm, load_vector(device_, file_, prefix_ + "attn_q_a_norm.weight",
                                                   query_rank, round_up(query_rank, 16)));
      MILLRACE_ASSIGN(more.query_b, stacked({"attn_q_b"}));
    }
    MILLRACE_ASSIGN(more.keys, load_head_matrix(backend_, file_, "attn_k_b", latent.plain_dim,
                                                latent.rank, attention.heads, index_, uploads_));
    MILLRACE_ASSIGN(more.values,
                    load_head_matrix(backend_, file_, "attn_v_b", latent.rank, latent.value_dim,
                                     attention.heads, index_, uploads_));
    out.latent = std::make_shared<const LatentWeights>(std::move(more));
    return {};
  }
  Result<Buffer> head_norms(const AttentionSpec& attention) const {
    const bool whole = attention.head_norm == HeadNorm::whole_width;
    std::vector<float> both;
    for (const auto& [name, heads] : {std::pair("attn_q_norm.weight", attention.heads),
                                      std::pair("attn_k_norm.weight", attention.kv_heads)}) {
      if (both.empty() || attention.stores()) {
        const std::uint32_t size = (whole ? heads : 1) * attention.head_dim;
        MILLRACE_ASSIGN(const auto values, read_vector(file_, prefix_ + name, size));
        both.insert(both.end(), values.begin(), values.end());
      }
    }
    MILLRACE_ASSIGN(Buffer buffer, device_.allocate(both.size() * sizeof(float), "norms of heads"));
    MILLRACE_TRY(device_.write(buffer, 0, std::as_bytes(std::span(both))));
    return buffer;
  }
  // Loads queries, keys, values and then the gates of the heads' outputs. In the file each head has
  // its queries and its gates side by side.
  Result<Projection> qkv_with_gates(const AttentionSpec& attention) const {
    std::vector<MatrixPart> queries, gates;
    const std::uint32_t rows = attention.head_dim, all = 2 * attention.heads * rows;
    for (std::uint32_t head = 0; head < attention.heads; ++head) {
      const MatrixPart part{.name = prefix_ + "attn_q",
                            .rows = rows,
                            .first_row = 2 * head * rows,
                            .tensor_rows = all,
                            .continues = head > 0};
      queries.push_back(part);
      gates.push_back(part);
      gates.back().first_row += rows;
    }
    for (const char* name : {"attn_k", "attn_v"}) {
      queries.push_back({.name = prefix_ + name, .rows = attention.kv_heads * rows});
    }
    queries.insert(queries.end(), gates.begin(), gates.end());
    return load_projection(backend_, file_, queries, width_, uploads_);
  }
  // Loads matrices over one input as one projection.
  Result<Projection> stacked(const std::vector<std::string_view>& names,
                             decltype(load_projection)& loads = load_projection) const {
    std::vector<MatrixPart> parts;
    std::uint32_t columns = 0;
    for (const std::string_view name : names) {
      const LayerMatrix& matrix = *std::ranges::find(matrices_, name, &LayerMatrix::name);
      parts.push_back({.name = matrix.tensor,
                       .rows = matrix.rows,
                       .first_row = matrix.first_row,
                       .tensor_rows = matrix.tensor_rows});
      columns = matrix.columns;
    }
    return loads(backend_, file_, parts, columns, uploads_);
  }

  const Backend& backend_;
  Device& device_;
  const GgufFile& file_;
  std::uint32_t width_;
  const ModelSpec& spec_;
  std::uint32_t index_;
  const LayerSpec& layer_;
  std::vector<LayerMatrix> matrices_;
  std::string prefix_;
  WeightUploads& uploads_;
};

}  // namespace

Result<LayerWeights> load_layer(const Backend& backend, const GgufFile& file, const ModelSpec& spec,
                                std::uint32_t index, WeightUploads& uploads) {
  return LayerLoader(backend, file, spec, index, uploads).load();
}

}  // namespace millrace::engine
