#pragma once
// Tokens to syntax tree. Errors: template_error where the source is not a template,
// template_unsupported, naming the construct, where Jinja knows it and we do not; both with line
// and column. Thread safety: pure function.
#include <set>
#include <string>

#include "engine/core/template/ast.hpp"

namespace millrace::chat_template {

struct Tree {
  Body body;
  std::set<std::string, std::less<>> strings;  // every string literal
};

Result<Tree> parse(std::string_view source);

}  // namespace millrace::chat_template
