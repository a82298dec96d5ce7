#pragma once
// What the host keeps of a model file, which is closed after loading. Errors: those of the
// tokenizer; why a model has no chat template, or a suggestion that cannot be used, is kept.
// Thread safety: plain values.
#include <vector>

#include "engine/core/gguf/metadata.hpp"
#include "engine/core/request/prepare.hpp"
#include "engine/core/request/suggested_sampling.hpp"

namespace millrace::engine {

struct HostModel {
  Tokenizer tokenizer;
  Result<ChatTemplate> chat_template;
  std::vector<Marker> markers;
  Result<SuggestedSampling> suggested_sampling;

  // Points to this object. What the model and its device decide is left out.
  RequestContext context() const;
};

Result<HostModel> load_host(const Metadata& metadata);

}  // namespace millrace::engine
