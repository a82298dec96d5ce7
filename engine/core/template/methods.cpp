// Python's methods of strings, dicts and lists. Methods that change their receiver are refused, as
// in Jinja's immutable sandbox.
#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

using Run = Result<Value> (*)(Context&, const Value& self, const Args&);

struct Entry {
  std::string_view name;
  Run run;  // null: Python has the method, the engine does not
};

template <bool left, bool right>
Result<Value> strip(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"chars"}));
  MILLRACE_TRY(text_argument(args, a[0], "chars", {}));
  const std::string* characters = a[0] && a[0]->is(Kind::string) ? a[0]->string : nullptr;
  return c.text(args.at, self.view().part(text::strip(*self.string, characters, left, right)));
}

bool matches(std::string_view s, std::string_view part, bool at_start) {
  return at_start ? s.starts_with(part) : s.ends_with(part);
}

template <bool at_start>
Result<Value> starts_or_ends(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"prefix"}));
  if (!a[0]) return c.wrong(args.at, "'" + std::string(args.callee) + "' needs a string");
  if (!a[0]->is(Kind::tuple)) {
    MILLRACE_ASSIGN(const std::string_view part, text_argument(args, a[0], "prefix", {}));
    return Value::of(matches(*self.string, part, at_start));
  }
  for (const Value& one : a[0]->list->items) {
    MILLRACE_ASSIGN(const std::string_view part, text_argument(args, one, "prefix", {}));
    if (matches(*self.string, part, at_start)) return Value::of(true);
  }
  return Value::of(false);
}

std::vector<std::string_view> split_at(std::string_view s, std::string_view separator,
                                       std::int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = from_right ? s.rfind(separator) : s.find(separator);
    if (found == std::string_view::npos) break;
    if (from_right) {
      parts.push_back(s.substr(found + separator.size()));
      s = s.substr(0, found);
    } else {
      parts.push_back(s.substr(0, found));
      s = s.substr(found + separator.size());
    }
  }
  parts.push_back(s);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Result<Value> split(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"sep", "maxsplit"}));
  MILLRACE_ASSIGN(std::string_view separator, text_argument(args, a[0], "sep", {}));
  MILLRACE_ASSIGN(std::int64_t limit, integer_argument(args, a[1], "maxsplit", -1));
  const bool by_blanks = !a[0] || a[0]->is(Kind::none);
  if (!by_blanks && separator.empty()) return c.wrong(args.at, "empty separator");
  if (by_blanks && from_right && limit >= 0)
    return c.unsupported(args.at, "'rsplit' by whitespace with a limit");
  std::vector<Value> out;
  for (const std::string_view part : by_blanks
                                         ? text::split_whitespace(*self.string, limit)
                                         : split_at(*self.string, separator, limit, from_right)) {
    MILLRACE_ASSIGN(Value one, c.text(args.at, self.view().part(part)));
    out.push_back(one);
  }
  return c.list(args.at, std::move(out));
}

Result<Value> splitlines(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"keepends"}));
  const bool keep = a[0] && truthy(*a[0]);
  std::vector<Value> out;
  const std::string_view s = *self.string;
  for (std::size_t begin = 0; begin < s.size();) {
    // Python has these line ends, too: \v \f \x1c-\x1e U+0085 U+2028 U+2029
    std::size_t end = begin, bytes = 0;
    for (; end < s.size() && bytes == 0; end += bytes == 0 ? 1 : 0) {
      const std::string_view rest = s.substr(end);
      if (rest.starts_with("\r\n")) {
        bytes = 2;
      } else if (std::string_view("\n\r\v\f\x1c\x1d\x1e").find(rest[0]) != std::string_view::npos) {
        bytes = 1;
      } else if (rest.starts_with("\xC2\x85")) {
        bytes = 2;
      } else if (rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9")) {
        bytes = 3;
      }
    }
    const std::string_view line = s.substr(begin, end - begin + (keep ? bytes : 0));
    MILLRACE_ASSIGN(Value one, c.text(args.at, self.view().part(line)));
    out.push_back(one);
    begin = end + bytes;
  }
  return c.list(args.at, std::move(out));
}

