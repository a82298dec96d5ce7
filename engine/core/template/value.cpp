#include "engine/core/template/value.hpp"

#include <algorithm>

namespace millrace::chat_template {

bool truthy(const Value& v) {
  switch (v.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return v.boolean;
    case Kind::integer:
      return v.integer != 0;
    case Kind::real:
      return v.real != 0;
    case Kind::string:
      return !v.string->empty();
    case Kind::list:
    case Kind::tuple:
      return !v.list->items.empty();
    case Kind::dict:
      return !v.dict->items.empty();
    default:
      return true;
  }
}

bool is_tainted(const Value& v) {
  switch (v.kind) {
    case Kind::string:
      return v.taint != nullptr;
    case Kind::list:
    case Kind::tuple:
      return v.list->tainted;
    case Kind::dict:
      return v.dict->tainted;
    case Kind::space:
    case Kind::loop:
    case Kind::method:
      return true;
    default:
      return false;
  }
}

std::string_view type_name(Kind kind) {
  switch (kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::macro:
      return "Macro";
    case Kind::function:
    case Kind::method:
      return "function";
  }
  return "object";
}

namespace {

bool equal_items(const Dict& a, const Dict& b, std::int64_t& work, int depth) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = find(b, key, work);
    if (other == nullptr || !equal(value, *other, work, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, std::int64_t& work, int depth) {
  if (depth > max_depth || --work < 0) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.as_integer() == b.as_integer();
    return a.as_real() == b.as_real();
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      if (a.string->size() != b.string->size()) return false;
      work -= static_cast<std::int64_t>(a.string->size() / bytes_per_step);
      return *a.string == *b.string;
    case Kind::list:
    case Kind::tuple: {
      if (a.list == b.list) return true;
      if (a.list->items.size() != b.list->items.size()) return false;
      for (std::size_t i = 0; i < a.list->items.size(); ++i)
        if (!equal(a.list->items[i], b.list->items[i], work, depth + 1)) return false;
      return true;
    }
    case Kind::dict:
      return a.dict == b.dict || equal_items(*a.dict, *b.dict, work, depth);
    case Kind::space:
      return a.space == b.space;
    case Kind::loop:
      return a.loop == b.loop;
    case Kind::macro:
      return a.macro == b.macro;
    case Kind::function:
      return a.function == b.function;
    case Kind::method:
      return a.method == b.method;
    default:
      return false;
  }
}

Value Heap::text(TrackedText s) {
  const bool whole = s.taint == TextSpans{{0, s.bytes.size()}};
  Taint taint = whole ? whole_taint() : nullptr;
  if (!whole && !s.taint.empty()) {
    spent_bytes_ += s.taint.capacity() * sizeof(TextSpan) + sizeof(TextSpans);
    taint = &taints_of_strings_.emplace_back(std::move(s.taint));
  }
  return Value::of(store(std::move(s.bytes)), taint);
}

Value Heap::text(std::string s) {
  const bool tainted = taints_ && !s.empty();
  return Value::of(store(std::move(s)), tainted ? whole_taint() : nullptr);
}

const List* Heap::list(std::vector<Value> items) {
  spent_bytes_ += items.capacity() * sizeof(Value) + sizeof(List);
  const bool tainted = std::ranges::any_of(items, is_tainted);
  return &lists_.emplace_back(List{std::move(items), tainted});
}

const Dict* Heap::dict(std::vector<std::pair<Value, Value>> items) {
  spent_bytes_ += items.capacity() * 2 * sizeof(Value) + sizeof(Dict);
  const bool tainted = std::ranges::any_of(
      items, [](const auto& item) { return is_tainted(item.first) || is_tainted(item.second); });
  return &dicts_.emplace_back(Dict{std::move(items), tainted});
}

const Value* find(const Dict& dict, const Value& key, std::int64_t& work) {
  for (const auto& [k, v] : dict.items)
    if (equal(k, key, work)) return &v;
  return nullptr;
}

}  // namespace millrace::chat_template
