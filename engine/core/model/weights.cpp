#include "engine/core/model/weights.hpp"

#include <algorithm>
#include <array>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/shaped_tensor.hpp"

namespace millrace::engine {
namespace {

// Some panels of one tensor.
struct Piece {
  const Tensor* tensor = nullptr;
  std::uint32_t first_panel = 0, panels = 0;
};

struct Run {
  PanelFormat format;
  std::uint32_t first_row = 0, panels = 0;
  std::vector<Piece> pieces;
};

constexpr std::size_t upload_bytes = std::size_t{8} << 20;

// Appends a tensor's panels to the runs; begins a new run if the format or the size requires it.
void plan_runs(const Tensor& tensor, std::uint32_t first_row, std::uint64_t most_bytes,
               std::vector<Run>& runs) {
  const PanelFormat format = format_of(tensor.type);
  const PanelLayout layout{format, static_cast<std::uint32_t>(tensor.shape[0])};
  const auto most = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(most_bytes / layout.panel_bytes(), 1, 0x0fffffff));
  const auto panels = static_cast<std::uint32_t>((tensor.rows() + panel_rows - 1) / panel_rows);
  for (std::uint32_t at = 0; at < panels;) {
    if (runs.empty() || runs.back().format != format || runs.back().panels == most) {
      runs.push_back({format, first_row + at * panel_rows, 0, {}});
    }
    Run& run = runs.back();
    const std::uint32_t take = std::min(panels - at, most - run.panels);
    run.pieces.push_back({&tensor, at, take});
    run.panels += take;
    at += take;
  }
}

Result<Buffer> upload(Device& device, const Run& run, std::uint32_t columns) {
  const PanelLayout layout{run.format, columns};
  const std::uint64_t bytes = layout.panel_bytes();
  MILLRACE_ASSIGN(Buffer buffer, device.allocate(bytes * run.panels, run.pieces[0].tensor->name));
  const auto at_once = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, upload_bytes / bytes));
  std::vector<std::byte> staging;
  std::uint64_t offset = 0;
  for (const Piece& piece : run.pieces) {
    for (std::uint32_t done = 0; done < piece.panels;) {
      const std::uint32_t count = std::min(at_once, piece.panels - done);
      staging.resize(count * bytes);
      for (std::uint32_t i = 0; i < count; ++i) {
        pack_panel(layout, *piece.tensor, piece.first_panel + done + i,
                   std::span(staging).subspan(i * bytes, bytes));
      }
      MILLRACE_TRY(device.write(buffer, offset, staging));
      offset += staging.size();
      done += count;
    }
  }
  return buffer;
}

Result<std::vector<float>> read_vector(const GgufFile& file, const std::string& name,
                                       std::uint32_t size) {
  MILLRACE_ASSIGN(const Tensor* tensor, find_shaped(file, name, size, 1));
  std::vector<float> values(size);
  MILLRACE_TRY(dequantize_rows(*tensor, 0, 1, values));
  return values;
}

}  // namespace

Result<Projection> load_projection(Device& device, const GgufFile& file,
                                   std::span<const MatrixPart> parts, std::uint32_t columns) {
  Projection out;
  out.columns = columns;
  std::vector<Run> runs;
  std::vector<float> bias;
  bool has_bias = false;
  for (const MatrixPart& part : parts) {
    MILLRACE_ASSIGN(const Tensor* tensor,
                    find_shaped(file, part.name + ".weight", columns, part.rows));
    plan_runs(*tensor, out.rows, device.info().max_allocation_bytes, runs);
    out.first.push_back(out.rows);
    out.tensors.push_back({std::string(tensor->name), tensor->type});
    out.rows += round_up(part.rows, panel_rows);
    bias.resize(out.rows, 0.0f);
    if (part.may_have_bias && file.find_tensor(part.name + ".bias") != nullptr) {
      MILLRACE_ASSIGN(const auto values, read_vector(file, part.name + ".bias", part.rows));
      std::ranges::copy(values, bias.begin() + out.first.back());
      has_bias = true;
    }
  }
  for (const Run& run : runs) {
    MILLRACE_ASSIGN(Buffer buffer, upload(device, run, columns));
    out.runs.push_back({run.format, run.first_row, run.panels, std::move(buffer)});
  }
  if (has_bias) {
    MILLRACE_ASSIGN(out.bias, device.allocate(bias.size() * sizeof(float), "a bias"));
    MILLRACE_TRY(device.write(out.bias, 0, std::as_bytes(std::span(bias))));
  }
  return out;
}

Result<Buffer> load_vector(Device& device, const GgufFile& file, const std::string& name,
                           std::uint32_t size, std::uint32_t padded) {
  MILLRACE_ASSIGN(auto values, read_vector(file, name, size));
  values.resize(padded, 0.0f);
  MILLRACE_ASSIGN(Buffer buffer, device.allocate(values.size() * sizeof(float), name));
  MILLRACE_TRY(device.write(buffer, 0, std::as_bytes(std::span(values))));
  return buffer;
}

Result<LayerWeights> load_layer(Device& device, const GgufFile& file, const ModelSpec& spec,
                                std::uint32_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const std::uint32_t queries = spec.heads * spec.head_dim;
  const std::uint32_t keys = spec.kv_heads * spec.head_dim;
  const std::uint32_t padded = round_up(spec.width, block_columns);
  LayerWeights out;
  MILLRACE_ASSIGN(out.attention_norm,
                  load_vector(device, file, prefix + "attn_norm.weight", spec.width, padded));
  MILLRACE_ASSIGN(out.ffn_norm,
                  load_vector(device, file, prefix + "ffn_norm.weight", spec.width, padded));
  if (spec.attention.sinks) {
    MILLRACE_ASSIGN(
        out.sinks, load_vector(device, file, prefix + "attn_sinks.weight", spec.heads, spec.heads));
  }
  const auto qkv = std::to_array<MatrixPart>(
      {{prefix + "attn_q", queries}, {prefix + "attn_k", keys}, {prefix + "attn_v", keys}});
  MILLRACE_ASSIGN(out.qkv, load_projection(device, file, qkv, spec.width));
  const auto output = std::to_array<MatrixPart>({{prefix + "attn_output", spec.width}});
  MILLRACE_ASSIGN(out.attention_output, load_projection(device, file, output, queries));
  const auto gate_up = std::to_array<MatrixPart>(
      {{prefix + "ffn_gate", spec.ffn_width}, {prefix + "ffn_up", spec.ffn_width}});
  MILLRACE_ASSIGN(out.gate_up, load_projection(device, file, gate_up, spec.width));
  const auto down = std::to_array<MatrixPart>({{prefix + "ffn_down", spec.width}});
  MILLRACE_ASSIGN(out.down, load_projection(device, file, down, spec.ffn_width));
  return out;
}

}  // namespace millrace::engine
