#include "engine/core/model/recurrence_weights.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/families/layer_tensors.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/shaped_tensor.hpp"
#include "engine/core/model/weight_uploads.hpp"

namespace millrace::engine {
namespace {

class RecurrenceLoader {
 public:
  RecurrenceLoader(const Backend& backend, const GgufFile& file, const ModelSpec& spec,
                   std::uint32_t index, WeightUploads& uploads)
      : backend_(backend),
        device_(*backend.target().device),
        file_(file),
        spec_(spec.layers[index].recurrence),
        matrices_(layer_matrices(file, spec, index)),
        prefix_("blk." + std::to_string(index) + "."),
        uploads_(uploads) {}

  Result<RecurrenceWeights> load() const {
    RecurrenceWeights out;
    MILLRACE_TRY(load_products(out));
    const bool convolution = spec_.kind == RecurrenceKind::convolution;
    MILLRACE_ASSIGN(out.taps, taps(convolution ? "shortconv.conv.weight" : "ssm_conv1d.weight"));
    if (convolution) return out;
    MILLRACE_ASSIGN(out.a, of_heads("ssm_a"));
    MILLRACE_ASSIGN(out.dt_bias, of_heads("ssm_dt.bias"));
    if (spec_.kind == RecurrenceKind::mamba2) {
      MILLRACE_ASSIGN(out.skip, of_heads("ssm_d"));
      MILLRACE_ASSIGN(out.conv_bias, load_vector(device_, file_, prefix_ + "ssm_conv1d.bias",
                                                 spec_.channels, spec_.channels));
    }
    if (!spec_.normed) return out;
    const bool delta = spec_.kind == RecurrenceKind::delta_net;
    const std::uint32_t groups = delta ? 1 : spec_.key_heads;
    const std::uint32_t size = delta ? spec_.value_dim : spec_.values() / groups;
    MILLRACE_ASSIGN(const auto norm, rows("ssm_norm.weight", size, groups));
    MILLRACE_ASSIGN(out.norm, upload(norm, "the norm of a recurrence"));
    return out;
  }

 private:
  // All matrices of the recurrence but the last read the layer's input.
  Status load_products(RecurrenceWeights& out) const {
    std::vector<MatrixPart> in;
    std::uint32_t columns = 0;
    for (const LayerMatrix& matrix : matrices_) {
      if (!is_of_recurrence(matrix.name)) continue;
      const MatrixPart part{.name = matrix.tensor, .rows = matrix.rows};
      if (matrix.name == "ssm_out" || matrix.name == "shortconv.out_proj") {
        MILLRACE_ASSIGN(out.out,
                        load_projection(backend_, file_, {&part, 1}, matrix.columns, uploads_));
      } else {
        in.push_back(part);
        columns = matrix.columns;
      }
    }
    MILLRACE_ASSIGN(out.in, load_projection(backend_, file_, in, columns, uploads_));
    return {};
  }

  static bool is_of_recurrence(std::string_view name) {
    return name.starts_with("ssm_") || name.starts_with("shortconv.") || name == "attn_gate" ||
           name == "attn_qkv";
  }

  Result<std::vector<float>> rows(const char* name, std::uint32_t columns,
                                  std::uint32_t count) const {
    MILLRACE_ASSIGN(const Tensor* tensor, find_finite(file_, prefix_ + name, columns, count));
    std::vector<float> values(std::size_t{columns} * count);
    MILLRACE_TRY(dequantize_rows(*tensor, 0, count, values));
    return values;
  }

  // The file has the taps of a channel side by side, the kernels want the channels of a tap.
  Result<Buffer> taps(const char* name) const {
    MILLRACE_ASSIGN(const auto values, rows(name, spec_.taps, spec_.channels));
    std::vector<float> turned(values.size());
    for (std::uint32_t channel = 0; channel < spec_.channels; ++channel) {
      for (std::uint32_t tap = 0; tap < spec_.taps; ++tap) {
        turned[std::size_t{tap} * spec_.channels + channel] =
            values[std::size_t{channel} * spec_.taps + tap];
      }
    }
    return upload(turned, "the taps of a convolution");
  }

  // A number for each head, which files have as a row or as a column.
  Result<Buffer> of_heads(const char* name) const {
    const Tensor* const tensor = file_.find_tensor(prefix_ + name);
    const bool column = tensor != nullptr && tensor->shape[0] == 1;
    MILLRACE_ASSIGN(auto values, rows(name, column ? 1 : spec_.heads, column ? spec_.heads : 1));
    values.resize(round_up(spec_.heads, 16), 0.0f);
    return upload(values, name);
  }

  Result<Buffer> upload(const std::vector<float>& values, const char* what) const {
    MILLRACE_ASSIGN(Buffer buffer, device_.allocate(values.size() * sizeof(float), what));
    MILLRACE_TRY(device_.write(buffer, 0, std::as_bytes(std::span(values))));
    return buffer;
  }

  const Backend& backend_;
  Device& device_;
  const GgufFile& file_;
  const RecurrenceSpec& spec_;
  std::vector<LayerMatrix> matrices_;
  std::string prefix_;
  WeightUploads& uploads_;
};

}  // namespace

Result<RecurrenceWeights> load_recurrence(const Backend& backend, const GgufFile& file,
                                          const ModelSpec& spec, std::uint32_t index,
                                          WeightUploads& uploads) {
  return RecurrenceLoader(backend, file, spec, index, uploads).load();
}

}  // namespace millrace::engine
