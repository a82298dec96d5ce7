#include "engine/core/gguf/tensor_type.hpp"

#include <array>
#include <cstdlib>

namespace millrace::engine {
namespace {

constexpr std::array<TensorTypeTraits, 22> kSupported{{
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::bf16, "BF16", 1, 2},
    {TensorType::q8_0, "Q8_0", 32, 34},
    {TensorType::q6_k, "Q6_K", 256, 210},
    {TensorType::q5_0, "Q5_0", 32, 22},
    {TensorType::q5_1, "Q5_1", 32, 24},
    {TensorType::q5_k, "Q5_K", 256, 176},
    {TensorType::q4_0, "Q4_0", 32, 18},
    {TensorType::q4_1, "Q4_1", 32, 20},
    {TensorType::q4_k, "Q4_K", 256, 144},
    {TensorType::q3_k, "Q3_K", 256, 110},
    {TensorType::q2_k, "Q2_K", 256, 84},
    {TensorType::iq4_nl, "IQ4_NL", 32, 18},
    {TensorType::iq4_xs, "IQ4_XS", 256, 136},
    {TensorType::iq3_s, "IQ3_S", 256, 110},
    {TensorType::iq3_xxs, "IQ3_XXS", 256, 98},
    {TensorType::iq2_s, "IQ2_S", 256, 82},
    {TensorType::iq2_xs, "IQ2_XS", 256, 74},
    {TensorType::iq2_xxs, "IQ2_XXS", 256, 66},
    {TensorType::mxfp4, "MXFP4", 32, 17},
    {TensorType::nvfp4, "NVFP4", 64, 36},
}};

struct KnownName {
  std::uint32_t number;
  std::string_view name;
};

// Types that other programs write and this version cannot read, for the error's text.
constexpr std::array<KnownName, 14> kUnsupported{{
    {9, "Q8_1"},
    {15, "Q8_K"},
    {19, "IQ1_S"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
}};

}  // namespace

std::span<const TensorTypeTraits> tensor_types() {
  return kSupported;
}

const TensorTypeTraits* find_tensor_type(std::uint32_t number) {
  for (const auto& traits : kSupported)
    if (static_cast<std::uint32_t>(traits.type) == number) return &traits;
  return nullptr;
}

const TensorTypeTraits& traits_of(TensorType type) {
  const auto* traits = find_tensor_type(static_cast<std::uint32_t>(type));
  if (traits == nullptr) std::abort();  // a test checks that the table has every enumerator
  return *traits;
}

std::string tensor_type_name(std::uint32_t number) {
  if (const auto* traits = find_tensor_type(number)) return std::string(traits->name);
  for (const auto& known : kUnsupported)
    if (known.number == number) return std::string(known.name);
  return "type " + std::to_string(number);
}

std::string supported_tensor_types() {
  std::string names;
  for (const auto& traits : kSupported) {
    if (!names.empty()) names += ", ";
    names += traits.name;
  }
  return names;
}

}  // namespace millrace::engine
