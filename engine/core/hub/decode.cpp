#include "engine/core/hub/decode.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/hub/decode_integers.hpp"
#include "engine/core/hub/hub_name.hpp"

namespace millrace::engine {
namespace {

constexpr auto plain_types =
    std::to_array<std::pair<HubType, TensorType>>({{HubType::f32, TensorType::f32},
                                                   {HubType::f16, TensorType::f16},
                                                   {HubType::bf16, TensorType::bf16}});

// Endings of the parts of quantized matrices that are no matrix of their own.
constexpr auto parts = std::to_array<std::string_view>({".weight_scale", ".weight_scale_inv",
                                                        ".weight_shape", ".weight_zero_point",
                                                        ".qzeros", ".scales", ".g_idx", "_scales"});
// Scales of activations in few bits, and of keys and values: the engine has its own.
constexpr auto ignored =
    std::to_array<std::string_view>({".input_scale", ".activation_scale", ".k_scale", ".v_scale",
                                     ".weight_g_idx", ".input_global_scale"});

std::optional<std::string> without(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  return std::string(name.substr(0, name.size() - ending.size()));
}

class Decoder {
 public:
  Decoder(const HubTensors& tensors, const Settings& config, const std::string& source)
      : tensors_(tensors), config_(config), source_(source) {}

  Result<Decoded> run() {
    MILLRACE_TRY(read_method());
    for (const auto& [name, tensor] : tensors_) {
      const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
      if (is_unused(name) || std::ranges::any_of(ignored, ends)) continue;
      MILLRACE_TRY(add(name, tensor));
    }
    out_.method = method_;
    return std::move(out_);
  }

 private:
  std::unexpected<Error> refuse(const std::string& what) const {
    return fail(Code::unsupported_quantization, source_ + ": " + what + " is not supported",
                "use a folder that is not quantized, one in fp8, gptq, awq, compressed-tensors "
                "(pack-quantized, float-quantized) or mxfp4, or a GGUF file");
  }

  Status read_method() {
    if (!config_.is_object("quantization_config")) return {};
    MILLRACE_ASSIGN(quantization_, config_.object("quantization_config"));
    MILLRACE_ASSIGN(method_, quantization_.get<std::string>("quant_method"));
    constexpr auto known =
        std::to_array<std::string_view>({"fp8", "gptq", "awq", "compressed-tensors", "mxfp4"});
    if (std::ranges::find(known, method_) == known.end()) {
      return refuse("the quantization method '" + printable(method_) + "'");
    }
    if (method_ == "compressed-tensors") {
      MILLRACE_ASSIGN(const auto format, quantization_.get<std::string>("format"));
      if (format != "pack-quantized" && format != "float-quantized" &&
          format != "naive-quantized") {
        return refuse("compressed-tensors' format '" + printable(format) + "'");
      }
    }
    if (method_ == "fp8") {
      using Sizes = std::vector<double>;
      MILLRACE_ASSIGN(const auto block, quantization_.find<Sizes>("weight_block_size"));
      if (block && *block != Sizes{128, 128}) return refuse("fp8 with blocks other than 128 x 128");
    }
    MILLRACE_ASSIGN(integers_, read_integer_form(method_, quantization_, source_));
    return {};
  }

  Result<const HubTensor*> part(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return &found->second;
    return fail(Code::folder_malformed,
                source_ + ": the tensor '" + printable(name) + "' is absent",
                "the folder is incomplete: download it again");
  }

