#pragma once
// The types of whole files, as users name them: "Q8_0", or a mix such as "Q4_K_M", which gives more
// bits to the tensors that lose most. Names, numbers (general.file_type) and the choice for each
// tensor are those of llama.cpp's quantizer, so that files of a name are alike wherever they come
// from. Thread safety: constants and pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

enum class Mix : std::uint32_t {  // the numbers are those in files
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 7,
  q5_0 = 8,
  q5_1 = 9,
  q2_k = 10,
  q3_k_s = 11,
  q3_k_m = 12,
  q3_k_l = 13,
  q4_k_s = 14,
  q4_k_m = 15,
  q5_k_s = 16,
  q5_k_m = 17,
  q6_k = 18,
  iq4_nl = 25,
  iq4_xs = 30,
  bf16 = 32,
  mxfp4_moe = 38,
};

struct FileType {
  Mix mix;
  std::string_view name;  // "Q4_K_M"
  TensorType base;        // of the tensors that no rule names
};

// Null for a name that is not in the table. "Q4_K" means Q4_K_M, as it does elsewhere, and case
// does not matter.
const FileType* find_file_type(std::string_view name);
std::string file_type_names();  // "F32, F16, ...", for messages

// The type that each tensor of the file gets, in the file's order. Norms, biases, routers and other
// small tensors keep theirs, but are F32 where they were halves, as converters write them. A row
// that is not whole blocks of its type gets a type of smaller blocks, and F16 if there is none.
// Errors: gguf_malformed, if the metadata of layers, heads or experts is absent or wrong.
Result<std::vector<TensorType>> choose_types(const GgufFile& file, const FileType& type);

}  // namespace millrace::engine
