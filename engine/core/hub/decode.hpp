#pragma once
// The matrices of a folder, also of a quantized one, by the hub's names: what the parts of a
// quantized matrix (codes, scales, zero points) give together stands under the name of the whole.
//
// Methods of quantization_config, and the type that a matrix is given:
//
//   none                              F32, F16, BF16 as they are
//   fp8 (blocks, rows or whole)       BF16: a code has 4 significant bits and BF16 8, so rounding
//                                     adds at most 2^-9 to a relative error of up to 2^-4
//   gptq, awq, compressed-tensors     Q4_0 (4 bits) and Q8_0 (8 bits), exactly, if there are no
//     (pack-quantized): integers      zero points, groups are multiples of 32 in order, and all
//                                     scales are halves; else F16: at most 2^-11 of a value
//   mxfp4 (gpt-oss: _blocks, _scales) MXFP4, exactly
//
// Errors: unsupported_quantization (another method, or another form of one, by name),
// unsupported_tensor_type, folder_malformed (parts that are missing or do not fit each other).
// Thread safety: a pure function.
#include <string>

#include "engine/core/hub/safetensors.hpp"
#include "engine/core/hub/settings.hpp"
#include "engine/core/hub/tensor_names.hpp"

namespace millrace::engine {

struct Decoded {
  Sources sources;
  std::string method;  // of quantization_config, or nothing
};

// The tensors' bytes must stay alive. `config` is config.json; `source` names the folder.
Result<Decoded> decode_tensors(const HubTensors& tensors, const Settings& config,
                               const std::string& source);

// A matrix of a plain type, used where it lies. Errors: unsupported_tensor_type.
Result<Source> plain_source(const HubTensor& tensor, const std::string& name,
                            const std::string& source);

// A matrix whose rows a source makes.
Source made_source(std::shared_ptr<const RowSource> rows, TensorType type, std::uint64_t columns,
                   std::uint64_t rows_each, std::uint64_t matrices = 0);

// The numbers of a tensor of scales, as floats. Errors: folder_malformed, of another type.
Result<std::vector<float>> read_scales(const HubTensor& tensor, const std::string& name,
                                       const std::string& source);

// For the files of single methods.
Result<Source> decode_fp8(const HubTensor& codes, const HubTensor& scales, const std::string& name,
                          const std::string& source);
Result<Source> decode_mxfp4(const HubTensor& blocks, const HubTensor& scales,
                            const std::string& name, const std::string& source);

}  // namespace millrace::engine
