// Reads any bytes as the weights of a model folder: parses the header, decodes quantized matrices,
// names the tensors as those of a class of models, and reads their rows.
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/hub/decode.hpp"
#include "engine/core/hub/safetensors.hpp"
#include "engine/core/hub/tensor_names.hpp"

namespace millrace::engine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_tensors(const HubTensors& tensors, const char* config, const char* class_name) {
  const auto settings = Settings::parse(config, "config.json");
  auto decoded = decode_tensors(tensors, *settings, "input");
  if (!decoded) return;
  const NamedSizes sizes{.layers = 2, .heads = 4, .kv_heads = 2, .experts = 4};
  auto pieces = name_tensors(*find_hub_family(class_name), sizes, decoded->sources, "input");
  if (!pieces) return;
  ModelPieces model;
  model.tensors = *std::move(pieces);
  for (const ModelPieces::Piece& piece : model.tensors) {
    Tensor tensor;
    tensor.type = piece.type;
    tensor.rank = static_cast<std::uint32_t>(piece.shape.size());
    std::ranges::copy(piece.shape, tensor.shape.begin());
    tensor.made = piece.rows.get();
    if (tensor.made == nullptr) tensor.data = piece.data;
    if (tensor.elements() > 1 << 16) continue;
    std::vector<float> out(tensor.elements());
    require(dequantize_rows(tensor, 0, tensor.rows(), out).has_value());
  }
}

}  // namespace
}  // namespace millrace::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::engine;
  // A copy of its own size, so that a read beyond its end is seen.
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> file(bytes, bytes + size);
  const auto tensors = parse_safetensors(file, "input");
  if (!tensors) return 0;
  read_tensors(*tensors, "{}", "MixtralForCausalLM");
  read_tensors(*tensors, R"({"quantization_config":{"quant_method":"mxfp4"}})",
               "GptOssForCausalLM");
  for (const char* const method : {"gptq", "awq"}) {
    const std::string config = R"({"quantization_config":{"quant_method":")" + std::string(method) +
                               R"(","bits":4,"group_size":32}})";
    read_tensors(*tensors, config.c_str(), "LlamaForCausalLM");
  }
  read_tensors(*tensors,
               R"({"quantization_config":{"quant_method":"compressed-tensors",
                   "format":"pack-quantized","config_groups":{"g":{"weights":
                   {"num_bits":4,"group_size":32}}}}})",
               "Gemma2ForCausalLM");
  return 0;
}
