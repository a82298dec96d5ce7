#include "engine/core/template/evaluator.hpp"

namespace millrace::chat_template {

Result<TrackedText> Evaluator::run(const Body& body) {
  MILLRACE_TRY(execute(body));
  return std::move(out_);
}

void Evaluator::put(std::string_view name, Value value) {
  for (auto& [known, old] : frames_.back())
    if (known == name) {
      old = value;
      return;
    }
  frames_.back().emplace_back(name, value);
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
      MILLRACE_TRY(context_.append(s.at, out_, Value::of(&s.name)));
      return Flow::on;
    case StmtKind::print: {
      MILLRACE_ASSIGN(const Value v, evaluate(*s.value));
      MILLRACE_TRY(context_.append(s.at, out_, v));
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
      put(s.name, Value::of(&s));
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
Result<std::vector<Value>> Evaluator::loop_items(const Stmt& s) {
  MILLRACE_ASSIGN(const Value source, evaluate(*s.value));
  MILLRACE_ASSIGN(std::vector<Value> items, context_.iterate(s.at, source));
  if (!s.condition) return items;
  std::vector<Value> kept;
  for (const Value& item : items) {
    frames_.emplace_back();
    const Status unpacked = unpack(s, item);
    Result<Value> condition = unpacked ? evaluate(*s.condition) : fail(unpacked.error());
    frames_.pop_back();
    MILLRACE_TRY(condition);
    if (truthy(*condition)) kept.push_back(item);
  }
  return kept;
}

Result<Evaluator::Flow> Evaluator::loop(const Stmt& s) {
  MILLRACE_ASSIGN(std::vector<Value> items, loop_items(s));
  MILLRACE_ASSIGN(const Value list, context_.list(s.at, std::move(items)));
  Loop& state = *context_.heap().loop(Loop{&list.list->items, 0});
  for (const Value& item : list.list->items) {
    MILLRACE_ASSIGN(const Flow flow, iteration(s, state, item));
    if (flow == Flow::leave) break;
    ++state.index0;
  }
  if (!list.list->items.empty()) return Flow::on;
  frames_.emplace_back();
  auto flow = execute(s.otherwise);
  frames_.pop_back();
  return flow;
}

Result<Evaluator::Flow> Evaluator::iteration(const Stmt& s, Loop& loop, const Value& item) {
  MILLRACE_TRY(context_.spend(s.at));
  frames_.push_back({{"loop", Value::of(&loop)}});
  const Status unpacked = unpack(s, item);
  Result<Flow> flow = unpacked ? execute(s.body) : fail(unpacked.error());
  frames_.pop_back();
  return flow;
}

Status Evaluator::set(const Stmt& s) {
  MILLRACE_ASSIGN(const Value v, evaluate(*s.value));
  return unpack(s, v);
}

Status Evaluator::unpack(const Stmt& s, const Value& value) {
  if (!s.unpack) return assign(s.targets[0], value);
  if (value.is(Kind::undefined)) return context_.undefined(s.at, value);
  MILLRACE_ASSIGN(const std::vector<Value> items, context_.iterate(s.at, value));
  if (items.size() != s.targets.size())
    return context_.wrong(s.at, "cannot unpack " + std::to_string(items.size()) + " values into " +
                                    std::to_string(s.targets.size()));
  for (std::size_t i = 0; i < items.size(); ++i) MILLRACE_TRY(assign(s.targets[i], items[i]));
  return {};
}

Status Evaluator::assign(const Target& target, const Value& value) {
  if (target.attribute.empty()) {
    put(target.name, value);
    return {};
  }
  Expr name;
  name.name = target.name;
  MILLRACE_ASSIGN(const Value space, lookup(name));
  if (!space.is(Kind::space))
    return context_.wrong(target.at,
                          "cannot assign attribute on non-namespace object '" + target.name + "'");
  for (auto& [known, old] : space.space->attributes)
    if (known == target.attribute) {
      old = value;
      return {};
    }
  space.space->attributes.emplace_back(target.attribute, value);
  return {};
}

Result<TrackedText> Evaluator::capture(const Body& body, Frame frame, Flow& flow) {
  TrackedText outside = std::exchange(out_, {});
  frames_.push_back(std::move(frame));
  Result<Flow> ran = execute(body);
  frames_.pop_back();
  TrackedText text = std::exchange(out_, std::move(outside));
  MILLRACE_ASSIGN(flow, std::move(ran));
  return text;
}

Result<Evaluator::Flow> Evaluator::set_block(const Stmt& s) {
  Flow flow = Flow::on;
  MILLRACE_ASSIGN(TrackedText text, capture(s.body, {}, flow));
  MILLRACE_ASSIGN(Value v, context_.text(s.at, std::move(text)));
  if (s.value) {
    frames_.push_back({{captured_name, v}});
    Result<Value> filtered = evaluate(*s.value);
    frames_.pop_back();
    MILLRACE_ASSIGN(v, std::move(filtered));
  }
  if (s.kind == StmtKind::set_block) {
    MILLRACE_TRY(assign(s.targets[0], v));
  } else {
    MILLRACE_TRY(context_.append(s.at, out_, v));
  }
  return flow;
}

Result<Evaluator::Flow> Evaluator::with(const Stmt& s) {
  Frame frame;
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    MILLRACE_ASSIGN(const Value v, evaluate(*s.values[i]));
    frame.emplace_back(s.targets[i].name, v);
  }
  frames_.push_back(std::move(frame));
  auto flow = execute(s.body);
  frames_.pop_back();
  return flow;
}

}  // namespace millrace::chat_template
