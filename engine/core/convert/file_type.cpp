#include "engine/core/convert/file_type.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace millrace::engine {
namespace {

constexpr std::array<FileType, 20> kFileTypes{{
    {Mix::f32, "F32", TensorType::f32},          {Mix::f16, "F16", TensorType::f16},
    {Mix::bf16, "BF16", TensorType::bf16},       {Mix::q8_0, "Q8_0", TensorType::q8_0},
    {Mix::q6_k, "Q6_K", TensorType::q6_k},       {Mix::q5_k_m, "Q5_K_M", TensorType::q5_k},
    {Mix::q5_k_s, "Q5_K_S", TensorType::q5_k},   {Mix::q5_1, "Q5_1", TensorType::q5_1},
    {Mix::q5_0, "Q5_0", TensorType::q5_0},       {Mix::q4_k_m, "Q4_K_M", TensorType::q4_k},
    {Mix::q4_k_s, "Q4_K_S", TensorType::q4_k},   {Mix::q4_1, "Q4_1", TensorType::q4_1},
    {Mix::q4_0, "Q4_0", TensorType::q4_0},       {Mix::iq4_nl, "IQ4_NL", TensorType::iq4_nl},
    {Mix::iq4_xs, "IQ4_XS", TensorType::iq4_xs}, {Mix::mxfp4_moe, "MXFP4_MOE", TensorType::mxfp4},
    {Mix::q3_k_l, "Q3_K_L", TensorType::q3_k},   {Mix::q3_k_m, "Q3_K_M", TensorType::q3_k},
    {Mix::q3_k_s, "Q3_K_S", TensorType::q3_k},   {Mix::q2_k, "Q2_K", TensorType::q2_k},
}};

}  // namespace

const FileType* find_file_type(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  const bool middle = upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K";
  const std::string wanted = middle ? upper + "_M" : upper;
  for (const FileType& type : kFileTypes)
    if (type.name == wanted) return &type;
  return nullptr;
}

std::string file_type_names() {
  std::string names;
  for (const FileType& type : kFileTypes) {
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace millrace::engine
