#include <algorithm>

#include "engine/core/template/evaluator.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

Status Evaluator::check_depth(Position at) const {
  if (depth_ <= context_.limits().depth) return {};
  return context_.wrong(
      at, "the rendering nests deeper than " + std::to_string(context_.limits().depth) + " levels");
}

Result<Value> Evaluator::evaluate(const Expr& e) {
  Deeper guard(depth_);
  MILLRACE_TRY(check_depth(e.at));
  MILLRACE_TRY(context_.spend(e.at));
  return evaluate_kind(e);
}

Result<Value> Evaluator::evaluate_kind(const Expr& e) {
  switch (e.kind) {
    case ExprKind::constant:
      return e.constant;
    case ExprKind::name:
      return lookup(e);
    case ExprKind::list:
    case ExprKind::tuple:
    case ExprKind::dict:
      return collection(e);
    case ExprKind::attribute: {
      MILLRACE_ASSIGN(const Value of, evaluate(*e.parts[0]));
      return context_.attribute(e.at, of, e.name);
    }
    case ExprKind::subscript:
      return subscript(e);
    case ExprKind::slice:
      return context_.wrong(e.at, "a slice outside of a subscript");
    case ExprKind::call:
      return call(e);
    case ExprKind::filter:
    case ExprKind::test:
      return builtin(e);
    case ExprKind::negation: {
      MILLRACE_ASSIGN(const Value v, evaluate(*e.parts[0]));
      return Value::of(!truthy(v));
    }
    case ExprKind::minus:
    case ExprKind::plus:
      return sign(e);
    case ExprKind::arithmetic: {
      MILLRACE_ASSIGN(const Value a, evaluate(*e.parts[0]));
      MILLRACE_ASSIGN(const Value b, evaluate(*e.parts[1]));
      return arithmetic(context_, e.at, e.operations[0], a, b);
    }
    case ExprKind::concat:
      return concat(e);
    case ExprKind::comparison:
      return comparison(e);
    case ExprKind::conjunction:
    case ExprKind::disjunction: {
      MILLRACE_ASSIGN(const Value a, evaluate(*e.parts[0]));
      if (truthy(a) == (e.kind == ExprKind::disjunction)) return a;
      return evaluate(*e.parts[1]);
    }
    case ExprKind::conditional: {
      MILLRACE_ASSIGN(const Value condition, evaluate(*e.parts[0]));
      if (truthy(condition)) return evaluate(*e.parts[1]);
      if (e.parts[2]) return evaluate(*e.parts[2]);
      return Value::undefined(nullptr);
    }
  }
  return context_.wrong(e.at, "an unknown expression");
}

Result<Value> Evaluator::lookup(const Expr& e) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
    for (const auto& [name, value] : *frame)
      if (name == e.name) return value;
  if (const auto function = find_function(e.name)) return *function;
  return Value::undefined(&e.name);
}

Result<Value> Evaluator::collection(const Expr& e) {
  std::vector<Value> items;
  for (const ExprPtr& part : e.parts) {
    MILLRACE_ASSIGN(const Value v, evaluate(*part));
    items.push_back(v);
  }
  if (e.kind == ExprKind::list) return context_.list(e.at, std::move(items));
  if (e.kind == ExprKind::tuple) return context_.list(e.at, std::move(items), Kind::tuple);
  std::vector<std::pair<Value, Value>> pairs;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const Value& key = items[i];
    if (!key.is(Kind::string) && !key.is_number() && !key.is(Kind::none))
      return context_.wrong(e.at,
                            "a '" + std::string(type_name(key.kind)) + "' cannot be a dict's key");
    bool known = false;
    for (auto& [k, v] : pairs)
      if (equal(k, key, context_.work())) {
        v = items[i + 1];
        known = true;
      }
    if (!known) pairs.emplace_back(key, items[i + 1]);
    MILLRACE_TRY(context_.spend(e.at));
  }
  return Value::of(context_.heap().dict(std::move(pairs)));
}

Result<Value> Evaluator::subscript(const Expr& e) {
  MILLRACE_ASSIGN(const Value of, evaluate(*e.parts[0]));
  if (e.parts[1]->kind == ExprKind::slice) return slice(*e.parts[1], of);
  MILLRACE_ASSIGN(const Value key, evaluate(*e.parts[1]));
  return context_.item(e.at, of, key);
}

