#pragma once
// Walks the syntax tree: expressions give values, statements write text. Variables live in frames:
// a for loop's body, a macro and a `with` open a frame; `if` does not. An assignment writes to the
// innermost frame, so that a `set` inside a loop has no effect outside of it, as in Jinja.
// Thread safety: none; one rendering belongs to one thread.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/ast.hpp"
#include "engine/core/template/builtins.hpp"
#include "engine/core/template/context.hpp"

namespace millrace::chat_template {

class Evaluator {
 public:
  explicit Evaluator(Context& context) : context_(context) { frames_.emplace_back(); }

  void define(std::string_view name, Value value) { frames_.front().emplace_back(name, value); }
  Result<TrackedText> run(const Body& body);

 private:
  using Frame = std::vector<std::pair<std::string_view, Value>>;
  enum class Flow { on, leave, next };

  // Expressions: evaluate_expression.cpp
  Result<Value> evaluate(const Expr& e);
  Result<Value> evaluate_kind(const Expr& e);
  Result<Value> lookup(const Expr& e);
  Result<Value> collection(const Expr& e);
  Result<Value> subscript(const Expr& e);
  Result<Value> slice(const Expr& e, const Value& of);
  Result<Value> call(const Expr& e);
  Result<Value> call_macro(const Stmt& macro, const Args& args);
  Result<Value> builtin(const Expr& e);
  Result<Value> sign(const Expr& e);
  Result<Value> concat(const Expr& e);
  Result<Value> comparison(const Expr& e);
  Result<Args> arguments(const Expr& e, std::string_view callee);

  // Statements: execute.cpp
  Result<Flow> execute(const Body& body);
  Result<Flow> execute(const Stmt& s);
  Result<Flow> branch(const Stmt& s);
  Result<Flow> loop(const Stmt& s);
  Result<Flow> iteration(const Stmt& s, Loop& loop, const Value& item);
  Result<std::vector<Value>> loop_items(const Stmt& s);
  Result<Flow> set_block(const Stmt& s);
  Result<Flow> with(const Stmt& s);
  Status set(const Stmt& s);
  Status unpack(const Stmt& s, const Value& value);
  Status assign(const Target& target, const Value& value);
  // Runs a body in a frame of its own and returns the text that it wrote.
  Result<TrackedText> capture(const Body& body, Frame frame, Flow& flow);
  void put(std::string_view name, Value value);

  // Counts how deep evaluation nests.
  struct Deeper {
    explicit Deeper(std::uint32_t& d) : depth(d) { ++depth; }
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    std::uint32_t& depth;
  };
  Status check_depth(Position at) const;

  Context& context_;
  std::vector<Frame> frames_;  // innermost last
  TrackedText out_;
  std::uint32_t depth_ = 0;
};

}  // namespace millrace::chat_template