Result<Value> replace(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"old", "new", "count"}));
  if (!a[0] || !a[1]) return c.wrong(args.at, "'replace' needs 'old' and 'new'");
  MILLRACE_ASSIGN(const std::string_view from, text_argument(args, a[0], "old", {}));
  MILLRACE_TRY(text_argument(args, a[1], "new", {}));
  MILLRACE_ASSIGN(std::int64_t left, integer_argument(args, a[2], "count", -1));
  const TrackedView whole = self.view();
  const TrackedView to = a[1]->is(Kind::string) ? a[1]->view() : TrackedView();
  const std::string_view s = whole.bytes;
  TrackedText out;
  std::size_t at = 0;
  for (; left != 0; --left) {
    const std::size_t found = s.find(from, at);
    if (found == std::string::npos) break;
    if (from.empty()) {  // inserts `to` between all characters
      out.append(to);
      if (at == s.size()) break;
      const std::size_t bytes = text::character_bytes(s, at);
      out.append(whole.part(s.substr(at, bytes)));
      at += bytes;
    } else {
      out.append(whole.part(s.substr(at, found - at)));
      out.append(to);
      at = found + from.size();
    }
    MILLRACE_TRY(c.check_room(args.at, out));
  }
  out.append(whole.part(s.substr(at)));
  return c.text(args.at, std::move(out));
}

template <text::Case how>
Result<Value> change_case(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return c.text(args.at, chat_template::change_case(self.view(), how));
}

template <bool from_right>
Result<Value> find_text(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"sub"}));
  if (!a[0]) return c.wrong(args.at, "'" + std::string(args.callee) + "' needs a string");
  MILLRACE_ASSIGN(const std::string_view part, text_argument(args, a[0], "sub", {}));
  const std::size_t found = from_right ? self.string->rfind(part) : self.string->find(part);
  MILLRACE_TRY(c.spend(args.at, self.string->size() / 64));
  if (found == std::string::npos) return Value::of(std::int64_t{-1});
  return Value::of(
      static_cast<std::int64_t>(text::length(std::string_view(*self.string).substr(0, found))));
}

Result<Value> count_text(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"sub"}));
  if (!a[0]) return c.wrong(args.at, "'count' needs a string");
  MILLRACE_ASSIGN(const std::string_view part, text_argument(args, a[0], "sub", {}));
  MILLRACE_TRY(c.spend(args.at, self.string->size() / 64));
  if (part.empty()) return Value::of(static_cast<std::int64_t>(text::length(*self.string)) + 1);
  std::int64_t n = 0;
  for (std::size_t at = self.string->find(part); at != std::string::npos;
       at = self.string->find(part, at + part.size()))
    ++n;
  return Value::of(n);
}

Result<Value> join(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"iterable"}));
  if (!a[0]) return c.wrong(args.at, "'join' needs a list");
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, *a[0]));
  TrackedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::string))
      return c.wrong(args.at, "sequence item " + std::to_string(i) + ": expected str instance, " +
                                  std::string(type_name(items[i].kind)) + " found");
    if (i > 0) MILLRACE_TRY(c.append(args.at, out, self));
    MILLRACE_TRY(c.append(args.at, out, items[i]));
  }
  return c.text(args.at, std::move(out));
}

template <bool prefix>
Result<Value> remove_affix(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"affix"}));
  if (!a[0]) return c.wrong(args.at, "'" + std::string(args.callee) + "' needs a string");
  MILLRACE_ASSIGN(const std::string_view part, text_argument(args, a[0], "affix", {}));
  std::string_view s = *self.string;
  if (!matches(s, part, prefix)) return self;
  s = prefix ? s.substr(part.size()) : s.substr(0, s.size() - part.size());
  return c.text(args.at, self.view().part(s));
}

Result<Value> is_digits(Context&, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  for (const char c : *self.string)
    if (c < '0' || c > '9') return Value::of(false);
  return Value::of(!self.string->empty());
}

Result<Value> dict_items(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict->items) {
    MILLRACE_ASSIGN(Value pair, c.list(args.at, {key, value}, Kind::tuple));
    out.push_back(pair);
  }
  return c.list(args.at, std::move(out));
}
Result<Value> dict_keys(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(auto keys, c.iterate(args.at, self));
  return c.list(args.at, std::move(keys));
}
Result<Value> dict_values(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict->items) out.push_back(value);
  return c.list(args.at, std::move(out));
}
Result<Value> dict_get(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"key", "default"}));
  if (!a[0]) return c.wrong(args.at, "'get' needs a key");
  const Value* found = find(*self.dict, *a[0], c.work());
  MILLRACE_TRY(c.spend(args.at));
  if (found != nullptr) return *found;
  return a[1] ? *a[1] : Value::none();
}

