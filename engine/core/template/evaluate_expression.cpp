#include "engine/core/template/evaluator.hpp"

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
  if (const Value* value = scopes_.find(e.name)) return *value;
  if (const auto function = find_function(e.name)) return *function;
  return Value::undefined(&e.name);
}

Result<Value> Evaluator::collection(const Expr& e) {
  ListDraft items(context_);
  for (const ExprPtr& part : e.parts) {
    MILLRACE_ASSIGN(const Value v, evaluate(*part));
    MILLRACE_TRY(items.append(e.at, v));
  }
  if (e.kind == ExprKind::list) return context_.list(e.at, std::move(items));
  if (e.kind == ExprKind::tuple) return context_.list(e.at, std::move(items), Kind::tuple);
  DictDraft pairs(context_);
  for (std::size_t i = 0; i < items.items().size(); i += 2)
    MILLRACE_TRY(pairs.put(e.at, items.items()[i], items.items()[i + 1]));
  return std::move(pairs).take();
}

Result<Value> Evaluator::subscript(const Expr& e) {
  MILLRACE_ASSIGN(const Value of, evaluate(*e.parts[0]));
  if (e.parts[1]->kind == ExprKind::slice) return sliced(*e.parts[1], of);
  MILLRACE_ASSIGN(const Value key, evaluate(*e.parts[1]));
  return context_.item(e.at, of, key);
}

Result<Value> Evaluator::sliced(const Expr& e, const Value& of) {
  std::optional<std::int64_t> ends[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!e.parts[i]) continue;
    MILLRACE_ASSIGN(const Value v, evaluate(*e.parts[i]));
    if (v.is(Kind::none)) continue;
    if (!v.is_integer()) return context_.wrong(e.at, "slice indices must be integers or None");
    ends[i] = v.as_integer();
  }
  return slice(context_, e.at, of, ends[0], ends[1], ends[2].value_or(1));
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
  if (e.list_argument || e.dict_argument) MILLRACE_TRY(unpack_arguments(e, args));
  return args;
}

// Adds the items of `*list` and the pairs of `**dict`.
Status Evaluator::unpack_arguments(const Expr& e, Args& args) {
  if (e.list_argument) {
    MILLRACE_ASSIGN(const Value list, evaluate(*e.list_argument));
    MILLRACE_ASSIGN(const auto items, context_.iterate(e.at, list));
    args.held.emplace_back(context_);
    MILLRACE_TRY(args.held.back().add(e.at, items.size() * sizeof(Value)));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  if (!e.dict_argument) return {};
  MILLRACE_ASSIGN(const Value dict, evaluate(*e.dict_argument));
  if (!dict.is(Kind::dict)) return context_.wrong(e.at, "argument after ** must be a mapping");
  MILLRACE_TRY(context_.spend(e.at, dict.dict->items.size()));
  args.held.emplace_back(context_);
  MILLRACE_TRY(args.held.back().add(e.at, dict.dict->items.size() * 2 * sizeof(Value)));
  for (const auto& [key, value] : dict.dict->items) {
    if (!key.is(Kind::string)) return context_.wrong(e.at, "keywords must be strings");
    args.named.emplace_back(*key.string, value);
  }
  return {};
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

// A macro sees its parameters and the template's outermost variables.
Result<Value> Evaluator::call_macro(const Stmt& macro, const Args& args) {
  Deeper guard(depth_);
  MILLRACE_TRY(check_depth(args.at));
  const std::size_t count = macro.targets.size();
  std::vector<std::string_view> names;
  for (const Target& t : macro.targets) names.push_back(t.name);
  std::vector<std::optional<Value>> given(count);
  MILLRACE_TRY(bind_all(args, names.data(), given.data(), count));
  const MacroView view(scopes_);
  const Frame frame(scopes_);
  const std::size_t required = count - macro.values.size();
  for (std::size_t i = 0; i < count; ++i) {
    Value v = given[i].value_or(Value::undefined(&macro.targets[i].name));
    if (!given[i] && i >= required) {  // a default may use the parameters before it
      MILLRACE_ASSIGN(v, evaluate(*macro.values[i - required]));
    }
    MILLRACE_TRY(scopes_.put(args.at, names[i], v));
  }
  Flow flow = Flow::on;
  return capture(args.at, macro.body, flow);
}

Result<Value> Evaluator::builtin(const Expr& e) {
  MILLRACE_ASSIGN(const Value input, evaluate(*e.parts[0]));
  MILLRACE_ASSIGN(const Args args, arguments(e, e.name));
  if (e.builtin == nullptr) {  // only a template that gets here is refused
    const bool test = e.kind == ExprKind::test;
    const bool known = test ? is_jinja_test(e.name) : is_jinja_filter(e.name);
    return context_.unsupported(e.at, std::string(known ? "the " : "the unknown ") +
                                          (test ? "test '" : "filter '") + e.name + "'");
  }
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
  TextDraft out(context_);
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