  Status add(const std::string& name, const HubTensor& tensor) {
    if (const auto stem = without(name, "_blocks")) {
      MILLRACE_ASSIGN(const HubTensor* scales, part(*stem + "_scales"));
      return put(*stem, decode_mxfp4(tensor, *scales, *stem, source_));
    }
    if (const auto stem = without(name, ".qweight")) {
      return put(*stem + ".weight", decode_integers(integers_, tensors_, *stem, source_));
    }
    if (const auto stem = without(name, ".weight_packed")) {
      return put(*stem + ".weight", decode_integers(integers_, tensors_, *stem, source_));
    }
    for (const char* const ending : {"_scale_inv", "_scale"}) {
      const auto scales = tensors_.find(name + ending);
      if (scales == tensors_.end()) continue;
      return put(name, decode_fp8(tensor, scales->second, name, source_));
    }
    if (is_part_of_another(name)) return {};
    return put(name, plain_source(tensor, name, source_));
  }

  bool is_part_of_another(std::string_view name) const {
    // Experts as one tensor have names without an ending.
    for (const std::string_view ending : {"_scale_inv", "_scale"}) {
      const auto whole = without(name, ending);
      if (whole && tensors_.contains(*whole)) return true;
    }
    constexpr auto wholes =
        std::to_array<std::string_view>({".weight", ".qweight", ".weight_packed", "_blocks"});
    for (const std::string_view ending : parts) {
      const auto stem = without(name, ending);
      if (stem && std::ranges::any_of(wholes, [&](std::string_view whole) {
            return tensors_.contains(*stem + std::string(whole));
          })) {
        return true;
      }
    }
    return false;
  }

  Status put(const std::string& name, Result<Source> source) {
    if (!source) return std::unexpected(std::move(source).error());
    out_.sources.emplace(name, *std::move(source));
    return {};
  }

  const HubTensors& tensors_;
  const Settings& config_;
  const std::string& source_;
  Settings quantization_;
  std::string method_;
  IntegerForm integers_;
  Decoded out_;
};

}  // namespace

Result<Source> plain_source(const HubTensor& tensor, const std::string& name,
                            const std::string& source) {
  const auto* const type =
      std::ranges::find(plain_types, tensor.type, &std::pair<HubType, TensorType>::first);
  const std::size_t rank = tensor.shape.size();
  if (type == plain_types.end() || rank < 1 || rank > 3 || tensor.data.empty()) {
    return fail(Code::unsupported_tensor_type,
                source + ": the tensor '" + printable(name) + "' is " +
                    std::string(hub_type_name(tensor.type)) + " of " + std::to_string(rank) +
                    " dimensions",
                "weights must be F32, F16 or BF16 of 1 to 3 dimensions, or of a quantization that "
                "config.json names");
  }
  Source out;
  out.tensor.type = type->second;
  out.tensor.rank = static_cast<std::uint32_t>(rank);
  std::ranges::copy(tensor.shape.rbegin(), tensor.shape.rend(), out.tensor.shape.begin());
  out.tensor.data = tensor.data;
  return out;
}

Source made_source(std::shared_ptr<const RowSource> rows, TensorType type, std::uint64_t columns,
                   std::uint64_t rows_each, std::uint64_t matrices) {
  Source out;
  out.tensor.type = type;
  out.tensor.rank = matrices == 0 ? 2 : 3;
  out.tensor.shape = {columns, rows_each, std::max<std::uint64_t>(matrices, 1), 1};
  out.tensor.made = rows.get();
  out.owner = std::move(rows);
  return out;
}

Result<std::vector<float>> read_scales(const HubTensor& tensor, const std::string& name,
                                       const std::string& source) {
  const auto* const type =
      std::ranges::find(plain_types, tensor.type, &std::pair<HubType, TensorType>::first);
  if (type == plain_types.end()) {
    return fail(Code::folder_malformed,
                source + ": the scales of '" + printable(name) + "' are " +
                    std::string(hub_type_name(tensor.type)) + ", wanted F32, F16 or BF16",
                "download the folder again");
  }
  std::vector<float> out(tensor.elements());
  MILLRACE_TRY(dequantize(type->second, tensor.data, out));
  return out;
}

Result<Decoded> decode_tensors(const HubTensors& tensors, const Settings& config,
                               const std::string& source) {
  return Decoder(tensors, config, source).run();
}

}  // namespace millrace::engine
