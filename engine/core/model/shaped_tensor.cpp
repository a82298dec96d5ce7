#include "engine/core/model/shaped_tensor.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/gguf/product_scale.hpp"
#include "engine/core/model/panel.hpp"

namespace millrace::engine {
namespace {

std::string shape_text(const Tensor& tensor) {
  std::string text = std::to_string(tensor.shape[0]);
  for (std::uint32_t i = 1; i < tensor.rank; ++i) text += " x " + std::to_string(tensor.shape[i]);
  return text;
}

}  // namespace

Result<const Tensor*> find_shaped(const GgufFile& file, const std::string& name,
                                  std::uint64_t columns, std::uint64_t rows,
                                  std::uint64_t matrices) {
  MILLRACE_ASSIGN(const Tensor* tensor, file.tensor(name));
  if (tensor->shape == std::array<std::uint64_t, 4>{columns, rows, matrices, 1}) {
    return tensor;
  }
  std::string wanted = std::to_string(columns);
  if (rows > 1 || matrices > 1) wanted += " x " + std::to_string(rows);
  if (matrices > 1) wanted += " x " + std::to_string(matrices);
  return fail(Code::gguf_malformed,
              file.source() + ": tensor \"" + name + "\" is " + shape_text(*tensor) +
                  " where the metadata asks for " + wanted,
              "the file is damaged or its metadata belongs to another model");
}

Result<const Tensor*> find_finite(const GgufFile& file, const std::string& name,
                                  std::uint64_t columns, std::uint64_t rows) {
  MILLRACE_ASSIGN(const Tensor* tensor, find_shaped(file, name, columns, rows));
  if (const auto row = find_row_not_finite(*tensor, 0, tensor->rows())) {
    return fail(not_finite(file, *tensor, *row));
  }
  return tensor;
}

Error not_finite(const GgufFile& file, const Tensor& tensor, std::uint64_t row) {
  return fail(Code::gguf_malformed,
              file.source() + ": tensor \"" + std::string(tensor.name) + "\", row " +
                  std::to_string(row) + ", holds a number that is not finite",
              "the file is damaged: download or convert it again")
      .error();
}

Result<std::vector<float>> packed_factors(const GgufFile& file, const Tensor& weight) {
  MILLRACE_ASSIGN(auto factors, product_scales(file, weight));
  if (factors.empty()) return std::vector<float>(weight.shape[2] * weight.shape[3], 1.0f);
  if (format_of(weight.type).scale_bytes != sizeof(float)) {
    return fail(Code::unsupported_tensor_type,
                file.source() + ": tensor \"" + std::string(weight.name) + "\" is " +
                    std::string(traits_of(weight.type).name) +
                    " and has a factor of its products (.scale), which is supported only for " +
                    "types whose scales are kept as floats, such as NVFP4 and IQ4_XS",
                "convert the model to such a type");
  }
  const auto wrong = std::ranges::find_if(factors, [](float x) { return std::abs(x) > 0x1p64f; });
  if (wrong == factors.end()) return factors;
  return fail(Code::gguf_malformed,
              file.source() + ": the factor of tensor \"" + std::string(weight.name) + "\" is " +
                  std::to_string(*wrong) + ", beyond 2^64",
              "the file is damaged: download or convert it again");
}

}  // namespace millrace::engine
