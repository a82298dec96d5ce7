#include "engine/core/host_model.hpp"

#include <string_view>
#include <utility>

#include "engine/core/request/markers.hpp"

namespace millrace::engine {

Result<HostModel> load_host(const Metadata& metadata) {
  MILLRACE_ASSIGN(Tokenizer tokenizer, Tokenizer::load(metadata));
  const auto source = metadata.find<std::string_view>("tokenizer.chat_template");
  const std::string_view text = source ? source->value_or("") : "";
  auto chat_template =
      source ? ChatTemplate::parse(text) : Result<ChatTemplate>(fail(source.error()));
  auto markers = known_markers(tokenizer, text);
  return HostModel{std::move(tokenizer), std::move(chat_template), std::move(markers),
                   suggested_sampling(metadata)};
}

RequestContext HostModel::context() const {
  RequestContext out;
  out.tokenizer = &tokenizer;
  out.chat_template = &chat_template;
  out.vocabulary = tokenizer.vocabulary_size();
  out.markers = markers;
  if (suggested_sampling) {
    out.suggested_sampling = *suggested_sampling;
  } else {
    out.suggested_sampling_error = suggested_sampling.error().message;
  }
  return out;
}

}  // namespace millrace::engine
