#pragma once
// The syntax tree of a chat template. Immutable once parsed, so that threads may share it.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/template/lexer.hpp"
#include "engine/core/template/value.hpp"

namespace millrace::chat_template {

struct Builtin;  // a filter or a test; see builtins.hpp

enum class ExprKind : std::uint8_t {
  constant,     // constant
  name,         // name
  list,         // parts
  tuple,        // parts
  dict,         // parts: key, value, key, value...
  attribute,    // parts[0].name
  subscript,    // parts[0][parts[1]]
  slice,        // parts: start, stop, step; null where absent. Occurs only in a subscript
  call,         // parts[0](parts[1...], named, *list_argument, **dict_argument)
  filter,       // parts[0] | builtin(parts[1...], named)
  test,         // parts[0] is [negated: not] builtin(parts[1...], named)
  negation,     // not parts[0]
  minus,        // -parts[0]
  plus,         // +parts[0]
  arithmetic,   // parts[0] operation parts[1]
  concat,       // parts joined by ~
  comparison,   // parts[0] operations[0] parts[1] operations[1] parts[2]...
  conjunction,  // parts[0] and parts[1]
  disjunction,  // parts[0] or parts[1]
  conditional,  // parts[1] if parts[0] else parts[2]; parts[2] may be null
};

enum class Operation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::constant;
  Position at;
  std::string name;
  Value constant;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr list_argument, dict_argument;
  std::vector<Operation> operations;
  const Builtin* builtin = nullptr;  // null: the engine has no filter or test of this name
  bool negated = false;
};

enum class StmtKind : std::uint8_t {
  text,          // name: the text
  print,         // value
  loop,          // for targets in value if condition: body; else: otherwise
  branch,        // branches, then otherwise
  set,           // targets = value
  set_block,     // targets = body, through filters (value: a filter chain over `captured`, or null)
  macro,         // name(targets...): body; defaults for the last targets
  with,          // assignments, then body in a scope of its own
  filter_block,  // body through value, a filter chain over `captured`
  passage,       // body as it is (generation)
  leave,         // break
  next,          // continue
};

struct Target {
  std::string name;
  std::string attribute;  // for a namespace's attribute, name.attribute; else empty
  Position at;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Branch {
  ExprPtr condition;
  Body body;
};

// The variable that holds a block's text for its filter chain. No template can spell this name.
inline constexpr const char* captured_name = "(captured)";

struct Stmt {
  StmtKind kind = StmtKind::text;
  Position at;
  std::string name;
  std::vector<Target> targets;
  bool unpack = false;  // each target gets one item of the value
  ExprPtr value, condition;
  std::vector<ExprPtr> values;  // with: one per target; macro: defaults of the last targets
  std::vector<Branch> branches;
  Body body, otherwise;
};

}  // namespace millrace::chat_template
