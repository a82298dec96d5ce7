#include "engine/core/fidelity/contexts.hpp"

#include <algorithm>
#include <string>

namespace millrace::engine {

Result<FidelityContexts> cut_contexts(std::span<const TokenId> tokens, const CutOptions& options,
                                      std::uint32_t vocabulary) {
  if (options.size < least_context_tokens || options.size <= options.prefix.size()) {
    return fail(Code::invalid_value,
                "a context of " + std::to_string(options.size) + " tokens has none to score",
                "give contexts of some hundred tokens");
  }
  const auto outside = std::ranges::find_if(tokens, [&](TokenId id) { return id >= vocabulary; });
  if (outside != tokens.end()) {
    return fail(Code::invalid_token,
                "token " + std::to_string(*outside) + " at position " +
                    std::to_string(outside - tokens.begin()) + " lies outside the vocabulary of " +
                    std::to_string(vocabulary),
                "use ids of this model's tokenizer");
  }
  const std::size_t each = options.size - options.prefix.size();
  std::size_t count = tokens.size() / each;
  if (count == 0) {
    return fail(Code::invalid_value,
                "the text has " + std::to_string(tokens.size()) +
                    " tokens, too few for one context of " + std::to_string(options.size),
                "give a longer text or a smaller --context");
  }
  if (options.most > 0) count = std::min<std::size_t>(count, options.most);
  FidelityContexts out;
  out.size = options.size;
  out.first = options.all_scored ? 0 : options.size / 2;
  out.tokens.reserve(count * options.size);
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = tokens.subspan(i * each, each);
    out.tokens.insert(out.tokens.end(), options.prefix.begin(), options.prefix.end());
    out.tokens.insert(out.tokens.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace millrace::engine
