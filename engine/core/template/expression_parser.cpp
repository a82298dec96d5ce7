#include "engine/core/template/expression_parser.hpp"

#include <charconv>

namespace millrace::chat_template {

std::string ExpressionParser::shown(const Token& token) {
  switch (token.type) {
    case TokenType::end:
      return "the end of the template";
    case TokenType::data:
      return "text";
    case TokenType::block_end:
      return "'%}'";
    case TokenType::variable_end:
      return "'}}'";
    case TokenType::string:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

Result<ExprPtr> ExpressionParser::expression() {
  Nesting guard(nesting_);
  MILLRACE_TRY(check_size());
  MILLRACE_ASSIGN(ExprPtr e, disjunction());
  while (now().is_name("if")) {
    MILLRACE_TRY(check_size());
    const Position at = now().at;
    advance();
    MILLRACE_ASSIGN(ExprPtr condition, disjunction());
    ExprPtr otherwise;
    if (skip_name("else")) {
      MILLRACE_ASSIGN(otherwise, expression());
    }
    ExprPtr whole = make(ExprKind::conditional, at, std::move(condition), std::move(e));
    whole->parts.push_back(std::move(otherwise));
    e = std::move(whole);
  }
  return e;
}

Result<ExprPtr> ExpressionParser::left_chain(Level operand, ExprKind kind, std::string_view word) {
  MILLRACE_ASSIGN(ExprPtr e, (this->*operand)());
  while (now().is_name(word)) {
    MILLRACE_TRY(check_size());
    const Position at = now().at;
    advance();
    MILLRACE_ASSIGN(ExprPtr right, (this->*operand)());
    e = make(kind, at, std::move(e), std::move(right));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::disjunction() {
  return left_chain(&ExpressionParser::conjunction, ExprKind::disjunction, "or");
}

Result<ExprPtr> ExpressionParser::conjunction() {
  return left_chain(&ExpressionParser::negation, ExprKind::conjunction, "and");
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!now().is_name("not")) return comparison();
  Nesting guard(nesting_);
  MILLRACE_TRY(check_size());
  const Position at = now().at;
  advance();
  MILLRACE_ASSIGN(ExprPtr e, negation());
  return make(ExprKind::negation, at, std::move(e));
}

std::optional<Operation> ExpressionParser::comparison_operation() {
  constexpr std::array<std::pair<std::string_view, Operation>, 6> symbols = {
      {{"==", Operation::equal},
       {"!=", Operation::not_equal},
       {"<", Operation::less},
       {"<=", Operation::less_equal},
       {">", Operation::greater},
       {">=", Operation::greater_equal}}};
  for (const auto& [symbol, operation] : symbols)
    if (skip_symbol(symbol)) return operation;
  if (skip_name("in")) return Operation::in;
  if (now().is_name("not") && peek().is_name("in")) {
    advance();
    advance();
    return Operation::not_in;
  }
  return std::nullopt;
}

Result<ExprPtr> ExpressionParser::comparison() {
  const Position at = now().at;
  MILLRACE_ASSIGN(ExprPtr first, sum());
  ExprPtr chain;
  while (const auto operation = comparison_operation()) {
    if (!chain) chain = make(ExprKind::comparison, at, std::move(first));
    MILLRACE_TRY(check_size());
    MILLRACE_ASSIGN(ExprPtr right, sum());
    chain->operations.push_back(*operation);
    chain->parts.push_back(std::move(right));
  }
  return chain ? std::move(chain) : std::move(first);
}

template <std::size_t count>
Result<ExprPtr> ExpressionParser::arithmetic(
    Level operand, const std::array<std::pair<std::string_view, Operation>, count>& operations) {
  MILLRACE_ASSIGN(ExprPtr e, (this->*operand)());
  for (;;) {
    const Position at = now().at;
    std::optional<Operation> found;
    for (const auto& [symbol, operation] : operations)
      if (!found && skip_symbol(symbol)) found = operation;
    if (!found) return e;
    MILLRACE_TRY(check_size());
    MILLRACE_ASSIGN(ExprPtr right, (this->*operand)());
    e = make(ExprKind::arithmetic, at, std::move(e), std::move(right));
    e->operations.push_back(*found);
  }
}

Result<ExprPtr> ExpressionParser::sum() {
  return arithmetic<2>(&ExpressionParser::concat,
                       {{{"+", Operation::add}, {"-", Operation::subtract}}});
}

Result<ExprPtr> ExpressionParser::concat() {
  const Position at = now().at;
  MILLRACE_ASSIGN(ExprPtr first, product());
  if (!now().is_symbol("~")) return first;
  ExprPtr e = make(ExprKind::concat, at, std::move(first));
  while (skip_symbol("~")) {
    MILLRACE_ASSIGN(ExprPtr right, product());
    e->parts.push_back(std::move(right));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::product() {
  return arithmetic<4>(&ExpressionParser::power, {{{"*", Operation::multiply},
                                                   {"//", Operation::floor_divide},
                                                   {"/", Operation::divide},
                                                   {"%", Operation::modulo}}});
}

Result<ExprPtr> ExpressionParser::power() {
  return arithmetic<1>(&ExpressionParser::filtered_unary, {{{"**", Operation::power}}});
}

Result<ExprPtr> ExpressionParser::filtered_unary() {
  return unary(true);
}

Result<ExprPtr> ExpressionParser::unary(bool with_filters) {
  Nesting guard(nesting_);
  MILLRACE_TRY(check_size());
  const Position at = now().at;
  ExprPtr e;
  if (skip_symbol("-")) {
    MILLRACE_ASSIGN(ExprPtr operand, unary(false));
    e = make(ExprKind::minus, at, std::move(operand));
  } else if (skip_symbol("+")) {
    MILLRACE_ASSIGN(ExprPtr operand, unary(false));
    e = make(ExprKind::plus, at, std::move(operand));
  } else {
    MILLRACE_ASSIGN(e, primary());
  }
  MILLRACE_ASSIGN(e, postfix(std::move(e)));
  if (with_filters) return filters_and_tests(std::move(e));
  return e;
}

Result<ExprPtr> ExpressionParser::primary() {
  const Token& token = now();
  ExprPtr e = make(ExprKind::constant, token.at);
  switch (token.type) {
    case TokenType::name:
      return name_or_constant(std::move(e));
    case TokenType::string:
      while (now().type == TokenType::string) {  // adjacent literals are one string, as in Python
        e->name += now().text;
        advance();
      }
      tree_.strings.insert(e->name);
      e->constant = Value::of(&e->name);
      return e;
    case TokenType::integer:
      return integer(std::move(e));
    case TokenType::real: {
      double d = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), d);
      e->constant = Value::of(d);
      advance();
      return e;
    }
    default:
      break;
  }
  if (skip_symbol("(")) return parenthesized(std::move(e));
  if (skip_symbol("[")) return list(std::move(e));
  if (skip_symbol("{")) return dict(std::move(e));
  return wrong("expected an expression, found " + shown(token));
}

Result<ExprPtr> ExpressionParser::integer(ExprPtr e) {
  std::int64_t i = 0;
  const std::string& digits = now().text;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), i);
  if (parsed.ec != std::errc{}) return unsupported(now().at, "an integer beyond 64 bits");
  e->constant = Value::of(i);
  advance();
  return e;
}

Result<ExprPtr> ExpressionParser::name_or_constant(ExprPtr e) {
  const std::string& name = now().text;
  if (name == "true" || name == "True") {
    e->constant = Value::of(true);
  } else if (name == "false" || name == "False") {
    e->constant = Value::of(false);
  } else if (name == "none" || name == "None") {
    e->constant = Value::none();
  } else {
    if (name == "self" || name == "super" || name == "varargs" || name == "kwargs" ||
        name == "caller" || name == "cycler" || name == "joiner" || name == "lipsum")
      return unsupported(now().at, "'" + name + "'");
    e->kind = ExprKind::name;
    e->name = name;
  }
  advance();
  return e;
}

Result<ExprPtr> ExpressionParser::parenthesized(ExprPtr e) {
  if (skip_symbol(")")) {
    e->kind = ExprKind::tuple;
    return e;
  }
  MILLRACE_ASSIGN(ExprPtr inner, expression_or_tuple());
  MILLRACE_TRY(expect_symbol(")"));
  return inner;
}

bool ExpressionParser::ends_tuple() const {
  return now().type == TokenType::block_end || now().type == TokenType::variable_end ||
         now().is_symbol(")");
}

Result<ExprPtr> ExpressionParser::expression_or_tuple() {
  const Position at = now().at;
  MILLRACE_ASSIGN(ExprPtr first, expression());
  if (!now().is_symbol(",")) return first;
  ExprPtr e = make(ExprKind::tuple, at, std::move(first));
  while (skip_symbol(",")) {
    if (ends_tuple()) break;
    MILLRACE_ASSIGN(ExprPtr next, expression());
    e->parts.push_back(std::move(next));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::list(ExprPtr e) {
  e->kind = ExprKind::list;
  while (!skip_symbol("]")) {
    if (!e->parts.empty()) MILLRACE_TRY(expect_symbol(","));
    if (skip_symbol("]")) break;
    MILLRACE_ASSIGN(ExprPtr item, expression());
    e->parts.push_back(std::move(item));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::dict(ExprPtr e) {
  e->kind = ExprKind::dict;
  while (!skip_symbol("}")) {
    if (!e->parts.empty()) MILLRACE_TRY(expect_symbol(","));
    if (skip_symbol("}")) break;
    MILLRACE_ASSIGN(ExprPtr key, expression());
    MILLRACE_TRY(expect_symbol(":"));
    MILLRACE_ASSIGN(ExprPtr value, expression());
    e->parts.push_back(std::move(key));
    e->parts.push_back(std::move(value));
  }
  return e;
}

}  // namespace millrace::chat_template
