// tokenizer_bench MODEL.gguf TEXT [MEGABYTES]: measures how fast the model file opens and its
// tokenizer loads, and how many megabytes of text a second it turns into ids and back. It uses one
// thread, takes the best of five runs and prints one JSON object. bench/tokenizer/compare compares
// the figures with those of PyPI `tokenizers`.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/gguf/file.hpp"
#include "engine/core/tokenizer/stream_decoder.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

template <class Work>
double best_seconds(Work work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

int fail_with(const std::string& message) {
  std::cerr << message << '\n';
  return 1;
}

int run(const std::string& model, const std::string& text_path, std::size_t megabytes) {
  std::ifstream input(text_path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(input), {});
  text.resize(std::min(text.size(), megabytes * 1'000'000));
  text.resize(utf8_valid_prefix(text));
  if (text.empty())
    return fail_with(text_path +
                     " does not begin with UTF-8 text, or cannot be read: give another file");
  auto file = GgufFile::open(model);
  if (!file) return fail_with(file.error().text());
  auto tokenizer = Tokenizer::load(file->metadata());
  if (!tokenizer) return fail_with(tokenizer.error().text());

  const double open_s = best_seconds([&] { (void)GgufFile::open(model); });
  const double load_s = best_seconds([&] { (void)Tokenizer::load(file->metadata()); });
  Tokens tokens;
  const double tokenize_s = best_seconds([&] { tokens = tokenizer->tokenize(text, {}); });
  const double detokenize_s = best_seconds([&] { (void)tokenizer->detokenize(tokens, {}); });
  const double stream_s = best_seconds([&] {
    StreamDecoder decoder(*tokenizer, {});
    for (const auto token : tokens) (void)decoder.push(token);
  });
  const double size = static_cast<double>(text.size()) / 1e6;
  const nlohmann::json result{{"text_bytes", text.size()},
                              {"tokens", tokens.size()},
                              {"open_ms", open_s * 1e3},
                              {"load_ms", load_s * 1e3},
                              {"tokenize_mb_per_s", size / tokenize_s},
                              {"detokenize_mb_per_s", size / detokenize_s},
                              {"stream_mb_per_s", size / stream_s}};
  std::cout << result.dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace millrace::engine

int main(int count, char** arguments) {
  if (count < 3)
    return millrace::engine::fail_with("usage: tokenizer_bench MODEL.gguf TEXT [MEGABYTES]");
  const auto megabytes = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 8ul;
  return millrace::engine::run(arguments[1], arguments[2], megabytes);
}
