#pragma once
// Builds the syntax tree of a template. Errors, with line and column: template_error if the source
// is not a template; template_unsupported for a construct outside the subset, with its name.
// Thread safety: a pure function.
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
