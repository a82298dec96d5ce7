#include "engine/core/template/evaluator.hpp"

namespace millrace::chat_template {

Result<TrackedText> Evaluator::run(const Body& body) {
  MILLRACE_TRY(execute(body));
  return std::move(out_).take();
}

Status Evaluator::write(Position at, const Value& v) {
  const auto check = [&](std::size_t more) -> Status {
    if (captures_ > 0 || out_.size() + more <= most_bytes_) return {};
    return fail(Code::context_exceeded,
                "the rendered chat has more than " + std::to_string(most_bytes_) + " bytes",
                "send fewer or shorter messages");
  };
  if (v.is(Kind::string)) MILLRACE_TRY(check(v.string->size()));
  MILLRACE_TRY(context_.append(at, out_, v));
  return check(0);
}

Result<Evaluator::Flow> Evaluator::execute(const Body& body) {
  for (const Stmt& s : body) {
    MILLRACE_ASSIGN(const Flow flow, execute(s));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<Evaluator::Flow> Evaluator::execute(const Stmt& s) {
  Deeper guard(depth_);
  MILLRACE_TRY(check_depth(s.at));
  MILLRACE_TRY(context_.spend(s.at));
  switch (s.kind) {
    case StmtKind::text:
      MILLRACE_TRY(write(s.at, Value::of(&s.name)));
      return Flow::on;
    case StmtKind::print: {
      MILLRACE_ASSIGN(const Value v, evaluate(*s.value));
      MILLRACE_TRY(write(s.at, v));
      return Flow::on;
    }
    case StmtKind::branch:
      return branch(s);
    case StmtKind::loop:
      return loop(s);
    case StmtKind::set:
      MILLRACE_TRY(set(s));
      return Flow::on;
    case StmtKind::set_block:
    case StmtKind::filter_block:
      return set_block(s);
    case StmtKind::macro:
      MILLRACE_TRY(scopes_.put(s.at, s.name, Value::of(&s)));
      return Flow::on;
    case StmtKind::with:
      return with(s);
    case StmtKind::passage:
      return execute(s.body);
    case StmtKind::leave:
      return Flow::leave;
    case StmtKind::next:
      return Flow::next;
  }
  return context_.wrong(s.at, "an unknown statement");
}

Result<Evaluator::Flow> Evaluator::branch(const Stmt& s) {
  for (const Branch& b : s.branches) {
    MILLRACE_ASSIGN(const Value condition, evaluate(*b.condition));
    if (truthy(condition)) return execute(b.body);
  }
  return execute(s.otherwise);
}

// Returns the items of the loop. The loop's filter runs first, because `loop` counts what is left.
Result<std::span<const Value>> Evaluator::loop_items(const Stmt& s) {
  MILLRACE_ASSIGN(const Value source, evaluate(*s.value));
  MILLRACE_ASSIGN(const auto items, context_.iterate(s.at, source));
  if (!s.condition) return items;
  ListDraft kept(context_);
  for (const Value& item : items) {
    const Frame frame(scopes_);
    MILLRACE_TRY(unpack(s, item));
    MILLRACE_ASSIGN(const Value condition, evaluate(*s.condition));
    if (truthy(condition)) MILLRACE_TRY(kept.append(s.at, item));
  }
  MILLRACE_ASSIGN(const Value list, context_.list(s.at, std::move(kept)));
  return std::span<const Value>(list.list->items);
}

Result<Evaluator::Flow> Evaluator::loop(const Stmt& s) {
  MILLRACE_ASSIGN(const auto items, loop_items(s));
  Loop& state = *context_.heap().loop(Loop{items, 0});
  for (const Value& item : items) {
    MILLRACE_ASSIGN(const Flow flow, iteration(s, state, item));
    if (flow == Flow::leave) break;
    ++state.index0;
  }
  if (!items.empty()) return Flow::on;
  const Frame frame(scopes_);
  return execute(s.otherwise);
}

Result<Evaluator::Flow> Evaluator::iteration(const Stmt& s, Loop& loop, const Value& item) {
  MILLRACE_TRY(context_.spend(s.at));
  const Frame frame(scopes_);
  MILLRACE_TRY(scopes_.put(s.at, "loop", Value::of(&loop)));
  MILLRACE_TRY(unpack(s, item));
  return execute(s.body);
}

Status Evaluator::set(const Stmt& s) {
  MILLRACE_ASSIGN(const Value v, evaluate(*s.value));
  return unpack(s, v);
}

Status Evaluator::unpack(const Stmt& s, const Value& value) {
  if (!s.unpack) return assign(s.targets[0], value);
  if (value.is(Kind::undefined)) return context_.undefined(s.at, value);
  MILLRACE_ASSIGN(const auto items, context_.iterate(s.at, value));
  if (items.size() != s.targets.size())
    return context_.wrong(s.at, "cannot unpack " + std::to_string(items.size()) + " values into " +
                                    std::to_string(s.targets.size()));
  for (std::size_t i = 0; i < items.size(); ++i) MILLRACE_TRY(assign(s.targets[i], items[i]));
  return {};
}

Status Evaluator::assign(const Target& target, const Value& value) {
  if (target.attribute.empty()) return scopes_.put(target.at, target.name, value);
  const Value* space = scopes_.find(target.name);
  if (space == nullptr) return context_.wrong(target.at, "'" + target.name + "' is undefined");
  if (!space->is(Kind::space))
    return context_.wrong(target.at,
                          "cannot assign attribute on non-namespace object '" + target.name + "'");
  return context_.set_attribute(target.at, *space->space, target.attribute, value);
}

Result<Value> Evaluator::capture(Position at, const Body& body, Flow& flow) {
  TextDraft outside = std::exchange(out_, TextDraft(context_));
  ++captures_;
  Result<Flow> ran = execute(body);
  --captures_;
  TextDraft text = std::exchange(out_, std::move(outside));
  MILLRACE_ASSIGN(flow, std::move(ran));
  return context_.text(at, std::move(text));
}

Result<Evaluator::Flow> Evaluator::set_block(const Stmt& s) {
  Flow flow = Flow::on;
  Value v;
  {
    const Frame frame(scopes_);
    MILLRACE_ASSIGN(v, capture(s.at, s.body, flow));
  }
  if (s.value) {
    const Frame frame(scopes_);
    MILLRACE_TRY(scopes_.put(s.at, captured_name, v));
    MILLRACE_ASSIGN(v, evaluate(*s.value));
  }
  if (s.kind == StmtKind::set_block) {
    MILLRACE_TRY(assign(s.targets[0], v));
  } else {
    MILLRACE_TRY(write(s.at, v));
  }
  return flow;
}

Result<Evaluator::Flow> Evaluator::with(const Stmt& s) {
  ListDraft values(context_);
  for (const ExprPtr& value : s.values) {
    MILLRACE_ASSIGN(const Value v, evaluate(*value));
    MILLRACE_TRY(values.append(s.at, v));
  }
  const Frame frame(scopes_);
  for (std::size_t i = 0; i < s.targets.size(); ++i)
    MILLRACE_TRY(scopes_.put(s.at, s.targets[i].name, values.items()[i]));
  return execute(s.body);
}

}  // namespace millrace::chat_template
