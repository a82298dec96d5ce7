#pragma once
// What a template can call: filters, tests, methods, functions. All follow Jinja2 and Python. Each
// call runs in a TaintScope. One that takes texts apart or joins them uses TrackedText, which keeps
// the taint of each byte; the others need not know of taint.
// Thread safety: as Context.
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/ast.hpp"
#include "engine/core/template/context.hpp"

namespace millrace::chat_template {

struct Args {
  Position at;
  std::string_view callee;  // for messages
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};
bool is_tainted(const Args& args);

// A filter or a test: a test answers a boolean.
struct Builtin {
  std::string_view name;
  Result<Value> (*run)(Context&, const Value& input, const Args&);  // called by run_builtin alone
};

Result<Value> run_builtin(Context&, const Builtin&, const Value& input, const Args&);
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
bool is_jinja_filter(std::string_view name);  // Jinja has it and we may not
bool is_jinja_test(std::string_view name);

// Methods of strings, dicts and lists. is_method: Python has one of this name on this type.
bool is_method(Kind receiver, std::string_view name);
Result<Value> call_method(Context&, const Method&, const Args&);

std::optional<Value> find_function(std::string_view name);
Result<Value> call_function(Context&, Function, const Args&);

// Python's operators: arithmetic ones give a value, comparisons a boolean.
Result<Value> arithmetic(Context&, Position at, Operation, const Value& a, const Value& b);
Result<bool> compared(Context&, Position at, Operation, const Value& a, const Value& b);

// The tables, one a file.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
// The names of the methods that this engine implements.
std::vector<std::string_view> method_names(Kind receiver);

// Matches arguments with parameter names, in order. Too many, unknown or doubled ones are errors;
// an absent one stays empty.
template <std::size_t count>
using Bound = std::array<std::optional<Value>, count>;
Status bind(const Args& args, const std::string_view* names, std::optional<Value>* out,
            std::size_t count);
template <std::size_t count>
Result<Bound<count>> bind(const Args& args, const std::array<std::string_view, count>& names) {
  Bound<count> out;
  MILLRACE_TRY(bind(args, names.data(), out.data(), count));
  return out;
}

// An argument as the type it must have; `fallback` where absent.
Result<std::string_view> text_argument(const Args&, const std::optional<Value>&,
                                       std::string_view name, std::string_view fallback);
Result<std::int64_t> integer_argument(const Args&, const std::optional<Value>&,
                                      std::string_view name, std::int64_t fallback);

}  // namespace millrace::chat_template
