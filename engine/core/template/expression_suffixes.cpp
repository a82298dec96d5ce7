// Parses what follows a value in an expression: members, subscripts, calls, filters and tests.
#include "engine/core/template/builtins.hpp"
#include "engine/core/template/expression_parser.hpp"

namespace millrace::chat_template {

Result<ExprPtr> ExpressionParser::postfix(ExprPtr e) {
  for (;;) {
    MILLRACE_TRY(check_size());
    const Position at = now().at;
    if (skip_symbol(".")) {
      MILLRACE_ASSIGN(e, member(std::move(e), at));
    } else if (skip_symbol("[")) {
      MILLRACE_ASSIGN(ExprPtr key, subscript_key());
      MILLRACE_TRY(expect_symbol("]"));
      e = make(ExprKind::subscript, at, std::move(e), std::move(key));
    } else if (skip_symbol("(")) {
      MILLRACE_ASSIGN(e, call(std::move(e), at));
    } else {
      return e;
    }
  }
}

Result<ExprPtr> ExpressionParser::member(ExprPtr e, Position at) {
  if (now().type == TokenType::integer) {
    MILLRACE_ASSIGN(ExprPtr index, integer(make(ExprKind::constant, now().at)));
    return make(ExprKind::subscript, at, std::move(e), std::move(index));
  }
  MILLRACE_ASSIGN(std::string name, identifier("an attribute's name"));
  e = make(ExprKind::attribute, at, std::move(e));
  e->name = std::move(name);
  return e;
}

Result<ExprPtr> ExpressionParser::subscript_key() {
  const Position at = now().at;
  ExprPtr start;
  if (!now().is_symbol(":")) {
    MILLRACE_ASSIGN(start, expression());
    if (now().is_symbol(",")) return unsupported(now().at, "a subscript of several values");
    if (!now().is_symbol(":")) return start;
  }
  ExprPtr slice = make(ExprKind::slice, at);
  slice->parts.push_back(std::move(start));
  while (slice->parts.size() < 3 && skip_symbol(":")) {
    ExprPtr part;
    if (!now().is_symbol(":") && !now().is_symbol("]")) {
      MILLRACE_ASSIGN(part, expression());
    }
    slice->parts.push_back(std::move(part));
  }
  slice->parts.resize(3);
  return slice;
}

Result<ExprPtr> ExpressionParser::call(ExprPtr callee, Position at) {
  ExprPtr e = make(ExprKind::call, at, std::move(callee));
  MILLRACE_TRY(arguments(*e));
  return e;
}

Status ExpressionParser::arguments(Expr& e) {
  for (bool first = true; !skip_symbol(")"); first = false) {
    if (!first) MILLRACE_TRY(expect_symbol(","));
    if (skip_symbol(")")) break;
    const Position at = now().at;
    ExprPtr* unpacked = now().is_symbol("*")    ? &e.list_argument
                        : now().is_symbol("**") ? &e.dict_argument
                                                : nullptr;
    if (unpacked != nullptr) {
      if (*unpacked || e.dict_argument) return wrong(at, "a second '" + now().text + "' argument");
      advance();
      MILLRACE_ASSIGN(*unpacked, expression());
      continue;
    }
    if (now().type == TokenType::name && peek().is_symbol("=")) {
      std::string name = now().text;
      advance();
      advance();
      MILLRACE_ASSIGN(ExprPtr value, expression());
      e.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!e.named.empty() || e.list_argument || e.dict_argument)
        return wrong("a positional argument follows a named one");
      MILLRACE_ASSIGN(ExprPtr value, expression());
      e.parts.push_back(std::move(value));
    }
  }
  return {};
}

Result<ExprPtr> ExpressionParser::filters_and_tests(ExprPtr e) {
  for (;;) {
    MILLRACE_TRY(check_size());
    const Position at = now().at;
    if (skip_symbol("|")) {
      MILLRACE_ASSIGN(e, filter(std::move(e), at));
    } else if (skip_name("is")) {
      MILLRACE_ASSIGN(e, test(std::move(e), at));
    } else if (skip_symbol("(")) {
      MILLRACE_ASSIGN(e, call(std::move(e), at));
    } else {
      return e;
    }
  }
}

Result<ExprPtr> ExpressionParser::filter(ExprPtr operand, Position at) {
  MILLRACE_ASSIGN(std::string name, identifier("a filter's name"));
  ExprPtr e = make(ExprKind::filter, at, std::move(operand));
  e->builtin = find_filter(name);
  e->name = std::move(name);
  if (skip_symbol("(")) MILLRACE_TRY(arguments(*e));
  return e;
}

bool ExpressionParser::starts_test_argument() const {
  switch (now().type) {
    case TokenType::string:
    case TokenType::integer:
    case TokenType::real:
      return true;
    case TokenType::name:
      for (const std::string_view word : {"else", "or", "and", "if", "in", "not", "is"})
        if (now().text == word) return false;
      return true;
    default:
      return now().is_symbol("[") || now().is_symbol("{");
  }
}

Result<ExprPtr> ExpressionParser::test(ExprPtr operand, Position at) {
  const bool negated = skip_name("not");
  MILLRACE_ASSIGN(std::string name, identifier("a test's name"));
  ExprPtr e = make(ExprKind::test, at, std::move(operand));
  e->negated = negated;
  e->builtin = find_test(name);
  e->name = std::move(name);
  if (skip_symbol("(")) {
    MILLRACE_TRY(arguments(*e));
  } else if (starts_test_argument()) {
    MILLRACE_ASSIGN(ExprPtr argument, primary());
    MILLRACE_ASSIGN(argument, postfix(std::move(argument)));
    e->parts.push_back(std::move(argument));
  }
  return e;
}

}  // namespace millrace::chat_template
