// Python's operators.
#include <cmath>

#include "engine/core/template/builtins.hpp"

namespace millrace::chat_template {
namespace {

std::string_view symbol(Operation operation) {
  constexpr std::string_view symbols[] = {"+",  "-", "*",  "/", "//", "%",  "** or pow()", "==",
                                          "!=", "<", "<=", ">", ">=", "in", "not in"};
  return symbols[static_cast<std::size_t>(operation)];
}

std::unexpected<Error> overflow(Context& c, Position at) {
  return c.wrong(at, "the result is an integer beyond 64 bits");
}

Result<Value> power(Context& c, Position at, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0)
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  std::int64_t result = 1;
  for (bool more = exponent > 0; more;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      return overflow(c, at);
    exponent >>= 1;
    more = exponent > 0;
    if (more && __builtin_mul_overflow(base, base, &base)) return overflow(c, at);
  }
  return Value::of(result);
}

Result<Value> integers(Context& c, Position at, Operation operation, std::int64_t a,
                       std::int64_t b) {
  std::int64_t result = 0;
  switch (operation) {
    case Operation::add:
      if (__builtin_add_overflow(a, b, &result)) return overflow(c, at);
      return Value::of(result);
    case Operation::subtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow(c, at);
      return Value::of(result);
    case Operation::multiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow(c, at);
      return Value::of(result);
    case Operation::power:
      return power(c, at, a, b);
    default:
      break;
  }
  if (b == 0) return c.wrong(at, "division by zero");
  if (operation == Operation::divide)
    return Value::of(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // INT64_MIN / -1 does not fit 64 bits
    if (operation == Operation::modulo) return Value::of(std::int64_t{0});
    return integers(c, at, Operation::subtract, 0, a);
  }
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {  // Python rounds down
    --quotient;
    rest += b;
  }
  return Value::of(operation == Operation::modulo ? rest : quotient);
}

Result<Value> reals(Context& c, Position at, Operation operation, double a, double b) {
  switch (operation) {
    case Operation::add:
      return Value::of(a + b);
    case Operation::subtract:
      return Value::of(a - b);
    case Operation::multiply:
      return Value::of(a * b);
    case Operation::power:
      return Value::of(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return c.wrong(at, "division by zero");
  if (operation == Operation::divide) return Value::of(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (operation == Operation::modulo) return Value::of(rest);
  return Value::of(std::round((a - rest) / b));
}

Result<Value> repeated_text(Context& c, Position at, const Value& what, std::size_t times) {
  if (!what.string->empty() && times > c.limits().output_bytes / what.string->size())
    MILLRACE_TRY(c.check_size(at, c.limits().output_bytes + 1));
  TextDraft out(c), power(c);  // `power` is one, two, four... copies of `what`
  MILLRACE_TRY(power.append(at, what.view()));
  for (std::size_t left = what.string->empty() ? 0 : times; left > 0; left /= 2) {
    if (left % 2 == 1) MILLRACE_TRY(out.append(at, power.view()));
    if (left == 1) break;
    TextDraft twice(c);
    MILLRACE_TRY(twice.append(at, power.view()));
    MILLRACE_TRY(twice.append(at, power.view()));
    power = std::move(twice);
  }
  MILLRACE_ASSIGN(Value made, c.text(at, std::move(out)));
  made.markup = what.markup;
  return made;
}

Result<Value> repeated(Context& c, Position at, const Value& what, std::int64_t times) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (what.is(Kind::string)) return repeated_text(c, at, what, n);
  ListDraft out(c);
  for (std::size_t i = 0; i < n && !what.list->items.empty(); ++i)
    MILLRACE_TRY(out.append(at, what.list->items));
  return c.list(at, std::move(out), what.kind);
}

// a + b of two strings. Markup escapes what is joined to it.
Result<Value> joined(Context& c, Position at, Value a, Value b) {
  const bool markup = a.markup || b.markup;
  for (Value* part : {&a, &b}) {
    if (!markup || part->markup) continue;
    MILLRACE_ASSIGN(*part, escaped(c, at, *part));
  }
  TextDraft out(c);
  MILLRACE_TRY(c.append(at, out, a));
  MILLRACE_TRY(c.append(at, out, b));
  MILLRACE_ASSIGN(Value made, c.text(at, std::move(out)));
  made.markup = markup;
  return made;
}

}  // namespace

Result<Value> arithmetic(Context& c, Position at, Operation operation, const Value& a,
                         const Value& b) {
  if (a.is(Kind::undefined)) return c.undefined(at, a);
  if (b.is(Kind::undefined)) return c.undefined(at, b);
  MILLRACE_TRY(c.spend(at));
  const TaintScope scope(c.heap(), is_tainted(a) || is_tainted(b));
  if (a.is_integer() && b.is_integer())
    return integers(c, at, operation, a.as_integer(), b.as_integer());
  if (a.is_number() && b.is_number()) return reals(c, at, operation, a.as_real(), b.as_real());
  if (operation == Operation::add && a.kind == b.kind) {
    if (a.is(Kind::string)) return joined(c, at, a, b);
    if (a.is_sequence()) {
      ListDraft items(c);
      MILLRACE_TRY(items.append(at, a.list->items));
      MILLRACE_TRY(items.append(at, b.list->items));
      return c.list(at, std::move(items), a.kind);
    }
  }
  if (operation == Operation::multiply) {
    const bool left = a.is(Kind::string) || a.is_sequence();
    const bool right = b.is(Kind::string) || b.is_sequence();
    if (left && b.is_integer()) return repeated(c, at, a, b.as_integer());
    if (right && a.is_integer()) return repeated(c, at, b, a.as_integer());
  }
  if (operation == Operation::modulo && a.is(Kind::string))
    return c.unsupported(at, "formatting a string with '%'");
  return c.wrong(at, "unsupported operand type(s) for " + std::string(symbol(operation)) + ": '" +
                         std::string(type_name(a.kind)) + "' and '" +
                         std::string(type_name(b.kind)) + "'");
}

Result<bool> compared(Context& c, Position at, Operation operation, const Value& a,
                      const Value& b) {
  switch (operation) {
    case Operation::equal:
    case Operation::not_equal: {
      const bool same = equal(a, b, c.work());
      MILLRACE_TRY(c.spend(at));
      return same == (operation == Operation::equal);
    }
    case Operation::in:
    case Operation::not_in: {
      MILLRACE_ASSIGN(const bool found, c.contains(at, b, a));
      return found == (operation == Operation::in);
    }
    default:
      break;
  }
  MILLRACE_ASSIGN(const int order, c.compare(at, a, b, symbol(operation)));
  switch (operation) {
    case Operation::less:
      return order < 0;
    case Operation::less_equal:
      return order <= 0;
    case Operation::greater:
      return order > 0;
    default:
      return order >= 0;
  }
}

}  // namespace millrace::chat_template
