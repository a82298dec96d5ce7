#pragma once
// The part of the parser that reads expressions. The functions descend from the loosest to the
// tightest binding, in Jinja's order. Internal to parser.cpp. Thread safety: none.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/template/parser.hpp"

namespace millrace::chat_template {

class ExpressionParser {
 protected:
  static constexpr int max_nesting = 200;  // of expressions and blocks in the source
  // Nodes of one statement's expressions. This bounds the depth of the tree, too.
  static constexpr std::size_t max_expression_nodes = 2000;

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  using Parsed = Result<ExprPtr>;
  using Level = Parsed (ExpressionParser::*)();

  // ---- tokens
  const Token& now() const { return tokens_[at_]; }
  const Token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool skip_symbol(std::string_view s) {
    if (!now().is_symbol(s)) return false;
    advance();
    return true;
  }
  bool skip_name(std::string_view s) {
    if (!now().is_name(s)) return false;
    advance();
    return true;
  }
  std::unexpected<Error> wrong(std::string_view what) const { return wrong(now().at, what); }
  std::unexpected<Error> wrong(Position at, std::string_view what) const {
    return fail(error_at(Code::template_error, at, what,
                         "send the prompt as text or tokens, because the model file's "
                         "tokenizer.chat_template is not a valid template"));
  }
  std::unexpected<Error> unsupported(Position at, std::string_view what) const {
    return fail(unsupported_at(at, what));
  }
  Status expect_symbol(std::string_view s) {
    if (skip_symbol(s)) return {};
    return wrong("expected '" + std::string(s) + "', found " + shown(now()));
  }
  Status expect(TokenType type, std::string_view what) {
    if (now().type != type)
      return wrong("expected " + std::string(what) + ", found " + shown(now()));
    advance();
    return {};
  }
  Status block_end() { return expect(TokenType::block_end, "'%}'"); }
  Result<std::string> identifier(std::string_view what) {
    if (now().type != TokenType::name)
      return wrong("expected " + std::string(what) + ", found " + shown(now()));
    std::string name = now().text;
    advance();
    return name;
  }

  // Counts how deep the source nests, for as long as the guard lives.
  struct Nesting {
    int& level;
    explicit Nesting(int& l) : level(l) { ++level; }
    ~Nesting() { --level; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
  };
  Status check_size() const {
    if (nesting_ > max_nesting)
      return wrong("the template nests deeper than " + std::to_string(max_nesting) + " levels");
    if (expression_nodes_ > max_expression_nodes)
      return wrong("the expression has more than " + std::to_string(max_expression_nodes) +
                   " parts");
    return {};
  }

  ExprPtr make(ExprKind kind, Position at) {
    ++expression_nodes_;
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->at = at;
    return e;
  }
  ExprPtr make(ExprKind kind, Position at, ExprPtr a, ExprPtr b = nullptr) {
    auto e = make(kind, at);
    e->parts.push_back(std::move(a));
    if (b) e->parts.push_back(std::move(b));
    return e;
  }

  // ---- expressions, from the loosest to the tightest binding
  Parsed expression();
  Parsed left_chain(Level operand, ExprKind kind, std::string_view word);
  Parsed disjunction();
  Parsed conjunction();
  Parsed negation();
  std::optional<Operation> comparison_operation();
  Parsed comparison();
  template <std::size_t count>
  Parsed arithmetic(Level operand,
                    const std::array<std::pair<std::string_view, Operation>, count>& operations);
  Parsed sum();
  Parsed concat();
  Parsed product();
  Parsed power();
  Parsed filtered_unary();
  Parsed unary(bool with_filters);
  Parsed primary();
  Parsed integer(ExprPtr e);
  Parsed name_or_constant(ExprPtr e);
  Parsed parenthesized(ExprPtr e);
  bool ends_tuple() const;
  // Reads "a", "a, b" or "a,".
  Parsed expression_or_tuple();
  Parsed list(ExprPtr e);
  Parsed dict(ExprPtr e);
  Parsed postfix(ExprPtr e);
  Parsed member(ExprPtr e, Position at);
  Parsed subscript_key();
  Parsed call(ExprPtr callee, Position at);
  // Reads the arguments after the opening bracket, and the closing bracket.
  Status arguments(Expr& e);
  Parsed filters_and_tests(ExprPtr e);
  Parsed filter(ExprPtr operand, Position at);
  bool starts_test_argument() const;
  Parsed test(ExprPtr operand, Position at);

  static std::string shown(const Token& token);  // how error messages name the token

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::size_t expression_nodes_ = 0;  // of the current statement
  Tree tree_;
};

}  // namespace millrace::chat_template
