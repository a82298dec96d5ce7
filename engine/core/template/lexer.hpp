#pragma once
// Template source to tokens, with the whitespace rules that transformers sets for chat templates:
// trim_blocks (the newline after a block or comment goes), lstrip_blocks (blanks before a block or
// comment that begins its line go), `-` and `+` marks, and one final newline dropped.
// Errors: template_error for source that is not a template. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::chat_template {

struct Position {  // both from 1; columns count characters
  std::uint32_t line = 1, column = 1;
};
// "the chat template, line 3, column 7: what"
Error error_at(Code code, Position at, std::string_view what, std::string hint = {});
// "...: what is not supported"
Error unsupported_at(Position at, std::string_view what);

enum class TokenType : std::uint8_t {
  data,  // text outside of any tag
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,  // `text` has the escapes resolved
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
