#pragma once
// Walks the syntax tree: expressions give values, statements write text.
// Thread safety: none; one rendering belongs to one thread.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/ast.hpp"
#include "engine/core/template/builtins.hpp"
#include "engine/core/template/context.hpp"
#include "engine/core/template/drafts.hpp"
#include "engine/core/template/scopes.hpp"

namespace millrace::chat_template {

class Evaluator {
 public:
  // A text with more than `most_bytes` ends the rendering with context_exceeded.
  Evaluator(Context& context, std::uint64_t most_bytes)
      : context_(context), scopes_(context), out_(context), most_bytes_(most_bytes) {}

  Status define(std::string_view name, Value value) { return scopes_.put({}, name, value); }
  Result<TrackedText> run(const Body& body);

 private:
  enum class Flow { on, leave, next };

  // Expressions: evaluate_expression.cpp
  Result<Value> evaluate(const Expr& e);
  Result<Value> evaluate_kind(const Expr& e);
  Result<Value> lookup(const Expr& e);
  Result<Value> collection(const Expr& e);
  Result<Value> subscript(const Expr& e);
  Result<Value> sliced(const Expr& e, const Value& of);
  Result<Value> call(const Expr& e);
  Result<Value> call_macro(const Stmt& macro, const Args& args);
  Result<Value> builtin(const Expr& e);
  Result<Value> sign(const Expr& e);
  Result<Value> concat(const Expr& e);
  Result<Value> comparison(const Expr& e);
  Result<Args> arguments(const Expr& e, std::string_view callee);
  Status unpack_arguments(const Expr& e, Args& args);

  // Statements: execute.cpp
  Result<Flow> execute(const Body& body);
  Result<Flow> execute(const Stmt& s);
  Result<Flow> branch(const Stmt& s);
  Result<Flow> loop(const Stmt& s);
  Result<Flow> iteration(const Stmt& s, Loop& loop, const Value& item);
  Result<std::span<const Value>> loop_items(const Stmt& s);
  Result<Flow> set_block(const Stmt& s);
  Result<Flow> with(const Stmt& s);
  Status set(const Stmt& s);
  Status unpack(const Stmt& s, const Value& value);
  Status assign(const Target& target, const Value& value);
  // Runs a body and returns the text that it wrote.
  Result<Value> capture(Position at, const Body& body, Flow& flow);
  Status write(Position at, const Value& v);

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
  Scopes scopes_;
  TextDraft out_;
  std::uint64_t most_bytes_;
  std::uint32_t captures_ = 0;  // how many blocks' texts are being captured
  std::uint32_t depth_ = 0;
};

}  // namespace millrace::chat_template
