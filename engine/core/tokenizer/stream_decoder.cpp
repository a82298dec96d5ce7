#include "engine/core/tokenizer/stream_decoder.hpp"

#include "schemas/base/utf8.hpp"

namespace millrace::engine {

Result<std::string> StreamDecoder::push(TokenId token, bool literal) {
  if (token >= tokenizer_->vocabulary_size())
    return fail(Code::invalid_token,
                "token " + std::to_string(token) + " lies outside the vocabulary of " +
                    std::to_string(tokenizer_->vocabulary_size()) + " tokens",
                "use ids of this model's tokenizer (millrace tokenize)");
  auto options = options_;
  options.render_special = options.render_special || literal;
  const auto bytes = tokenizer_->text_of(token, options, in_text_);
  if (bytes.empty()) return std::string();
  held_ += bytes;
  const auto complete = utf8_complete_prefix(held_);
  auto text = utf8_replace_invalid(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  auto text = utf8_replace_invalid(held_);
  held_.clear();
  in_text_ = false;
  return text;
}

}  // namespace millrace::engine
