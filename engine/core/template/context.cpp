#include "engine/core/template/context.hpp"

#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

std::unexpected<Error> Context::wrong(Position at, std::string_view what) const {
  return fail(error_at(Code::template_error, at, what,
                       "change the messages, or send the prompt as text or tokens"));
}

std::unexpected<Error> Context::unsupported(Position at, std::string_view what) const {
  return fail(unsupported_at(at, what));
}

std::unexpected<Error> Context::undefined(Position at, const Value& v) const {
  if (v.string == nullptr) return wrong(at, "the value is undefined");
  if (v.holder == Kind::undefined) return wrong(at, "'" + *v.string + "' is undefined");
  return wrong(
      at, "'" + std::string(type_name(v.holder)) + "' object has no attribute '" + *v.string + "'");
}

Status Context::spend(Position at, std::size_t cost) {
  work_ -= static_cast<std::int64_t>(std::min<std::size_t>(cost, limits_.steps + 1));
  if (work_ < 0)
    return fail(
        error_at(Code::template_error, at,
                 "the rendering takes more than " + std::to_string(limits_.steps) + " steps",
                 "the template loops for too long; send fewer or shorter messages"));
  return check_memory(at, 0);
}

Status Context::check_memory(Position at, std::size_t more) const {
  if (heap_.spent_bytes() + more <= limits_.memory_bytes) return {};
  return fail(error_at(
      Code::template_error, at,
      "the rendering takes more than " + std::to_string(limits_.memory_bytes) + " bytes of memory",
      "the template builds too much; send fewer or shorter messages"));
}

Status Context::check_size(Position at, std::size_t text_bytes) const {
  if (text_bytes <= limits_.output_bytes) return {};
  return fail(error_at(Code::template_error, at,
                       "a text has more than " + std::to_string(limits_.output_bytes) + " bytes",
                       "send fewer or shorter messages"));
}

Status Context::check_room(Position at, const TrackedText& text, std::size_t more) const {
  MILLRACE_TRY(check_size(at, text.bytes.size() + more));
  return check_memory(at, text.taint_bytes());
}

Result<Value> Context::text(Position at, TrackedText s) {
  MILLRACE_TRY(check_room(at, s));
  const std::size_t cost = 1 + (s.bytes.size() + s.taint_bytes()) / 64;
  const Value v = heap_.text(std::move(s));
  MILLRACE_TRY(spend(at, cost));
  return v;
}

Result<Value> Context::text(Position at, const TrackedView& s) {
  TrackedText copy;
  copy.append(s);
  return text(at, std::move(copy));
}

Result<Value> Context::text(Position at, std::string s) {
  MILLRACE_TRY(check_size(at, s.size()));
  const std::size_t cost = 1 + s.size() / 64;
  const Value v = heap_.text(std::move(s));
  MILLRACE_TRY(spend(at, cost));
  return v;
}

Result<Value> Context::list(Position at, std::vector<Value> items, Kind kind) {
  const std::size_t cost = 1 + items.size();
  const Value v = Value::of(heap_.list(std::move(items)), kind);
  MILLRACE_TRY(spend(at, cost));
  return v;
}

Result<Value> Context::to_text(Position at, const Value& v) {
  if (v.is(Kind::string)) return v;
  TrackedText out;
  MILLRACE_TRY(append(at, out, v));
  return text(at, std::move(out));
}

Status Context::append(Position at, TrackedText& out, const Value& v) {
  if (v.is(Kind::undefined)) return {};
  if (v.is(Kind::string)) {
    MILLRACE_TRY(spend(at, 1 + v.string->size() / 64));
    MILLRACE_TRY(check_room(at, out, v.string->size()));
    out.append(v.view());
    return {};
  }
  std::string shown;
  MILLRACE_TRY(append_repr(at, shown, v, 0));
  MILLRACE_TRY(check_room(at, out, shown.size()));
  out.append(shown, is_tainted(v));
  return {};
}