namespace {

// Returns the positions that a slice selects from n items. Clips the slice's ends as Python does.
std::vector<std::size_t> slice_positions(std::int64_t n, const std::optional<std::int64_t>& start,
                                         const std::optional<std::int64_t>& stop,
                                         std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clip = [&](std::int64_t i) { return std::clamp(i < 0 ? i + n : i, low, high); };
  const std::int64_t from = start ? clip(*start) : step > 0 ? low : high;
  const std::int64_t to = stop ? clip(*stop) : step > 0 ? high : low;
  std::vector<std::size_t> out;
  for (std::int64_t i = from; step > 0 ? i < to : i > to;) {
    out.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

}  // namespace

Result<Value> Evaluator::slice(const Expr& e, const Value& of) {
  std::optional<std::int64_t> ends[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!e.parts[i]) continue;
    MILLRACE_ASSIGN(const Value v, evaluate(*e.parts[i]));
    if (v.is(Kind::none)) continue;
    if (!v.is_integer()) return context_.wrong(e.at, "slice indices must be integers or None");
    ends[i] = v.as_integer();
  }
  const std::int64_t step = ends[2].value_or(1);
  if (step == 0) return context_.wrong(e.at, "slice step cannot be zero");
  if (of.is(Kind::undefined)) return context_.undefined(e.at, of);
  if (of.is_sequence()) {
    const auto n = static_cast<std::int64_t>(of.list->items.size());
    std::vector<Value> items;
    for (const std::size_t i : slice_positions(n, ends[0], ends[1], step))
      items.push_back(of.list->items[i]);
    return context_.list(e.at, std::move(items), of.kind);
  }
  if (!of.is(Kind::string)) return Value::undefined(nullptr);
  MILLRACE_TRY(context_.spend(e.at, of.string->size() / 8));
  const TrackedView whole = of.view();
  const std::vector<std::size_t> at_byte = text::offsets(whole.bytes);
  TrackedText out;
  const auto n = static_cast<std::int64_t>(at_byte.size()) - 1;
  for (const std::size_t i : slice_positions(n, ends[0], ends[1], step))
    out.append(whole.part(whole.bytes.substr(at_byte[i], at_byte[i + 1] - at_byte[i])));
  return context_.text(e.at, std::move(out));
}

Result<Args> Evaluator::arguments(const Expr& e, std::string_view callee) {
  Args args{e.at, callee, {}, {}};
  for (std::size_t i = 1; i < e.parts.size(); ++i) {
    MILLRACE_ASSIGN(const Value v, evaluate(*e.parts[i]));
    args.positional.push_back(v);
  }
  for (const auto& [name, expression] : e.named) {
    MILLRACE_ASSIGN(const Value v, evaluate(*expression));
    args.named.emplace_back(name, v);
  }
  return args;
}

Result<Value> Evaluator::call(const Expr& e) {
  MILLRACE_ASSIGN(const Value callee, evaluate(*e.parts[0]));
  MILLRACE_ASSIGN(Args args, arguments(e, e.parts[0]->name));
  switch (callee.kind) {
    case Kind::function:
      return call_function(context_, callee.function, args);
    case Kind::method:
      return call_method(context_, *callee.method, args);
    case Kind::macro:
      return call_macro(*callee.macro, args);
    case Kind::undefined:
      return context_.undefined(e.at, callee);
    default:
      return context_.wrong(e.at,
                            "'" + std::string(type_name(callee.kind)) + "' object is not callable");
  }
}

Result<Value> Evaluator::call_macro(const Stmt& macro, const Args& args) {
  Deeper guard(depth_);
  MILLRACE_TRY(check_depth(args.at));
  const std::size_t count = macro.targets.size();
  std::vector<std::string_view> names;
  for (const Target& t : macro.targets) names.push_back(t.name);
  std::vector<std::optional<Value>> given(count);
  MILLRACE_TRY(bind_all(args, names.data(), given.data(), count));
  // A macro sees its parameters and the template's outermost variables.
  std::vector<Frame> callers(std::make_move_iterator(frames_.begin() + 1),
                             std::make_move_iterator(frames_.end()));
  frames_.resize(1);
  Frame frame;
  std::optional<Error> error;
  for (std::size_t i = 0; i < count && !error; ++i) {
    Value v = Value::undefined(&macro.targets[i].name);
    const std::size_t required = count - macro.values.size();
    if (given[i]) {
      v = *given[i];
    } else if (i >= required) {
      frames_.push_back(frame);  // a default may use the parameters before it
      const Result<Value> made = evaluate(*macro.values[i - required]);
      frames_.pop_back();
      if (made) {
        v = *made;
      } else {
        error = made.error();
      }
    }
    frame.emplace_back(names[i], v);
  }
  Flow flow = Flow::on;
  Result<TrackedText> text =
      error ? Result<TrackedText>(fail(*error)) : capture(macro.body, std::move(frame), flow);
  frames_.insert(frames_.end(), std::make_move_iterator(callers.begin()),
                 std::make_move_iterator(callers.end()));
  MILLRACE_TRY(text);
  return context_.text(args.at, *std::move(text));
}

Result<Value> Evaluator::builtin(const Expr& e) {
  MILLRACE_ASSIGN(const Value input, evaluate(*e.parts[0]));
  MILLRACE_ASSIGN(const Args args, arguments(e, e.name));
  MILLRACE_ASSIGN(const Value v, run_builtin(context_, *e.builtin, input, args));
  if (e.kind == ExprKind::test && e.negated) return Value::of(!truthy(v));
  return v;
}

Result<Value> Evaluator::sign(const Expr& e) {
  MILLRACE_ASSIGN(const Value v, evaluate(*e.parts[0]));
  if (v.is(Kind::undefined)) return context_.undefined(e.at, v);
  const bool minus = e.kind == ExprKind::minus;
  if (v.is(Kind::real)) return Value::of(minus ? -v.real : v.real);
  if (!v.is_integer())
    return context_.wrong(e.at, std::string("bad operand type for unary ") + (minus ? "-" : "+") +
                                    ": '" + std::string(type_name(v.kind)) + "'");
  if (!minus) return Value::of(v.as_integer());
  return arithmetic(context_, e.at, Operation::subtract, Value::of(std::int64_t{0}), v);
}

Result<Value> Evaluator::concat(const Expr& e) {
  TrackedText out;
  for (const ExprPtr& part : e.parts) {
    MILLRACE_ASSIGN(const Value v, evaluate(*part));
    MILLRACE_TRY(context_.append(part->at, out, v));
  }
  return context_.text(e.at, std::move(out));
}

Result<Value> Evaluator::comparison(const Expr& e) {
  MILLRACE_ASSIGN(Value left, evaluate(*e.parts[0]));
  for (std::size_t i = 0; i < e.operations.size(); ++i) {
    MILLRACE_ASSIGN(const Value right, evaluate(*e.parts[i + 1]));
    MILLRACE_ASSIGN(const bool holds, compared(context_, e.at, e.operations[i], left, right));
    if (!holds) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

}  // namespace millrace::chat_template
