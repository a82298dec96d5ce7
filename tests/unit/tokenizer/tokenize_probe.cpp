// tokenize_probe MODEL.gguf lets the Python tests drive the tokenizer. It reads one JSON request
// per line from stdin and writes one JSON answer per line to stdout.
//   {"text", "special", "parse", "plain"} -> {"tokens", "text", "stream"}
//   {"tokens"}                            -> {"text", "stream"}
// "special" and "parse" are the options add_special_tokens and parse_special, false by default.
// "plain" lists spans as pairs of byte offsets. The answer's "text" is detokenized from the tokens
// at once, "stream" one by one; with "continues" they keep the space that begins a text. An id
// outside the vocabulary gives {"error"}.
//
// tokenize_probe --split NAME cuts texts into words by the rules of a pre-tokenizer. It reads one
// JSON string per line and writes the words' ends, in bytes. --names lists the pre-tokenizers, each
// with a number that those with the same rules share, and whether a word in the vocabulary is one
// token.
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/core/hub/open_model.hpp"
#include "engine/core/tokenizer/pre_tokenizer.hpp"
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
  const DetokenizeOptions options{.render_special = true,
                                  .drop_space_prefix = !request.value("continues", false)};
  auto text = tokenizer.detokenize(tokens, options);
  if (!text) return {{"error", text.error().text()}};
  StreamDecoder decoder(tokenizer, options);
  std::string streamed;
  for (const TokenId token : tokens) streamed += decoder.push(token).value();
  streamed += decoder.finish();
  result["text"] = *text;
  result["stream"] = streamed;
  return result;
}

int run(const std::string& path) {
  auto file = open_model(path);
  if (!file) return std::cerr << file.error().text() << '\n', 1;
  auto tokenizer = Tokenizer::load(file->metadata());
  if (!tokenizer) return std::cerr << tokenizer.error().text() << '\n', 1;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(*tokenizer, Json::parse(line)).dump() << '\n';
  return 0;
}

int split(const std::string& name) {
  const auto* row = find_pre_tokenizer(name);
  if (row == nullptr) return std::cerr << "no pre-tokenizer " << name << '\n', 1;
  auto pre_tokenizer = PreTokenizer::compile(row->rules);
  if (!pre_tokenizer) return std::cerr << pre_tokenizer.error().text() << '\n', 1;
  std::vector<std::size_t> ends;
  for (std::string line; std::getline(std::cin, line);) {
    pre_tokenizer->split(Json::parse(line).get_ref<const std::string&>(), ends);
    std::cout << Json(ends).dump() << '\n';
  }
  return 0;
}

int names() {
  std::istringstream list(supported_pre_tokenizers());
  for (std::string name; std::getline(list >> std::ws, name, ',');) {
    const auto* row = find_pre_tokenizer(name);
    const auto rules = reinterpret_cast<std::uintptr_t>(row->rules.data());
    std::cout << Json({name, rules, row->whole_words}).dump() << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace millrace::engine

int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "";
  if (count == 2 && first == "--names") return millrace::engine::names();
  if (count == 3 && first == "--split") return millrace::engine::split(arguments[2]);
  if (count == 2) return millrace::engine::run(first);
  return std::cerr << "usage: tokenize_probe MODEL | --split NAME | --names\n", 2;
}