Status Context::append_repr(Position at, std::string& out, const Value& v, int depth) {
  if (depth > max_depth) return wrong(at, "the list is nested too deep to print");
  MILLRACE_TRY(check_size(at, out.size()));
  MILLRACE_TRY(spend(at));
  switch (v.kind) {
    case Kind::undefined:
      out += "Undefined";
      return {};
    case Kind::none:
      out += "None";
      return {};
    case Kind::boolean:
      out += v.boolean ? "True" : "False";
      return {};
    case Kind::integer:
      out += std::to_string(v.integer);
      return {};
    case Kind::real:
      out += text::repr(v.real);
      return {};
    case Kind::string:
      MILLRACE_TRY(spend(at, v.string->size() / 64));
      out += text::repr(*v.string);
      return {};
    case Kind::list:
    case Kind::tuple: {
      const bool tuple = v.is(Kind::tuple);
      out += tuple ? '(' : '[';
      const auto& items = v.list->items;
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += ", ";
        MILLRACE_TRY(append_repr(at, out, items[i], depth + 1));
      }
      if (tuple && items.size() == 1) out += ',';
      out += tuple ? ')' : ']';
      return {};
    }
    case Kind::dict: {
      out += '{';
      bool first = true;
      for (const auto& [key, value] : v.dict->items) {
        if (!first) out += ", ";
        first = false;
        MILLRACE_TRY(append_repr(at, out, key, depth + 1));
        out += ": ";
        MILLRACE_TRY(append_repr(at, out, value, depth + 1));
      }
      out += '}';
      return {};
    }
    default:
      return unsupported(at, "printing a " + std::string(type_name(v.kind)));
  }
}

Result<std::vector<Value>> Context::iterate(Position at, const Value& v) {
  std::vector<Value> items;
  switch (v.kind) {
    case Kind::undefined:
      return items;
    case Kind::list:
    case Kind::tuple:
      MILLRACE_TRY(spend(at, v.list->items.size()));
      return v.list->items;
    case Kind::dict:
      for (const auto& [key, value] : v.dict->items) items.push_back(key);
      MILLRACE_TRY(spend(at, items.size()));
      return items;
    case Kind::string:
      for (std::size_t i = 0; i < v.string->size();) {
        const std::size_t bytes = text::character_bytes(*v.string, i);
        const TrackedView whole = v.view();
        MILLRACE_ASSIGN(Value one, text(at, whole.part(whole.bytes.substr(i, bytes))));
        items.push_back(one);
        i += bytes;
      }
      return items;
    default:
      return wrong(at, "'" + std::string(type_name(v.kind)) + "' object is not iterable");
  }
}

Result<std::int64_t> Context::length(Position at, const Value& v) {
  switch (v.kind) {
    case Kind::undefined:
      return 0;
    case Kind::list:
    case Kind::tuple:
      return static_cast<std::int64_t>(v.list->items.size());
    case Kind::dict:
      return static_cast<std::int64_t>(v.dict->items.size());
    case Kind::string:
      MILLRACE_TRY(spend(at, v.string->size() / 64));
      return static_cast<std::int64_t>(text::length(*v.string));
    case Kind::loop:
      return static_cast<std::int64_t>(v.loop->items->size());
    default:
      return wrong(at, "object of type '" + std::string(type_name(v.kind)) + "' has no len()");
  }
}

Result<bool> Context::contains(Position at, const Value& container, const Value& item) {
  MILLRACE_TRY(spend(at));
  switch (container.kind) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is(Kind::string))
        return wrong(at, "'in <string>' requires string as left operand, not " +
                             std::string(type_name(item.kind)));
      MILLRACE_TRY(spend(at, container.string->size() / 64));
      return container.string->find(*item.string) != std::string::npos;
    case Kind::list:
    case Kind::tuple:
      for (const Value& one : container.list->items) {
        if (equal(one, item, work_)) return true;
        MILLRACE_TRY(spend(at));
      }
      return false;
    case Kind::dict: {
      const bool found = find(*container.dict, item, work_) != nullptr;
      MILLRACE_TRY(spend(at));
      return found;
    }
    default:
      return wrong(
          at, "argument of type '" + std::string(type_name(container.kind)) + "' is not iterable");
  }
}

