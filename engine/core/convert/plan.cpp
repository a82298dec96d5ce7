#include <algorithm>
#include <array>

#include "engine/core/convert/convert.hpp"
#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

constexpr std::array<std::string_view, 3> kSplitKeys{"split.no", "split.count",
                                                     "split.tensors.count"};

// Keys whose values say what a file's tensors are. Where they are absent they come last.
struct OwnKey {
  std::string_view key;
  std::uint32_t value;
};

void add_metadata(const Metadata& metadata, const FileType& type, GgufHead& head) {
  constexpr std::uint32_t quantization_version = 2;  // of the layout of quantized blocks
  const OwnKey own[] = {{"general.quantization_version", quantization_version},
                        {"general.file_type", static_cast<std::uint32_t>(type.mix)}};
  for (const std::string_view key : metadata.keys()) {
    const auto found = std::ranges::find(own, key, &OwnKey::key);
    if (found != std::end(own))
      head.add(key, found->value);
    else if (std::ranges::find(kSplitKeys, key) == kSplitKeys.end())
      head.add(key, *metadata.raw(key));
  }
  for (const OwnKey& each : own)
    if (!metadata.contains(each.key)) head.add(each.key, each.value);
}

std::string name_of(TensorType type) {
  return std::string(traits_of(type).name);
}

Status check_change(const GgufFile& file, const Tensor& tensor, TensorType to,
                    bool allow_requantize) {
  if (tensor.type == to || allow_requantize) return {};
  const bool decoded = tensor.made != nullptr && !file.quantized_by().empty();
  if (decoded && find_quant_traits(to) != nullptr) {
    return fail(Code::conflict,
                file.source() + ": tensor '" + printable(tensor.name) +
                    "' comes from a model quantized by " + printable(file.quantized_by()) +
                    " and would become " + name_of(to),
                "convert the model's original folder, of F32, F16 or BF16, or lose quality twice "
                "with --allow-requantize");
  }
  if (find_quant_traits(tensor.type) == nullptr) return {};
  return fail(Code::conflict,
              file.source() + ": tensor '" + printable(tensor.name) + "' is quantized as " +
                  name_of(tensor.type) + " already and would become " + name_of(to),
              "convert the model's original file, of F32, F16 or BF16, or lose quality twice with "
              "--allow-requantize");
}

}  // namespace

Result<ConvertPlan> plan_conversion(const GgufFile& file, const FileType& type,
                                    bool allow_requantize) {
  ConvertPlan plan;
  MILLRACE_ASSIGN(plan.types, choose_types(file, type));
  GgufHead head;
  add_metadata(file.metadata(), type, head);
  for (std::size_t i = 0; i < plan.types.size(); ++i) {
    const Tensor& tensor = file.tensors()[i];
    MILLRACE_TRY(check_change(file, tensor, plan.types[i], allow_requantize));
    head.add_tensor(tensor.name, plan.types[i], {tensor.shape.data(), tensor.rank});
  }
  plan.layout = head.finish(file.alignment());
  return plan;
}

}  // namespace millrace::engine
