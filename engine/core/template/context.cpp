#include "engine/core/template/context.hpp"

#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/drafts.hpp"
#include "engine/core/template/search.hpp"
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
  return check_memory(at);
}

Status Context::hold(Position at, std::size_t bytes) {
  held_bytes_ += bytes;
  const Status room = check_memory(at);
  if (!room) held_bytes_ -= bytes;
  return room;
}

Status Context::check_memory(Position at) const {
  if (heap_.spent_bytes() + held_bytes_ <= limits_.memory_bytes) return {};
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

Result<Value> Context::text(Position at, TextDraft draft) {
  const Value v = heap_.text(std::move(draft).take());
  MILLRACE_TRY(spend(at));
  return v;
}

Result<Value> Context::text(Position at, const TrackedView& s) {
  TextDraft copy(*this);
  MILLRACE_TRY(copy.append(at, s));
  return text(at, std::move(copy));
}

Result<Value> Context::text(Position at, std::string s) {
  MILLRACE_TRY(check_size(at, s.size()));
  MILLRACE_TRY(spend_bytes(at, s.size()));
  const Value v = heap_.text(std::move(s));
  MILLRACE_TRY(spend(at));
  return v;
}

Result<Value> Context::list(Position at, ListDraft draft, Kind kind) {
  const Value v = Value::of(heap_.list(std::move(draft).take()), kind);
  MILLRACE_TRY(spend(at));
  return v;
}

Result<Value> Context::list(Position at, std::span<const Value> items, Kind kind) {
  ListDraft copy(*this);
  MILLRACE_TRY(copy.append(at, items));
  return list(at, std::move(copy), kind);
}

Result<std::span<const Value>> Context::iterate(Position at, const Value& v) {
  ListDraft items(*this);
  switch (v.kind) {
    case Kind::undefined:
      return std::span<const Value>();
    case Kind::list:
    case Kind::tuple:
      MILLRACE_TRY(spend(at, v.list->items.size()));
      return std::span<const Value>(v.list->items);
    case Kind::dict:
      for (const auto& [key, value] : v.dict->items) MILLRACE_TRY(items.append(at, key));
      break;
    case Kind::string: {
      const TrackedView whole = v.view();
      for (std::size_t i = 0; i < whole.bytes.size();) {
        const std::size_t bytes = text::character_bytes(whole.bytes, i);
        MILLRACE_ASSIGN(const Value one, text(at, whole.part(whole.bytes.substr(i, bytes))));
        MILLRACE_TRY(items.append(at, one));
        i += bytes;
      }
      break;
    }
    default:
      return wrong(at, "'" + std::string(type_name(v.kind)) + "' object is not iterable");
  }
  MILLRACE_ASSIGN(const Value made, list(at, std::move(items)));
  return std::span<const Value>(made.list->items);
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
      MILLRACE_TRY(spend_bytes(at, v.string->size()));
      return static_cast<std::int64_t>(text::length(*v.string));
    case Kind::loop:
      return static_cast<std::int64_t>(v.loop->items.size());
    default:
      return wrong(at, "object of type '" + std::string(type_name(v.kind)) + "' has no len()");
  }
}

Result<bool> Context::contains(Position at, const Value& container, const Value& item) {
  MILLRACE_TRY(spend(at));
  HeldMemory scratch(*this);
  switch (container.kind) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is(Kind::string))
        return wrong(at, "'in <string>' requires string as left operand, not " +
                             std::string(type_name(item.kind)));
      MILLRACE_TRY(spend_bytes(at, container.string->size() + item.string->size()));
      if (item.string->size() > container.string->size()) return false;
      MILLRACE_TRY(scratch.add(at, Search::bytes(item.string->size())));
      return Search(*item.string).in(*container.string) != std::string::npos;
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
    MILLRACE_TRY(spend_bytes(at, std::min(a.string->size(), b.string->size())));
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

namespace {

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto n = static_cast<std::int64_t>(loop.items.size());
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
  if (name == "previtem" && i > 0) return loop.items[static_cast<std::size_t>(i - 1)];
  if (name == "nextitem" && i + 1 < n) return loop.items[static_cast<std::size_t>(i + 1)];
  return Value::undefined(&name, Kind::loop);
}

}  // namespace

Result<Value> Context::attribute(Position at, const Value& v, const std::string& name) {
  MILLRACE_TRY(spend_bytes(at, name.size()));
  if (v.is(Kind::undefined)) return undefined(at, v);
  if (is_method(v.kind, name)) return Value::of(heap_.method(Method{v, name}));
  if (v.is(Kind::dict)) {
    const Value* found = find(*v.dict, Value::of(&name), work_);
    MILLRACE_TRY(spend(at));
    if (found != nullptr) return *found;
  } else if (v.is(Kind::space)) {
    const auto found = v.space->attributes.find(name);
    if (found != v.space->attributes.end()) return found->second;
  } else if (v.is(Kind::loop)) {
    return loop_attribute(*v.loop, name);
  }
  return Value::undefined(&name, v.kind);
}

Status Context::set_attribute(Position at, Space& space, std::string_view name,
                              const Value& value) {
  MILLRACE_TRY(spend_bytes(at, name.size()));
  const auto [place, fresh] = space.attributes.insert_or_assign(name, value);
  if (fresh) heap_.spend_bytes(2 * sizeof(Value));
  return {};
}

// Returns one character of a string; undefined where there is none.
Result<Value> Context::character(Position at, const Value& v, std::int64_t index) {
  const TrackedView whole = v.view();
  const auto bytes = static_cast<std::int64_t>(whole.bytes.size());
  MILLRACE_TRY(spend_bytes(at, whole.bytes.size()));
  if (index >= bytes || index < -bytes) return Value::undefined(nullptr, v.kind);
  std::size_t from = index < 0 ? whole.bytes.size() : 0;
  if (index >= 0) from = text::forward(whole.bytes, 0, static_cast<std::size_t>(index));
  for (; index < 0; ++index) {
    if (from == 0) return Value::undefined(nullptr, v.kind);
    from = text::backward(whole.bytes, from);
  }
  if (from == whole.bytes.size()) return Value::undefined(nullptr, v.kind);
  const std::size_t size = text::character_bytes(whole.bytes, from);
  MILLRACE_ASSIGN(Value one, text(at, whole.part(whole.bytes.substr(from, size))));
  one.markup = v.markup;
  return one;
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
    return character(at, v, key.as_integer());
  }
  if (key.is(Kind::string)) {
    if (!v.is(Kind::dict) || is_method(v.kind, *key.string)) return attribute(at, v, *key.string);
    return Value::undefined(key.string, v.kind);
  }
  MILLRACE_ASSIGN(const Value shown, to_text(at, key));
  return Value::undefined(shown.string, v.kind);
}

}  // namespace millrace::chat_template