Result<Value> list_index(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"value"}));
  if (!a[0]) return c.wrong(args.at, "'index' needs a value");
  const auto& items = self.list->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    MILLRACE_TRY(c.spend(args.at));
    if (equal(items[i], *a[0], c.work())) return Value::of(static_cast<std::int64_t>(i));
  }
  return c.wrong(args.at, "the list does not hold the value that 'index' looks for");
}
Result<Value> list_count(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"value"}));
  if (!a[0]) return c.wrong(args.at, "'count' needs a value");
  std::int64_t n = 0;
  for (const Value& one : self.list->items) {
    n += equal(one, *a[0], c.work()) ? 1 : 0;
    MILLRACE_TRY(c.spend(args.at));
  }
  return Value::of(n);
}

constexpr Entry string_methods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"startswith", starts_or_ends<true>},
    {"endswith", starts_or_ends<false>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"replace", replace},
    {"upper", change_case<text::Case::upper>},
    {"lower", change_case<text::Case::lower>},
    {"title", change_case<text::Case::title>},
    {"capitalize", change_case<text::Case::capitalize>},
    {"find", find_text<false>},
    {"rfind", find_text<true>},
    {"count", count_text},
    {"join", join},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"isdigit", is_digits},
    {"casefold", nullptr},
    {"center", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format", nullptr},
    {"format_map", nullptr},
    {"index", nullptr},
    {"isalnum", nullptr},
    {"isalpha", nullptr},
    {"isascii", nullptr},
    {"isdecimal", nullptr},
    {"isidentifier", nullptr},
    {"islower", nullptr},
    {"isnumeric", nullptr},
    {"isprintable", nullptr},
    {"isspace", nullptr},
    {"istitle", nullptr},
    {"isupper", nullptr},
    {"ljust", nullptr},
    {"maketrans", nullptr},
    {"partition", nullptr},
    {"rindex", nullptr},
    {"rjust", nullptr},
    {"rpartition", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
    {"zfill", nullptr},
};

constexpr Entry dict_methods[] = {
    {"items", dict_items}, {"keys", dict_keys},     {"values", dict_values}, {"get", dict_get},
    {"clear", nullptr},    {"copy", nullptr},       {"fromkeys", nullptr},   {"pop", nullptr},
    {"popitem", nullptr},  {"setdefault", nullptr}, {"update", nullptr},
};

constexpr Entry list_methods[] = {
    {"index", list_index}, {"count", list_count}, {"append", nullptr}, {"clear", nullptr},
    {"copy", nullptr},     {"extend", nullptr},   {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr},   {"reverse", nullptr},  {"sort", nullptr},
};

template <std::size_t count>
const Entry* find_in(const Entry (&table)[count], std::string_view name) {
  for (const Entry& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

const Entry* find_method(Kind receiver, std::string_view name) {
  switch (receiver) {
    case Kind::string:
      return find_in(string_methods, name);
    case Kind::dict:
      return find_in(dict_methods, name);
    case Kind::list:
    case Kind::tuple:
      return find_in(list_methods, name);
    default:
      return nullptr;
  }
}

template <std::size_t count>
std::vector<std::string_view> names_in(const Entry (&table)[count]) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table)
    if (entry.run != nullptr) names.push_back(entry.name);
  return names;
}

// loop.cycle(a, b, ...): each iteration returns the next argument, in turn.
Result<Value> cycle(Context& c, const Loop& loop, const Args& args) {
  if (args.positional.empty()) return c.wrong(args.at, "no items for cycling given");
  return args.positional[static_cast<std::size_t>(loop.index0) % args.positional.size()];
}

}  // namespace

bool is_method(Kind receiver, std::string_view name) {
  if (receiver == Kind::loop) return name == "cycle" || name == "changed";
  return find_method(receiver, name) != nullptr;
}

std::vector<std::string_view> method_names(Kind receiver) {
  if (receiver == Kind::string) return names_in(string_methods);
  if (receiver == Kind::dict) return names_in(dict_methods);
  return names_in(list_methods);
}

Result<Value> call_method(Context& c, const Method& method, const Args& args) {
  const Value& self = method.receiver;
  MILLRACE_TRY(c.spend(args.at));
  const TaintScope scope(c.heap(), is_tainted(self) || is_tainted(args));
  if (self.is(Kind::loop) && *method.name == "cycle") return cycle(c, *self.loop, args);
  const Entry* entry = find_method(self.kind, *method.name);
  if (entry == nullptr || entry->run == nullptr)
    return c.unsupported(args.at, "the method '" + *method.name + "' of '" +
                                      std::string(type_name(self.kind)) + "'");
  return entry->run(c, self, args);
}

}  // namespace millrace::chat_template
