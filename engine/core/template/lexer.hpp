#pragma once
// Turns a template's source into tokens. It applies the whitespace rules that transformers sets for
// chat templates: trim_blocks (drops the newline after a block or comment), lstrip_blocks (drops
// the whitespace before a block or comment that begins its line), `-` and `+` marks, and drops one
// final newline. Errors: template_error for source that is not a template, template_unsupported.
// Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::chat_template {

// Line and column count from 1. Columns count characters.
struct Position {
  std::uint32_t line = 1, column = 1;
};
// The message is "the chat template, line 3, column 7: `what`".
Error error_at(Code code, Position at, std::string_view what, std::string hint = {});
// The same with template_unsupported and "`what` is not supported".
Error unsupported_at(Position at, std::string_view what);

enum class TokenType : std::uint8_t {
  data,  // text outside any tag
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,  // `text` is without quotes and escapes
  integer,
  real,
  symbol,  // operators and brackets
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;
  Position at;

  bool is_symbol(std::string_view s) const { return type == TokenType::symbol && text == s; }
  bool is_name(std::string_view s) const { return type == TokenType::name && text == s; }
};

Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace millrace::chat_template
