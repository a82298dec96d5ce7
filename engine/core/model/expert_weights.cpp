#include "engine/core/model/expert_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/shaped_tensor.hpp"
#include "engine/core/model/weight_uploads.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t most_groups = 32;  // of kernels/experts/route.cl

// Rows [first_row, first_row + rows) of each matrix of a tensor.
struct ExpertPart {
  const Tensor* tensor = nullptr;
  std::uint32_t first_row = 0, rows = 0;
  std::vector<float> factors{};  // of each expert's products

  std::uint32_t panels() const { return round_up(rows, panel_rows) / panel_rows; }
  // Those rows of one expert.
  PanelSource of(std::uint32_t expert) const {
    return {tensor, expert * tensor->shape[1] + first_row, rows, factors[expert]};
  }
};

// The format in which a part is stored.
PanelFormat format_of_part(const Backend& backend, const ExpertPart& part) {
  const TensorType type = part.tensor->type;
  const bool scaled = std::ranges::any_of(part.factors, [](float x) { return x != 1.0f; });
  // Products of experts have no form for bytes, as those of logits have none.
  return scaled
             ? format_of(type)
             : backend.stored_format(type, static_cast<std::uint32_t>(part.tensor->shape[0]), true);
}

// Appends runs of parts of one format, or of a gate and an up in turns if `out` is paired.
Status append_runs(const Backend& backend, std::span<const ExpertPart> parts,
                   std::uint32_t first_row, std::uint32_t experts, ExpertMatrix& out,
                   WeightUploads& uploads) {
  const Tensor& tensor = *parts[0].tensor;
  const PanelFormat format = format_of_part(backend, parts[0]);
  const std::uint64_t panel_bytes = backend.panel_bytes(format, out.columns);
  Device& device = *backend.target().device;
  std::uint32_t panels = 0;
  for (const ExpertPart& part : parts) panels += part.panels();
  const std::uint64_t bytes = panels * panel_bytes;
  const auto most = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(device.info().max_allocation_bytes / bytes, 1, experts));
  for (std::uint32_t first = 0; first < experts; first += most) {
    const std::uint32_t count = std::min(most, experts - first);
    MILLRACE_ASSIGN(Buffer buffer, device.allocate(bytes * count, tensor.name));
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (out.paired) {
        uploads.add_pair(parts[0].of(first + i), parts[1].of(first + i), panels, format, buffer,
                         offset);
        offset += bytes;
        continue;
      }
      for (const ExpertPart& part : parts) {
        uploads.add(part.of(first + i), format, buffer, offset);
        offset += part.panels() * panel_bytes;
      }
    }
    out.runs.push_back({format, first_row, panels, first, count, std::move(buffer)});
  }
  return {};
}

// Loads matrices of so many experts, or heads, of one layer.
class MatrixLoader {
 public:
  struct Rows {
    const char* name;
    std::uint32_t first_row, rows;
  };

  // Products of the matrices are multiplied by the file's factors, unless something else does that.
  MatrixLoader(const Backend& backend, const GgufFile& file, std::uint32_t count,
               std::uint32_t index, WeightUploads& uploads, bool has_factors = true)
      : backend_(backend),
        device_(*backend.target().device),
        file_(file),
        count_(count),
        has_factors_(has_factors),
        prefix_("blk." + std::to_string(index) + "."),
        uploads_(uploads) {}

  // Loads rows of tensors, which have so many rows an expert. Neighbours of one format are stacked,
  // or stand in turns if they `may_pair` and the backend pairs them.
  Result<ExpertMatrix> load(const std::vector<Rows>& rows, std::uint32_t columns,
                            std::uint32_t tensor_rows, bool may_pair = false) {
    ExpertMatrix out;
    out.columns = columns;
    std::vector<ExpertPart> parts;
    std::vector<std::uint32_t> first;  // row of each part
    for (const Rows& part : rows) {
      const std::string name = prefix_ + part.name + ".weight";
      const Tensor* tensor = parts.empty() ? nullptr : parts.back().tensor;
      if (tensor == nullptr || tensor->name != name) {
        MILLRACE_ASSIGN(tensor, find_shaped(file_, name, columns, tensor_rows, count_));
      }
      std::vector<float> factors(count_, 1.0f);
      if (has_factors_) {
        MILLRACE_ASSIGN(factors, packed_factors(file_, *tensor));
      }
      parts.push_back({tensor, part.first_row, part.rows, std::move(factors)});
      out.tensors.push_back({std::string(tensor->name), tensor->type});
      first.push_back(out.rows);
      out.rows += round_up(part.rows, panel_rows);
    }
    const auto format_at = [&](std::size_t i) { return format_of_part(backend_, parts[i]); };
    out.paired = may_pair && parts.size() == 2 && format_at(0) == format_at(1) &&
                 parts[0].tensor->type == parts[1].tensor->type &&
                 backend_.pairs_gate(format_at(0), columns);
    for (std::size_t at = 0; at < parts.size();) {
      std::size_t end = at + 1;
      while (end < parts.size() && format_at(end) == format_at(at)) ++end;
      MILLRACE_TRY(append_runs(backend_, std::span(parts).subspan(at, end - at), first[at], count_,
                               out, uploads_));
      at = end;
    }
    MILLRACE_ASSIGN(out.bias, biases(rows, first, tensor_rows, out));
    return out;
  }

