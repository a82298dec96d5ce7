#include "engine/core/gguf/product_scale.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {

Result<std::vector<float>> product_scales(const GgufFile& file, const Tensor& weight) {
  constexpr std::string_view ending = ".weight";
  std::string_view stem = weight.name;
  if (!stem.ends_with(ending)) return std::vector<float>();
  stem.remove_suffix(ending.size());
  const Tensor* const tensor = file.find_tensor(std::string(stem) + ".scale");
  if (tensor == nullptr) return std::vector<float>();
  const auto damaged = [&](const std::string& what) {
    return fail(Code::gguf_malformed,
                file.source() + ": tensor '" + printable(tensor->name) + "' " + what,
                "the file is damaged: download or convert it again");
  };
  const std::uint64_t matrices = weight.shape[2] * weight.shape[3], factors = tensor->elements();
  if (tensor->type != TensorType::f32) {
    return damaged("is " + std::string(traits_of(tensor->type).name) + ", not F32");
  }
  if (factors != 1 && factors != matrices) {
    return damaged("has " + std::to_string(factors) + " factors for " + std::to_string(matrices) +
                   " matrices");
  }
  std::vector<float> out(factors);
  MILLRACE_TRY(dequantize_rows(*tensor, 0, tensor->rows(), out));
  if (!std::ranges::all_of(out, [](float x) { return std::isfinite(x); })) {
    return damaged("holds a number that is not finite");
  }
  out.resize(matrices, out[0]);
  return out;
}

}  // namespace millrace::engine