Result<int> Context::compare(Position at, const Value& a, const Value& b,
                             std::string_view operation) {
  if (a.is(Kind::undefined)) return undefined(at, a);
  if (b.is(Kind::undefined)) return undefined(at, b);
  MILLRACE_TRY(spend(at));
  if (a.is_integer() && b.is_integer()) {
    const std::int64_t x = a.as_integer(), y = b.as_integer();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is_number() && b.is_number()) {
    const double x = a.as_real(), y = b.as_real();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is(Kind::string) && b.is(Kind::string)) {
    // The order of UTF-8 bytes is that of code points.
    const int order = a.string->compare(*b.string);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const auto &x = a.list->items, &y = b.list->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      const bool same = equal(x[i], y[i], work_);
      MILLRACE_TRY(spend(at));
      if (!same) return compare(at, x[i], y[i], operation);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  return wrong(at, "'" + std::string(operation) + "' not supported between instances of '" +
                       std::string(type_name(a.kind)) + "' and '" + std::string(type_name(b.kind)) +
                       "'");
}

Value Context::loop_attribute(const Loop& loop, const std::string& name) {
  const auto n = static_cast<std::int64_t>(loop.items->size());
  const std::int64_t i = loop.index0;
  if (name == "index") return Value::of(i + 1);
  if (name == "index0") return Value::of(i);
  if (name == "revindex") return Value::of(n - i);
  if (name == "revindex0") return Value::of(n - i - 1);
  if (name == "first") return Value::of(i == 0);
  if (name == "last") return Value::of(i + 1 == n);
  if (name == "length") return Value::of(n);
  // The levels of a recursive loop. The parser refuses those, so it is always the first level.
  if (name == "depth") return Value::of(std::int64_t{1});
  if (name == "depth0") return Value::of(std::int64_t{0});
  if (name == "previtem" && i > 0) return (*loop.items)[static_cast<std::size_t>(i - 1)];
  if (name == "nextitem" && i + 1 < n) return (*loop.items)[static_cast<std::size_t>(i + 1)];
  return Value::undefined(heap_.name(name), Kind::loop);
}

Result<Value> Context::attribute(Position at, const Value& v, const std::string& name) {
  MILLRACE_TRY(spend(at));
  if (v.is(Kind::undefined)) return undefined(at, v);
  if (is_method(v.kind, name)) return Value::of(heap_.method(Method{v, heap_.name(name)}));
  if (v.is(Kind::dict)) {
    MILLRACE_TRY(spend(at, v.dict->items.size() / 4));
    if (const Value* found = find(*v.dict, name)) return *found;
  } else if (v.is(Kind::space)) {
    for (const auto& [key, value] : v.space->attributes)
      if (key == name) return value;
  } else if (v.is(Kind::loop)) {
    return loop_attribute(*v.loop, name);
  }
  return Value::undefined(heap_.name(name), v.kind);
}

Result<Value> Context::item(Position at, const Value& v, const Value& key) {
  MILLRACE_TRY(spend(at));
  if (v.is(Kind::undefined)) return undefined(at, v);
  if (v.is(Kind::dict)) {
    const Value* found = find(*v.dict, key, work_);
    MILLRACE_TRY(spend(at));
    if (found != nullptr) return *found;
  } else if (v.is_sequence() && key.is_integer()) {
    const auto n = static_cast<std::int64_t>(v.list->items.size());
    const std::int64_t i = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
    if (i >= 0 && i < n) return v.list->items[static_cast<std::size_t>(i)];
  } else if (v.is(Kind::string) && key.is_integer()) {
    MILLRACE_TRY(spend(at, v.string->size() / 8));
    const std::vector<std::size_t> at_byte = text::offsets(*v.string);
    const auto n = static_cast<std::int64_t>(at_byte.size()) - 1;
    const std::int64_t i = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
    if (i >= 0 && i < n) {
      const std::size_t from = at_byte[static_cast<std::size_t>(i)];
      const TrackedView whole = v.view();
      const std::size_t bytes = text::character_bytes(whole.bytes, from);
      return text(at, whole.part(whole.bytes.substr(from, bytes)));
    }
  }
  if (key.is(Kind::string)) {
    if (!v.is(Kind::dict)) return attribute(at, v, *key.string);
    if (is_method(v.kind, *key.string)) return attribute(at, v, *key.string);
    return Value::undefined(key.string, v.kind);
  }
  MILLRACE_ASSIGN(const Value shown, to_text(at, key));
  return Value::undefined(shown.string, v.kind);
}

}  // namespace millrace::chat_template
