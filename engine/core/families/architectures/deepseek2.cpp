#include <string>

#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/temperature.hpp"

namespace millrace::engine::families {
namespace {

// Files without a router's kind have a sigmoid if a bias chooses the experts. DeepSeek 2 ranks a
// group by its best expert, and not by its best two, as all later models do.
Status finish(Keys& keys, ModelSpec& spec) {
  const bool stated = keys.contains("expert_gating_func");
  const bool by_best = spec.architecture == "deepseek2";
  // Converters write these for dense models, too.
  for (const char* name :
       {"expert_feed_forward_length", "expert_shared_count", "leading_dense_block_count",
        "expert_weights_scale", "expert_weights_norm", "expert_gating_func"}) {
    keys.ignore(name);
  }
  for (LayerSpec& layer : spec.layers) {
    if (!layer.feed_forward.experts) continue;
    ExpertsSpec& experts = *layer.feed_forward.experts;
    if (!stated && experts.selection_bias) experts.router = Router::sigmoid;
    if (by_best && experts.groups > 1 && !experts.selection_bias) {
      return unsupported(keys.file(), keys.full("expert_group_count") + " = " +
                                          std::to_string(experts.groups) +
                                          " without exp_probs_b: groups that are ranked by their "
                                          "best expert alone are not supported");
    }
  }
  return read_temperature(keys, spec);
}

}  // namespace

// DeepSeek V2, V3 and R1, Kimi K2, GLM 4.7 Flash, Mistral Large 3.
extern const Family deepseek2{
    .architecture = "deepseek2",
    .latent = true,
    .mixture = Mixture::optional,
    .weights_normalized = false,
    .finish = finish,
};

// Mistral Small 4.
extern const Family mistral4{
    .architecture = "mistral4",
    .latent = true,
    .mixture = Mixture::optional,
    .weights_normalized = false,
    .finish = finish,
};

}  // namespace millrace::engine::families
