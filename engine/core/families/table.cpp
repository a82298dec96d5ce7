#include <algorithm>
#include <array>

#include "engine/core/families/family.hpp"

namespace millrace::engine {
namespace families {

// In architectures/. Families that differ in little share a source.
extern const Family cohere2, deepseek2, ernie4_5, ernie4_5_moe, falcon_h1, gemma2, gemma3, gemma4,
    glm4, glm4moe, gpt_oss, granite, granitehybrid, granitemoe, hunyuan_dense, lfm2, lfm2moe, llama,
    mamba2, minimax_m2, mistral3, mistral4, nemotron_h, nemotron_h_moe, olmo2, phi3, qwen2,
    qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, seed_oss, smollm3;

constexpr auto all = std::to_array<const Family*>(
    {&cohere2,       &deepseek2,  &ernie4_5,      &ernie4_5_moe, &falcon_h1,  &gemma2,
     &gemma3,        &gemma4,     &glm4,          &glm4moe,      &gpt_oss,    &granite,
     &granitehybrid, &granitemoe, &hunyuan_dense, &lfm2,         &lfm2moe,    &llama,
     &mamba2,        &minimax_m2, &mistral3,      &mistral4,     &nemotron_h, &nemotron_h_moe,
     &olmo2,         &phi3,       &qwen2,         &qwen2moe,     &qwen3,      &qwen35,
     &qwen35moe,     &qwen3moe,   &qwen3next,     &seed_oss,     &smollm3});

}  // namespace families

std::span<const Family* const> all_families() {
  return families::all;
}

const Family* find_family(std::string_view architecture) {
  const auto* const found = std::ranges::find(families::all, architecture, &Family::architecture);
  return found == families::all.end() ? nullptr : *found;
}

}  // namespace millrace::engine
