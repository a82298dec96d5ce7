// The tests that may follow `is`.
#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

template <bool (*holds)(const Value&)>
Result<Value> kind_test(Context&, const Value& v, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return Value::of(holds(v));
}

bool is_defined(const Value& v) {
  return !v.is(Kind::undefined);
}
bool is_undefined(const Value& v) {
  return v.is(Kind::undefined);
}
bool is_none(const Value& v) {
  return v.is(Kind::none);
}
bool is_string(const Value& v) {
  return v.is(Kind::string);
}
bool is_mapping(const Value& v) {
  return v.is(Kind::dict);
}
bool is_iterable(const Value& v) {
  return v.is(Kind::undefined) || v.is(Kind::string) || v.is_sequence() || v.is(Kind::dict) ||
         v.is(Kind::loop);
}
bool is_sequence(const Value& v) {
  return is_iterable(v) && !v.is(Kind::loop);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_integer(const Value& v) {
  return v.is(Kind::integer);
}
bool is_float(const Value& v) {
  return v.is(Kind::real);
}
bool is_boolean(const Value& v) {
  return v.is(Kind::boolean);
}
bool is_true(const Value& v) {
  return v.is(Kind::boolean) && v.boolean;
}
bool is_false(const Value& v) {
  return v.is(Kind::boolean) && !v.boolean;
}
bool is_callable(const Value& v) {
  return v.is(Kind::function) || v.is(Kind::method) || v.is(Kind::macro);
}

Result<Value> divides(Context& c, Position at, const Value& v, const Value& by,
                      std::int64_t remainder) {
  MILLRACE_ASSIGN(Value rest, arithmetic(c, at, Operation::modulo, v, by));
  return Value::of(equal(rest, Value::of(remainder), c.work()));
}
Result<Value> test_odd(Context& c, const Value& v, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return divides(c, args.at, v, Value::of(std::int64_t{2}), 1);
}
Result<Value> test_even(Context& c, const Value& v, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return divides(c, args.at, v, Value::of(std::int64_t{2}), 0);
}

Result<Value> argument(Context& c, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"other"}));
  if (!a[0]) return c.wrong(args.at, "'" + std::string(args.callee) + "' needs an argument");
  return *a[0];
}

Result<Value> test_divisible(Context& c, const Value& v, const Args& args) {
  MILLRACE_ASSIGN(Value by, argument(c, args));
  return divides(c, args.at, v, by, 0);
}

template <Operation operation>
Result<Value> test_compared(Context& c, const Value& v, const Args& args) {
  MILLRACE_ASSIGN(Value other, argument(c, args));
  MILLRACE_ASSIGN(bool holds, compared(c, args.at, operation, v, other));
  return Value::of(holds);
}

Result<Value> test_same(Context& c, const Value& v, const Args& args) {
  MILLRACE_ASSIGN(Value other, argument(c, args));
  if (v.kind != other.kind) return Value::of(false);
  if (v.is(Kind::none)) return Value::of(true);
  if (v.is(Kind::boolean)) return Value::of(v.boolean == other.boolean);
  return c.unsupported(args.at, "'sameas' with values other than none, true and false");
}

template <bool (*holds)(std::string_view)>
Result<Value> test_case(Context& c, const Value& v, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(const Value s, c.to_text(args.at, v));
  return Value::of(holds(*s.string));
}

constexpr Builtin is_tests[] = {
    {"defined", kind_test<is_defined>},
    {"undefined", kind_test<is_undefined>},
    {"none", kind_test<is_none>},
    {"string", kind_test<is_string>},
    {"mapping", kind_test<is_mapping>},
    {"iterable", kind_test<is_iterable>},
    {"sequence", kind_test<is_sequence>},
    {"number", kind_test<is_number>},
    {"integer", kind_test<is_integer>},
    {"float", kind_test<is_float>},
    {"boolean", kind_test<is_boolean>},
    {"true", kind_test<is_true>},
    {"false", kind_test<is_false>},
    {"callable", kind_test<is_callable>},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisible},
    {"eq", test_compared<Operation::equal>},
    {"equalto", test_compared<Operation::equal>},
    {"==", test_compared<Operation::equal>},
    {"ne", test_compared<Operation::not_equal>},
    {"!=", test_compared<Operation::not_equal>},
    {"lt", test_compared<Operation::less>},
    {"lessthan", test_compared<Operation::less>},
    {"<", test_compared<Operation::less>},
    {"le", test_compared<Operation::less_equal>},
    {"<=", test_compared<Operation::less_equal>},
    {"gt", test_compared<Operation::greater>},
    {"greaterthan", test_compared<Operation::greater>},
    {">", test_compared<Operation::greater>},
    {"ge", test_compared<Operation::greater_equal>},
    {">=", test_compared<Operation::greater_equal>},
    {"in", test_compared<Operation::in>},
    {"sameas", test_same},
    {"upper", test_case<text::is_upper>},
    {"lower", test_case<text::is_lower>},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : is_tests)
    if (test.name == name) return &test;
  return nullptr;
}

bool is_jinja_test(std::string_view name) {
  return name == "escaped" || name == "filter" || name == "test" || find_test(name) != nullptr;
}

}  // namespace millrace::chat_template
