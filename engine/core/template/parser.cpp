#include "engine/core/template/parser.hpp"

#include "engine/core/template/expression_parser.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::chat_template {
namespace {

constexpr std::size_t max_source_bytes = 1 * limits::MiB;

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Result<Tree> run() {
    MILLRACE_ASSIGN(tree_.body, body({}));
    return std::move(tree_);
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  bool at_block(Words words) const {
    if (now().type != TokenType::block_begin || peek().type != TokenType::name) return false;
    for (const std::string_view word : words)
      if (peek().text == word) return true;
    return false;
  }

  // Reads statements up to a block tag whose word is one of `ends`, and does not read that tag.
  // Without ends it reads to the end of the source.
  Result<Body> body(Words ends) {
    Nesting guard(nesting_);
    MILLRACE_TRY(check_size());
    Body out;
    const Position begin = now().at;
    while (!at_block(ends)) {
      if (now().type == TokenType::end) {
        if (ends.size() == 0) return out;
        return wrong(begin, "the block lacks its '" + std::string(*(ends.end() - 1)) + "'");
      }
      MILLRACE_ASSIGN(Stmt s, statement());
      out.push_back(std::move(s));
    }
    return out;
  }

  // Reads a body and its end tag.
  Result<Body> body_until(std::string_view end) {
    MILLRACE_ASSIGN(Body out, body({end}));
    MILLRACE_TRY(end_tag());
    return out;
  }
  Result<Body> scope_until(std::string_view end) {
    Nesting guard(scopes_);
    return body_until(end);
  }
  Status end_tag() {
    advance();
    advance();
    return block_end();
  }

  Result<Stmt> statement() {
    Stmt s;
    s.at = now().at;
    expression_nodes_ = 0;
    if (now().type == TokenType::data) {
      s.name = now().text;
      advance();
      return s;
    }
    if (now().type == TokenType::variable_begin) {
      advance();
      s.kind = StmtKind::print;
      MILLRACE_ASSIGN(s.value, expression_or_tuple());
      MILLRACE_TRY(expect(TokenType::variable_end, "'}}'"));
      return s;
    }
    advance();
    MILLRACE_ASSIGN(const std::string word, identifier("a statement"));
    MILLRACE_TRY(block(word, s));
    return s;
  }

  Status block(const std::string& word, Stmt& s) {
    if (word == "if") return branch(s);
    if (word == "for") return loop(s);
    if (word == "set") return set(s);
    if (word == "macro") return macro(s);
    if (word == "with") return with(s);
    if (word == "filter") return filter_block(s);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) return wrong(s.at, "'" + word + "' outside of a loop");
      s.kind = word == "break" ? StmtKind::leave : StmtKind::next;
      return block_end();
    }
    if (word == "generation") {  // transformers marks text to train on with it
      s.kind = StmtKind::passage;
      MILLRACE_TRY(block_end());
      MILLRACE_ASSIGN(s.body, body_until("endgeneration"));
      return {};
    }
    for (const std::string_view known :
         {"block", "extends", "include", "import", "from", "call", "do", "autoescape", "trans",
          "pluralize", "debug", "print"})
      if (word == known) return unsupported(s.at, "the statement '" + word + "'");
    return wrong(s.at, "unexpected statement '" + word + "'");
  }

  Status branch(Stmt& s) {
    s.kind = StmtKind::branch;
    for (;;) {
      Branch b;
      MILLRACE_ASSIGN(b.condition, expression_or_tuple());
      MILLRACE_TRY(block_end());
      MILLRACE_ASSIGN(b.body, body({"elif", "else", "endif"}));
      s.branches.push_back(std::move(b));
      if (!at_block({"elif"})) break;
      advance();
      advance();
    }
    if (at_block({"else"})) {
      MILLRACE_TRY(end_tag());
      MILLRACE_ASSIGN(s.otherwise, body({"endif"}));
    }
    return end_tag();
  }

  Result<Target> target(bool with_attribute) {
    Target t;
    t.at = now().at;
    if (now().is_symbol("(")) return unsupported(t.at, "nested unpacking");
    MILLRACE_ASSIGN(t.name, identifier("a variable's name"));
    if (with_attribute && skip_symbol(".")) {
      MILLRACE_ASSIGN(t.attribute, identifier("an attribute's name"));
    }
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (t.name == constant) return wrong(t.at, "cannot assign to '" + t.name + "'");
    return t;
  }

  Status targets(Stmt& s, bool with_attribute) {
    const bool bracket = now().is_symbol("(");
    if (bracket) advance();
    do {
      if (!s.targets.empty() && now().type != TokenType::name) break;
      MILLRACE_ASSIGN(Target t, target(with_attribute));
      s.targets.push_back(std::move(t));
      s.unpack = s.unpack || now().is_symbol(",");
    } while (skip_symbol(","));
    if (bracket) return expect_symbol(")");
    return {};
  }

  Status loop(Stmt& s) {
    s.kind = StmtKind::loop;
    MILLRACE_TRY(targets(s, false));
    if (!skip_name("in")) return wrong("expected 'in', found " + shown(now()));
    MILLRACE_ASSIGN(s.value, loop_source());
    if (skip_name("if")) {
      MILLRACE_ASSIGN(s.condition, expression());
    }
    if (now().is_name("recursive")) return unsupported(now().at, "a recursive loop");
    MILLRACE_TRY(block_end());
    MILLRACE_ASSIGN(s.body, loop_body());
    if (at_block({"else"})) {
      MILLRACE_TRY(end_tag());
      MILLRACE_ASSIGN(s.otherwise, body({"endfor"}));
    }
    return end_tag();
  }

  Result<Body> loop_body() {
    Nesting guard(loops_);
    return body({"else", "endfor"});
  }

  // Reads an expression without inline `if`, because `if` begins the loop's filter here.
  Parsed loop_source() {
    const Position at = now().at;
    MILLRACE_ASSIGN(ExprPtr first, disjunction());
    if (!now().is_symbol(",")) return first;
    ExprPtr e = make(ExprKind::tuple, at, std::move(first));
    while (skip_symbol(",")) {
      if (ends_tuple()) break;
      MILLRACE_ASSIGN(ExprPtr next, disjunction());
      e->parts.push_back(std::move(next));
    }
    return e;
  }

  Status set(Stmt& s) {
    MILLRACE_TRY(targets(s, true));
    if (skip_symbol("=")) {
      s.kind = StmtKind::set;
      MILLRACE_ASSIGN(s.value, expression_or_tuple());
      return block_end();
    }
    if (s.unpack) return wrong("expected '=', found " + shown(now()));
    s.kind = StmtKind::set_block;
    MILLRACE_TRY(captured_filters(s, false));
    MILLRACE_TRY(block_end());
    MILLRACE_ASSIGN(s.body, scope_until("endset"));
    return {};
  }

  // Reads the chain of filters for a block's text.
  Status captured_filters(Stmt& s, bool required) {
    ExprPtr e = make(ExprKind::name, now().at);
    e->name = captured_name;
    if (required) {
      MILLRACE_ASSIGN(s.value, filter(std::move(e), now().at));
      MILLRACE_ASSIGN(s.value, filters_and_tests(std::move(s.value)));
    } else if (now().is_symbol("|")) {
      MILLRACE_ASSIGN(s.value, filters_and_tests(std::move(e)));
    }
    return {};
  }

  Status filter_block(Stmt& s) {
    s.kind = StmtKind::filter_block;
    MILLRACE_TRY(captured_filters(s, true));
    MILLRACE_TRY(block_end());
    MILLRACE_ASSIGN(s.body, scope_until("endfilter"));
    return {};
  }

  Status with(Stmt& s) {
    s.kind = StmtKind::with;
    while (now().type != TokenType::block_end) {
      if (!s.targets.empty()) MILLRACE_TRY(expect_symbol(","));
      MILLRACE_ASSIGN(Target t, target(false));
      MILLRACE_TRY(expect_symbol("="));
      MILLRACE_ASSIGN(ExprPtr value, expression());
      s.targets.push_back(std::move(t));
      s.values.push_back(std::move(value));
    }
    MILLRACE_TRY(block_end());
    MILLRACE_ASSIGN(s.body, scope_until("endwith"));
    return {};
  }

  Status macro(Stmt& s) {
    // The evaluator lets a macro see the template's outermost variables only. In Jinja a macro
    // inside another block sees that block's variables, too.
    if (scopes_ > 0 || loops_ > 0)
      return unsupported(s.at, "a macro inside a block other than 'if'");
    s.kind = StmtKind::macro;
    MILLRACE_ASSIGN(s.name, identifier("a macro's name"));
    MILLRACE_TRY(expect_symbol("("));
    while (!skip_symbol(")")) {
      if (!s.targets.empty()) MILLRACE_TRY(expect_symbol(","));
      MILLRACE_ASSIGN(Target t, target(false));
      s.targets.push_back(std::move(t));
      if (skip_symbol("=")) {
        MILLRACE_ASSIGN(ExprPtr value, expression());
        s.values.push_back(std::move(value));
      } else if (!s.values.empty()) {
        return wrong("a parameter without a default follows one with a default");
      }
    }
    MILLRACE_TRY(block_end());
    MILLRACE_ASSIGN(s.body, scope_until("endmacro"));
    return {};
  }

  int loops_ = 0;   // number of enclosing for statements
  int scopes_ = 0;  // number of other enclosing blocks with variables of their own
};

}  // namespace

Result<Tree> parse(std::string_view source) {
  if (source.size() > max_source_bytes)
    return fail(Code::template_error,
                "the chat template has " + std::to_string(source.size()) + " bytes; the limit is " +
                    std::to_string(max_source_bytes),
                "send the prompt as text or tokens");
  MILLRACE_ASSIGN(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace millrace::chat_template
