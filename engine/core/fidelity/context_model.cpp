#include "engine/core/fidelity/context_model.hpp"

#include <string>
#include <utility>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/kv_shape.hpp"

namespace millrace::engine {

Result<std::unique_ptr<Model>> load_for_context(Device& device, const GgufFile& file,
                                                ModelOptions options,
                                                std::uint32_t context_tokens) {
  constexpr const char* cure = "give a smaller --context";
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  MILLRACE_ASSIGN(const KvPolicy policy, parse_kv_policy(options.kv));
  // Which layers are protected is known only after loading, but no layer takes more than protected.
  const std::vector<KvCodecs> layers(spec.layer_count(), policy.codecs.unpacked());
  const CacheShape cache = cache_shape(spec, layers);
  const std::uint32_t pages = (context_tokens + kv_page_tokens - 1) / kv_page_tokens;
  // One sequence has at most three states, two of them for known beginnings. Windowed groups hold
  // the whole context, because plans give them the pages of group 0.
  options.kv_load = {1, context_tokens, context_tokens};
  options.kv_bytes = pages * cache.page_bytes() + 3 * cache.state_bytes();
  options.smaller_kv = cure;
  MILLRACE_ASSIGN(std::unique_ptr<Model> model, Model::load(device, file, options));
  if (model->info().page_count < pages) {
    return fail(Code::kv_exceeded,
                "the device's largest allocation holds " +
                    std::to_string(model->info().page_count * kv_page_tokens) +
                    " tokens of KV, a context has " + std::to_string(context_tokens),
                cure);
  }
  return model;
}

}  // namespace millrace::engine
