#pragma once
// What a template can call: filters, tests, methods, functions. All follow Jinja2 and Python. Each
// call runs in a TaintScope. Callees that split or join texts use TrackedText, which keeps the
// taint of each byte; the others need not handle taint.
// Thread safety: none; one rendering belongs to one thread.
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/ast.hpp"
#include "engine/core/template/context.hpp"
#include "engine/core/template/drafts.hpp"

namespace millrace::chat_template {

struct Args {
  Position at;
  std::string_view callee;  // for error messages
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  std::vector<HeldMemory> held{};  // of arguments that a list or a dict gave
};
bool is_tainted(const Args& args);
// Uses up the steps for a call that reads its strings once. Callees that read them more often, and
// those that read lists, spend more by themselves.
Status spend_call(Context&, const Value& input, const Args&);

// A filter or a test. A test returns a boolean.
struct Builtin {
  std::string_view name;
  Result<Value> (*run)(Context&, const Value& input, const Args&);  // only run_builtin calls this
};

Result<Value> run_builtin(Context&, const Builtin&, const Value& input, const Args&);
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
// True for all of Jinja's filters and tests, also for those that this engine does not support.
bool is_jinja_filter(std::string_view name);
bool is_jinja_test(std::string_view name);

// Methods of strings, dicts and lists. is_method says whether Python's type has this method.
bool is_method(Kind receiver, std::string_view name);
Result<Value> call_method(Context&, const Method&, const Args&);

std::optional<Value> find_function(std::string_view name);
Result<Value> call_function(Context&, Function, const Args&);

// Python's operators.
Result<Value> arithmetic(Context&, Position at, Operation, const Value& a, const Value& b);
Result<bool> compared(Context&, Position at, Operation, const Value& a, const Value& b);

// value[start:stop:step] of a list, a tuple or a string.
Result<Value> slice(Context&, Position at, const Value& of, std::optional<std::int64_t> start,
                    std::optional<std::int64_t> stop, std::int64_t step);
// str.format.
Result<Value> format_text(Context&, const Value& pattern, const Args&);
// Markup.escape: a text whose <, >, & and quotes are entities.
Result<Value> escaped(Context&, Position at, const Value& v);

// The tables of filters; each has a file of its own.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
// The methods of a type. `run` is null where Python has the method and the engine does not.
struct MethodEntry {
  std::string_view name;
  Result<Value> (*run)(Context&, const Value& self, const Args&);
};
std::span<const MethodEntry> string_methods();
std::span<const MethodEntry> dict_methods();
std::span<const MethodEntry> list_methods();

// Matches arguments with parameter names, in order. A surplus, unknown or repeated argument is an
// error; an absent one stays empty.
template <std::size_t count>
using Bound = std::array<std::optional<Value>, count>;
Status bind_all(const Args& args, const std::string_view* names, std::optional<Value>* out,
                std::size_t count);
template <std::size_t count>
Result<Bound<count>> bind(const Args& args, const std::array<std::string_view, count>& names) {
  Bound<count> out;
  MILLRACE_TRY(bind_all(args, names.data(), out.data(), count));
  return out;
}

// Returns an argument as the type it must have, or `fallback` where it is absent.
Result<std::string_view> text_argument(const Args&, const std::optional<Value>&,
                                       std::string_view name, std::string_view fallback);
Result<std::int64_t> integer_argument(const Args&, const std::optional<Value>&,
                                      std::string_view name, std::int64_t fallback);

}  // namespace millrace::chat_template
