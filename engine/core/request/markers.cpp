#include "engine/core/request/markers.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace millrace::engine {
namespace {

struct Known {
  MarkedPart part;
  std::string_view open, close;
  std::string_view token = open;  // what the vocabulary or the chat template holds
};

// A model reasons before it answers. Later openings are quotations, so these markers count at the
// start only. Sources, by model family: Qwen3, DeepSeek R1, SmolLM3, Nemotron, GLM, MiniMax
// (think); Magistral ([THINK]); Seed-OSS (seed:think); Command A (START_THINKING); Gemma 4
// (channel); Qwen2.5 and later, Hermes (tool_call); Mistral ([TOOL_CALLS]); Llama 3.1 (python_tag);
// Phi-4 mini; Granite 3; DeepSeek V3.
constexpr auto known = std::to_array<Known>({
    {MarkedPart::reasoning, "<think>", "</think>"},
    {MarkedPart::reasoning, "[THINK]", "[/THINK]"},
    {MarkedPart::reasoning, "<seed:think>", "</seed:think>"},
    {MarkedPart::reasoning, "<|START_THINKING|>", "<|END_THINKING|>"},
    {MarkedPart::reasoning, "<|channel>thought\n", "<channel|>", "<|channel>"},
    {MarkedPart::tool_call, "<tool_call>", "</tool_call>"},
    {MarkedPart::tool_call, "<|tool_call>", "<tool_call|>"},
    {MarkedPart::tool_call, "[TOOL_CALLS]", ""},
    {MarkedPart::tool_call, "<|python_tag|>", ""},
    {MarkedPart::tool_call, "<|tool_call|>", "<|/tool_call|>"},
    {MarkedPart::tool_call, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
});

// The tokens of gpt-oss's message format (harmony). Each of the first three begins a header, and
// the last ends it:
//   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
constexpr auto harmony =
    std::to_array<std::string_view>({"<|start|>", "<|channel|>", "<|end|>", "<|message|>"});
// Stands inside a header, before the type of a call's arguments.
constexpr std::string_view harmony_type = "<|constrain|>";

// Number of tokens at a prompt's end that may hold a marker and the line ends after it.
constexpr std::size_t tail_tokens = 16;

std::optional<TokenId> token_of(std::string_view literal, const Tokenizer& tokenizer) {
  TokenizeOptions options;
  options.parse_special = true;
  const Tokens ids = tokenizer.tokenize(literal, options);
  if (ids.size() != 1 || tokenizer.token_bytes(ids.front()) != literal) return std::nullopt;
  return ids.front();
}

// The special tokens that a literal holds.
Tokens special_tokens_of(std::string_view literal, const Tokenizer& tokenizer) {
  TokenizeOptions options;
  options.add_special_tokens = false;
  options.parse_special = true;
  Tokens ids = tokenizer.tokenize(literal, options);
  std::erase_if(ids, [&](TokenId id) { return !tokenizer.is_special(id); });
  return ids;
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

std::vector<Marker> known_markers(const Tokenizer& tokenizer, std::string_view chat_template) {
  const auto is_token = [&](std::string_view literal) {
    return token_of(literal, tokenizer).has_value();
  };
  const auto holds = [&](std::string_view literal) {
    return !literal.empty() && (is_token(literal) || chat_template.contains(literal));
  };
  std::vector<Marker> out;
  for (const Known& marker : known) {
    if (!holds(marker.token)) continue;
    // If the model does not know the closing marker, the part goes on to the end (Granite).
    out.push_back({marker.part, std::string(marker.open),
                   std::string(holds(marker.close) ? marker.close : std::string_view()),
                   marker.part == MarkedPart::reasoning});
  }
  if (!std::ranges::all_of(harmony, is_token)) return out;
  for (const std::string_view open : std::span(harmony).first(harmony.size() - 1)) {
    out.push_back({MarkedPart::channel, std::string(open), std::string(harmony.back())});
  }
  return out;
}

std::vector<Marker> wanted_markers(const GenerationRequest& request,
                                   const std::vector<Marker>& of_model) {
  const MarkerRequest& wanted = request.markers;
  if (!wanted.list.empty()) return wanted.list;
  const bool chat = std::holds_alternative<Chat>(request.prompt);
  const KnownMarkers which =
      wanted.known.value_or(chat ? KnownMarkers::reasoning : KnownMarkers::none);
  std::vector<Marker> out;
  for (const Marker& marker : of_model) {
    const bool counts = which == KnownMarkers::all ||
                        (which == KnownMarkers::reasoning && marker.part != MarkedPart::tool_call);
    if (counts) out.push_back(marker);
  }
  return out;
}

void add_markers(std::vector<Marker> markers, const Tokens& prompt, const Tokenizer& tokenizer,
                 StopRules& rules) {
  if (markers.empty()) return;
  const auto add = [&](std::string_view literal) {
    const Tokens ids = special_tokens_of(literal, tokenizer);
    rules.marker_ids.insert(rules.marker_ids.end(), ids.begin(), ids.end());
  };
  for (const Marker& marker : markers) {
    add(marker.open);
    add(marker.close);
    if (marker.part == MarkedPart::channel) add(harmony_type);
  }
  std::sort(rules.marker_ids.begin(), rules.marker_ids.end());
  const std::string tail = tail_of(prompt, tokenizer);
  const std::int32_t inside = open_marker_at_end(markers, tail);
  std::string header = header_at_end(markers, tail);
  rules.parts = std::make_shared<const PartRules>(std::move(markers), inside, std::move(header));
}

}  // namespace millrace::engine