 private:
  // Loads the biases of a matrix's parts as rows of all parts, or nothing if the file has none.
  Result<Buffer> biases(const std::vector<Rows>& rows, const std::vector<std::uint32_t>& first,
                        std::uint32_t tensor_rows, const ExpertMatrix& matrix) {
    const std::uint32_t matrix_rows = matrix.rows;
    std::vector<float> all(std::size_t{matrix_rows} * count_);
    bool any = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string name = prefix_ + rows[i].name + ".bias";
      if (file_.find_tensor(name) == nullptr) continue;
      any = true;
      MILLRACE_ASSIGN(const Tensor* tensor, find_finite(file_, name, tensor_rows, count_));
      std::vector<float> values(tensor_rows);
      for (std::uint32_t expert = 0; expert < count_; ++expert) {
        MILLRACE_TRY(dequantize_rows(*tensor, expert, 1, values));
        std::copy_n(values.begin() + rows[i].first_row, rows[i].rows,
                    all.begin() + std::size_t{expert} * matrix_rows + first[i]);
      }
    }
    if (!any) return Buffer();
    for (std::uint32_t expert = 0; matrix.paired && expert < count_; ++expert) {
      const auto own = std::span(all).subspan(std::size_t{expert} * matrix_rows, matrix_rows);
      std::ranges::copy(in_turns(own), own.begin());
    }
    MILLRACE_ASSIGN(Buffer buffer, device_.allocate(all.size() * sizeof(float), "biases"));
    MILLRACE_TRY(device_.write(buffer, 0, std::as_bytes(std::span(all))));
    return buffer;
  }

  const Backend& backend_;
  Device& device_;
  const GgufFile& file_;
  const std::uint32_t count_;
  const bool has_factors_;
  const std::string prefix_;
  WeightUploads& uploads_;
};

class ExpertLoader {
 public:
  ExpertLoader(const Backend& backend, const GgufFile& file, const ExpertsSpec& spec, Gate gate,
               std::uint32_t width, std::uint32_t index, WeightUploads& uploads)
      : backend_(backend),
        device_(*backend.target().device),
        file_(file),
        spec_(spec),
        gate_(gate),
        width_(width),
        matrices_(backend, file, spec.count, index, uploads, !spec.expert_scales),
        prefix_("blk." + std::to_string(index) + "."),
        uploads_(uploads) {}

  Result<ExpertWeights> load() {
    MILLRACE_TRY(check());
    ExpertWeights out;
    MILLRACE_TRY(load_router(out));
    const std::uint32_t inner = spec_.width;
    MILLRACE_ASSIGN(const Tensor* last, find_shaped(file_, prefix_ + "ffn_down_exps.weight", inner,
                                                    width_, spec_.count));
    // What a pair gives are codes, which the next product must read.
    const bool may_pair =
        backend_.pairs_gate(backend_.stored_format(last->type, inner, true), inner);
    if (!has_gate(gate_)) {
      MILLRACE_ASSIGN(out.gate_up, matrices_.load({{"ffn_up_exps", 0, inner}}, width_, inner));
    } else if (has("ffn_gate_up_exps")) {
      MILLRACE_ASSIGN(out.gate_up, matrices_.load({{"ffn_gate_up_exps", 0, inner},
                                                   {"ffn_gate_up_exps", inner, inner}},
                                                  width_, 2 * inner, may_pair));
    } else {
      MILLRACE_ASSIGN(out.gate_up,
                      matrices_.load({{"ffn_gate_exps", 0, inner}, {"ffn_up_exps", 0, inner}},
                                     width_, inner, may_pair));
    }
    MILLRACE_ASSIGN(out.down, matrices_.load({{"ffn_down_exps", 0, width_}}, inner, width_));
    if (spec_.shared_width == 0) return out;
    std::vector<MatrixPart> gate_up;
    if (has_gate(gate_)) gate_up.push_back({prefix_ + "ffn_gate_shexp", spec_.shared_width});
    gate_up.push_back({prefix_ + "ffn_up_shexp", spec_.shared_width});
    MILLRACE_ASSIGN(out.shared_gate_up, load_gate_up(backend_, file_, gate_up, width_, uploads_));
    const auto down = std::to_array<MatrixPart>({{prefix_ + "ffn_down_shexp", width_}});
    MILLRACE_ASSIGN(out.shared_down,
                    load_projection(backend_, file_, down, spec_.shared_width, uploads_));
    return out;
  }

