#include "engine/core/request/markers.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::engine {
namespace {

struct Known {
  MarkedPart part;
  std::string_view open, close;
};

// Sources, by model family: Qwen3, DeepSeek R1, SmolLM3, Nemotron (think); Magistral ([THINK]);
// Qwen2.5 and later, Hermes (tool_call); Mistral ([TOOL_CALLS]); Llama 3.1 (python_tag); Phi-4
// mini; Granite 3; DeepSeek V3.
constexpr auto known = std::to_array<Known>({
    {MarkedPart::reasoning, "<think>", "</think>"},
    {MarkedPart::reasoning, "[THINK]", "[/THINK]"},
    {MarkedPart::tool_call, "<tool_call>", "</tool_call>"},
    {MarkedPart::tool_call, "[TOOL_CALLS]", ""},
    {MarkedPart::tool_call, "<|python_tag|>", ""},
    {MarkedPart::tool_call, "<|tool_call|>", "<|/tool_call|>"},
    {MarkedPart::tool_call, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
});

// Number of tokens at a prompt's end that may hold a marker and the line ends after it.
constexpr std::size_t tail_tokens = 16;

std::optional<TokenId> token_of(std::string_view literal, const Tokenizer& tokenizer) {
  TokenizeOptions options;
  options.parse_special = true;
  const Tokens ids = tokenizer.tokenize(literal, options);
  if (ids.size() != 1 || tokenizer.token_bytes(ids.front()) != literal) return std::nullopt;
  return ids.front();
}

std::string tail_of(const Tokens& prompt, const Tokenizer& tokenizer) {
  std::string text;
  const std::size_t count = std::min(prompt.size(), tail_tokens);
  for (std::size_t i = prompt.size() - count; i < prompt.size(); ++i) {
    text += tokenizer.token_bytes(prompt[i]);
  }
  return text;
}

}  // namespace

std::vector<Marker> known_markers(const Tokenizer& tokenizer) {
  std::vector<Marker> out;
  for (const Known& marker : known) {
    if (!token_of(marker.open, tokenizer)) continue;
    // If the vocabulary lacks the closing marker, the part goes on to the end (Granite).
    const bool closes = token_of(marker.close, tokenizer).has_value();
    out.push_back({marker.part, std::string(marker.open),
                   closes ? std::string(marker.close) : std::string()});
  }
  return out;
}

void add_markers(const MarkerRequest& request, const Tokens& prompt, const Tokenizer& tokenizer,
                 StopRules& rules) {
  std::vector<Marker> markers = request.known ? known_markers(tokenizer) : request.list;
  if (markers.empty()) return;
  for (const Marker& marker : markers) {
    for (const std::string& literal : {marker.open, marker.close}) {
      const auto id = token_of(literal, tokenizer);
      if (id && tokenizer.is_special(*id)) rules.marker_ids.push_back(*id);
    }
  }
  std::sort(rules.marker_ids.begin(), rules.marker_ids.end());
  const std::int32_t inside = open_marker_at_end(markers, tail_of(prompt, tokenizer));
  rules.parts = std::make_shared<const PartRules>(std::move(markers), inside);
}

}  // namespace millrace::engine
