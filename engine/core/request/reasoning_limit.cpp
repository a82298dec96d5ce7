#include "engine/core/request/reasoning_limit.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::engine {
namespace {

// Ends a message in gpt-oss's format (harmony) and begins the answer. Channels whose markers this
// text is not made of are unknown here.
constexpr std::string_view harmony_answer = "<|end|><|start|>assistant<|channel|>final<|message|>";

bool of_harmony(const std::vector<Marker>& markers) {
  bool ends_messages = false;
  for (const Marker& marker : markers) {
    if (marker.part != MarkedPart::channel) continue;
    if (!harmony_answer.contains(marker.open) || !harmony_answer.ends_with(marker.close)) {
      return false;
    }
    ends_messages = ends_messages || harmony_answer.starts_with(marker.open);
  }
  return ends_messages;
}

bool has(const std::vector<Marker>& markers, MarkedPart part) {
  return std::ranges::any_of(markers, [&](const Marker& m) { return m.part == part; });
}

std::unexpected<Error> refused(std::uint32_t tokens, const std::string& but, const char* hint) {
  return fail(Code::invalid_value,
              "max_reasoning_tokens is " + std::to_string(tokens) + ", but " + but, hint);
}

}  // namespace

Status add_reasoning_limit(std::uint32_t tokens, const Tokenizer& tokenizer, StopRules& rules) {
  const std::vector<Marker> markers = rules.parts ? rules.parts->markers() : std::vector<Marker>();
  const bool channels = has(markers, MarkedPart::channel);
  if (!channels && !has(markers, MarkedPart::reasoning)) {
    return refused(tokens, "no markers set reasoning apart from the answer",
                   "ask for the model's markers with markers \"reasoning\", or list those that it "
                   "writes; or leave max_reasoning_tokens out");
  }
  if (channels && !of_harmony(markers)) {
    return refused(tokens, "the listed channels are not those of gpt-oss, so nothing can end them",
                   "leave markers out, or list markers of reasoning");
  }
  TokenizeOptions options;
  options.add_special_tokens = false;
  options.parse_special = true;
  ReasoningLimit limit;
  limit.tokens = tokens;
  if (channels) limit.message_closing = tokenizer.tokenize(harmony_answer, options);
  Tokens forced = limit.message_closing;
  for (const Marker& marker : markers) {
    Tokens& closing = limit.closings.emplace_back();
    if (marker.part != MarkedPart::reasoning) continue;
    if (marker.close.empty()) {
      return refused(tokens, "no marker is known that ends what \"" + marker.open + "\" opens",
                     "list the markers of reasoning with a close");
    }
    closing = tokenizer.tokenize(marker.close, options);
    if (closing.empty()) {
      return refused(tokens, "the close of \"" + marker.open + "\" has no tokens",
                     "list the markers of reasoning with another close");
    }
    forced.insert(forced.end(), closing.begin(), closing.end());
  }
  const auto stop =
      std::ranges::find_if(forced, [&](TokenId id) { return rules.is_stop_token(id); });
  if (rules.min_tokens > 0 && stop != forced.end()) {
    return refused(tokens,
                   "token " + std::to_string(*stop) +
                       ", which ends the reasoning, ends the text, too, and min_tokens is " +
                       std::to_string(rules.min_tokens),
                   "leave min_tokens or that stop token out");
  }
  rules.reasoning_limit = std::move(limit);
  return {};
}

}  // namespace millrace::engine
