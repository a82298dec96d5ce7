#include "engine/core/tokenizer/pre_tokenizer.hpp"

#include <utility>

namespace millrace::engine {

Result<PreTokenizer> PreTokenizer::compile(std::span<const SplitRule> rules) {
  PreTokenizer result;
  for (const auto& rule : rules) {
    MILLRACE_ASSIGN(auto pattern, Pattern::compile(rule.pattern, rule.reading));
    result.stages_.push_back({std::move(pattern), {}});
    if (rule.skip.empty()) continue;
    MILLRACE_ASSIGN(auto skip, Pattern::compile(rule.skip, rule.reading));
    result.stages_.back().skip.push_back(std::move(skip));
  }
  return result;
}

// Appends the ends of the words of text[begin, ...), a word of the stage before.
void PreTokenizer::Stage::split(std::string_view text, std::size_t begin,
                                std::vector<std::size_t>& ends) const {
  std::size_t word = begin;  // where the text since the last match begins
  for (std::size_t at = begin; at < text.size();) {
    const auto end = pattern.match(text, at);
    if (end != at) {
      if (word != at) ends.push_back(at);
      ends.push_back(at = word = end);
      continue;
    }
    const auto passed = skip.empty() ? at : skip[0].match(text, at);
    at = passed != at ? passed : pattern.next(text, at);
  }
  if (word != text.size()) ends.push_back(text.size());
}

void PreTokenizer::split(std::string_view text, std::vector<std::size_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  ends.push_back(text.size());
  std::vector<std::size_t> before;
  for (const auto& stage : stages_) {
    before.swap(ends);
    ends.clear();
    std::size_t begin = 0;
    for (const auto end : before) {
      stage.split(text.substr(0, end), begin, ends);
      begin = end;
    }
  }
}

}  // namespace millrace::engine