 private:
  bool has(const std::string& name) const {
    return file_.find_tensor(prefix_ + name + ".weight") != nullptr;
  }

  // Refuses numbers of experts that contradict one another.
  Status check() const {
    const std::uint32_t groups = spec_.groups;
    std::string wrong;
    if (spec_.used == 0 || spec_.used > spec_.count) {
      wrong =
          "uses " + std::to_string(spec_.used) + " of " + std::to_string(spec_.count) + " experts";
    } else if (groups == 0 || groups > most_groups || spec_.count % groups != 0 ||
               spec_.groups_used == 0 || spec_.groups_used > groups ||
               spec_.count / groups * spec_.groups_used < spec_.used) {
      wrong = "chooses " + std::to_string(spec_.used) + " of " + std::to_string(spec_.count) +
              " experts from " + std::to_string(spec_.groups_used) + " of " +
              std::to_string(groups) + " groups";
    }
    if (wrong.empty()) return {};
    return fail(Code::gguf_malformed, file_.source() + ": " + prefix_ + "ffn " + wrong,
                "the metadata are damaged; groups have equal sizes, and there are at most " +
                    std::to_string(most_groups));
  }

  Status load_router(ExpertWeights& out) {
    std::vector<MatrixPart> parts{{.name = prefix_ + "ffn_gate_inp",
                                   .rows = spec_.count,
                                   .may_have_scale = !spec_.router_norm,
                                   .exact = true}};
    if (spec_.shared_gate) parts.push_back({prefix_ + "ffn_gate_inp_shexp", 1});
    MILLRACE_ASSIGN(out.router, load_projection(backend_, file_, parts, width_, uploads_));
    if (spec_.shared_gate) out.shared_gate_row = out.router.first[1];
    if (spec_.router_norm) MILLRACE_TRY(load_router_norm(out));
    if (spec_.expert_scales) {
      MILLRACE_ASSIGN(
          out.expert_factors,
          load_vector(device_, file_, prefix_ + "ffn_down_exps.scale", spec_.count, spec_.count));
    }
    if (!spec_.selection_bias) return {};
    MILLRACE_ASSIGN(out.selection_bias,
                    load_vector(device_, file_, prefix_ + "exp_probs_b.bias", spec_.count,
                                round_up(spec_.count, panel_rows)));
    return {};
  }

  // The router's input is divided by the root of the width.
  Status load_router_norm(ExpertWeights& out) {
    const std::string name = prefix_ + "ffn_gate_inp.scale";
    MILLRACE_ASSIGN(const Tensor* tensor, find_finite(file_, name, width_, 1));
    std::vector<float> values(width_);
    MILLRACE_TRY(dequantize_rows(*tensor, 0, 1, values));
    const double root = std::sqrt(static_cast<double>(width_));
    for (float& value : values) {
      value = static_cast<float>(static_cast<double>(value) / root);
    }
    values.resize(round_up(width_, block_columns), 0.0f);
    MILLRACE_ASSIGN(out.router_norm, device_.allocate(values.size() * sizeof(float), name));
    return device_.write(out.router_norm, 0, std::as_bytes(std::span(values)));
  }

  const Backend& backend_;
  Device& device_;
  const GgufFile& file_;
  const ExpertsSpec& spec_;
  const Gate gate_;
  const std::uint32_t width_;
  MatrixLoader matrices_;
  const std::string prefix_;
  WeightUploads& uploads_;
};

}  // namespace

Result<ExpertWeights> load_experts(const Backend& backend, const GgufFile& file,
                                   const ExpertsSpec& spec, Gate gate, std::uint32_t width,
                                   std::uint32_t index, WeightUploads& uploads) {
  return ExpertLoader(backend, file, spec, gate, width, index, uploads).load();
}

Result<ExpertMatrix> load_head_matrix(const Backend& backend, const GgufFile& file,
                                      const char* name, std::uint32_t columns, std::uint32_t rows,
                                      std::uint32_t heads, std::uint32_t index,
                                      WeightUploads& uploads) {
  return MatrixLoader(backend, file, heads, index, uploads).load({{name, 0, rows}}, columns, rows);
}

}  // namespace millrace::engine
