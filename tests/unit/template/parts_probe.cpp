// Splits answers as the engine does, for the Python tests: the model's known markers by its
// template and its special tokens, the part that the prompt leaves open, a limit of reasoning. It
// reads one JSON request per line from stdin and writes one JSON answer per line to stdout:
//   {"template", "prompt", "special", "answer", "limit"} -> {"text", "reasoning", "forced"}; or
//   {"message"}
// The vocabulary is the bytes and the literals of `special`. The model draws the tokens of
// `answer`; `forced` is the text of those that the limit puts between them.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/request/markers.hpp"
#include "engine/core/request/reasoning_limit.hpp"
#include "engine/core/tokenizer/stream_decoder.hpp"
#include "tests/unit/tokenizer/support.hpp"

namespace {

using json = nlohmann::ordered_json;
using namespace millrace;
using namespace millrace::engine;

constexpr std::int32_t control = 3;

Result<json> split(const json& request) {
  millrace::testing::TestVocabulary words;
  for (const json& literal : request.at("special")) words.add(literal, control);
  const Tokenizer tokenizer = millrace::testing::load_good(words.builder());
  const auto tokens_of = [&](const json& text) {
    TokenizeOptions options;
    options.parse_special = true;
    return tokenizer.tokenize(text.get<std::string>(), options);
  };
  GenerationRequest chat;
  chat.prompt = Chat();
  StopRules rules({}, {}, 0, 1'000'000);
  const auto known = known_markers(tokenizer, request.at("template").get<std::string>());
  add_markers(wanted_markers(chat, known), tokens_of(request.at("prompt")), tokenizer, rules);
  std::optional<ReasoningBudget> budget;
  if (request.contains("limit")) {
    MILLRACE_TRY(add_reasoning_limit(request.at("limit"), tokenizer, rules));
    budget.emplace(*rules.reasoning_limit, rules.parts);
  }
  const auto shared = std::make_shared<const StopRules>(rules);
  StopMachine stop(shared);
  StreamDecoder decoder(tokenizer, {});
  const Tokens answer = tokens_of(request.at("answer"));
  std::string forced_text;
  for (std::size_t next = 0; next < answer.size() || (budget && budget->forced());) {
    const auto forced = budget ? budget->forced() : std::nullopt;
    const TokenId id = forced ? *forced : answer[next++];
    MILLRACE_ASSIGN(const std::string piece, decoder.push(id, rules.is_marker(id)));
    if (forced) forced_text += piece;
    if (budget) budget->push(piece);
    stop.push(id, piece);
  }
  stop.close(decoder.finish());
  json out = {{"text", stop.text()}, {"forced", forced_text}};
  if (stop.parts() && stop.parts()->reasoning()) out["reasoning"] = *stop.parts()->reasoning();
  return out;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto told = split(json::parse(line));
    const json answer = told ? *told : json{{"message", told.error().message}};
    std::cout << answer.dump() << '\n' << std::flush;
  }
  return 0;
}
