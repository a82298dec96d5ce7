// tokenize_probe MODEL.gguf lets the Python tests drive the tokenizer. It reads one JSON request
// per line from stdin and writes one JSON answer per line to stdout.
//   {"text", "special", "parse", "plain"} -> {"tokens", "text", "stream"}
//   {"tokens"}                            -> {"text", "stream"}
// "special" and "parse" are the options add_special_tokens and parse_special, false by default.
// "plain" lists spans as pairs of byte offsets. The answer's "text" is detokenized from the tokens
// at once, "stream" one by one. An id outside the vocabulary gives {"error"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/gguf/file.hpp"
#include "engine/core/tokenizer/stream_decoder.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {
namespace {

using Json = nlohmann::json;

Json answer(const Tokenizer& tokenizer, const Json& request) {
  const bool special = request.value("special", false);
  Tokens tokens;
  Json result;
  if (request.contains("tokens")) {
    tokens = request["tokens"].get<Tokens>();
  } else {
    TextSpans plain;
    for (const Json& span : request.value("plain", Json::array()))
      plain.push_back({span[0], span[1]});
    tokens = tokenizer.tokenize(request["text"].get_ref<const std::string&>(),
                                {.add_special_tokens = special,
                                 .parse_special = request.value("parse", false),
                                 .plain = plain});
    result["tokens"] = tokens;
  }
  auto text = tokenizer.detokenize(tokens, {.render_special = true});
  if (!text) return {{"error", text.error().text()}};
  StreamDecoder decoder(tokenizer, {.render_special = true});
  std::string streamed;
  for (const TokenId token : tokens) streamed += decoder.push(token).value();
  streamed += decoder.finish();
  result["text"] = *text;
  result["stream"] = streamed;
  return result;
}

int run(const std::string& path) {
  auto file = GgufFile::open(path);
  if (!file) return std::cerr << file.error().text() << '\n', 1;
  auto tokenizer = Tokenizer::load(file->metadata());
  if (!tokenizer) return std::cerr << tokenizer.error().text() << '\n', 1;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(*tokenizer, Json::parse(line)).dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace millrace::engine

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: tokenize_probe MODEL.gguf\n", 2;
  return millrace::engine::run(arguments[1]);
}
