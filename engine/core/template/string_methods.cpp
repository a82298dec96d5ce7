// Python's methods of strings.
#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/search.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

// The result of a method of Markup is Markup, too.
Result<Value> like(const Value& self, Result<Value> made) {
  if (made) made->markup = self.markup;
  return made;
}

// Methods of Markup escape the texts that they write into it.
Result<Value> written(Context& c, const Value& self, const Args& args, const Value& text) {
  return self.markup ? escaped(c, args.at, text) : Result<Value>(text);
}

// Returns an argument that must be there and be a string.
Result<Value> text_of(Context& c, const Args& args, const std::optional<Value>& value,
                      std::string_view name) {
  if (!value) return c.wrong(args.at, "'" + std::string(args.callee) + "' needs a string");
  if (!value->is(Kind::string))
    return c.wrong(args.at, "'" + std::string(args.callee) + "' needs a string as '" +
                                std::string(name) + "', not a " +
                                std::string(type_name(value->kind)));
  return *value;
}

template <bool left, bool right>
Result<Value> strip(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"chars"}));
  MILLRACE_TRY(text_argument(args, a[0], "chars", {}));
  const std::string* characters = a[0] && a[0]->is(Kind::string) ? a[0]->string : nullptr;
  return like(
      self, c.text(args.at, self.view().part(text::strip(*self.string, characters, left, right))));
}

bool matches(std::string_view s, std::string_view part, bool at_start) {
  return at_start ? s.starts_with(part) : s.ends_with(part);
}

template <bool at_start>
Result<Value> starts_or_ends(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"prefix"}));
  if (!a[0] || !a[0]->is(Kind::tuple)) {
    MILLRACE_ASSIGN(const Value part, text_of(c, args, a[0], "prefix"));
    return Value::of(matches(*self.string, *part.string, at_start));
  }
  for (const Value& one : a[0]->list->items) {
    MILLRACE_ASSIGN(const Value part, text_of(c, args, one, "prefix"));
    MILLRACE_TRY(c.spend_bytes(args.at, part.string->size()));
    if (matches(*self.string, *part.string, at_start)) return Value::of(true);
  }
  return Value::of(false);
}

// The parts of a text, as a list.
class Pieces {
 public:
  Pieces(Context& c, Position at, const Value& self) : c_(c), at_(at), self_(self), list_(c) {}

  Status add(std::string_view part) {
    MILLRACE_ASSIGN(const Value one, like(self_, c_.text(at_, self_.view().part(part))));
    return list_.append(at_, one);
  }
  std::size_t count() { return list_.items().size(); }
  void reverse() { std::ranges::reverse(list_.items()); }
  Result<Value> list() { return c_.list(at_, std::move(list_)); }

 private:
  Context& c_;
  Position at_;
  const Value& self_;
  ListDraft list_;
};

// Splits at whitespace. The last part keeps the whitespace at its far end, as in Python.
Status split_blanks(Pieces& out, std::string_view s, std::int64_t limit, bool from_right) {
  for (;;) {
    s = text::strip(s, nullptr, !from_right, from_right);
    if (s.empty()) return {};
    const bool rest = limit >= 0 && static_cast<std::int64_t>(out.count()) == limit;
    const std::size_t bytes = rest ? s.size() : text::word_bytes(s, from_right);
    MILLRACE_TRY(out.add(from_right ? s.substr(s.size() - bytes) : s.substr(0, bytes)));
    from_right ? s.remove_suffix(bytes) : s.remove_prefix(bytes);
  }
}

Status split_at(Pieces& out, std::string_view s, const Search& search, std::size_t separator_bytes,
                std::int64_t limit, bool from_right) {
  while (limit < 0 || static_cast<std::int64_t>(out.count()) < limit) {
    const std::size_t found = search.in(s);
    if (found == std::string_view::npos) break;
    if (from_right) {
      MILLRACE_TRY(out.add(s.substr(found + separator_bytes)));
      s = s.substr(0, found);
    } else {
      MILLRACE_TRY(out.add(s.substr(0, found)));
      s = s.substr(found + separator_bytes);
    }
  }
  return out.add(s);
}

// Makes a search for a needle and counts its memory.
Result<Search> search_for(HeldMemory& held, Position at, std::string_view needle, bool from_right) {
  MILLRACE_TRY(held.add(at, Search::bytes(needle.size())));
  return Search(needle, from_right);
}

template <bool from_right>
Result<Value> split(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"sep", "maxsplit"}));
  MILLRACE_ASSIGN(std::string_view separator, text_argument(args, a[0], "sep", {}));
  MILLRACE_ASSIGN(std::int64_t limit, integer_argument(args, a[1], "maxsplit", -1));
  Pieces out(c, args.at, self);
  if (!a[0] || a[0]->is(Kind::none)) {
    MILLRACE_TRY(split_blanks(out, *self.string, limit, from_right));
  } else {
    if (separator.empty()) return c.wrong(args.at, "empty separator");
    HeldMemory held(c);
    MILLRACE_ASSIGN(const Search search, search_for(held, args.at, separator, from_right));
    MILLRACE_TRY(split_at(out, *self.string, search, separator.size(), limit, from_right));
  }
  if (from_right) out.reverse();
  return out.list();
}

template <bool from_right>
Result<Value> partition(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"sep"}));
  MILLRACE_ASSIGN(const Value separator, text_of(c, args, a[0], "sep"));
  if (separator.string->empty()) return c.wrong(args.at, "empty separator");
  HeldMemory held(c);
  MILLRACE_ASSIGN(const Search search, search_for(held, args.at, *separator.string, from_right));
  const std::string_view s = *self.string, sep = *separator.string;
  const std::size_t found = search.in(s);
  const bool none = found == s.npos;
  const std::size_t begin = !none ? found : from_right ? 0 : s.size();
  const std::size_t end = none ? begin : found + sep.size();
  ListDraft out(c);
  for (const std::string_view part :
       {s.substr(0, begin), s.substr(begin, end - begin), s.substr(end)}) {
    MILLRACE_ASSIGN(const Value one, like(self, c.text(args.at, self.view().part(part))));
    MILLRACE_TRY(out.append(args.at, one));
  }
  return c.list(args.at, std::move(out), Kind::tuple);
}

Result<Value> splitlines(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"keepends"}));
  const bool keep = a[0] && truthy(*a[0]);
  Pieces out(c, args.at, self);
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
    MILLRACE_TRY(out.add(line));
    begin = end + bytes;
  }
  return out.list();
}

Result<Value> replace(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"old", "new", "count"}));
  if (!a[0] || !a[1]) return c.wrong(args.at, "'replace' needs 'old' and 'new'");
  MILLRACE_ASSIGN(Value old, text_of(c, args, a[0], "old"));
  MILLRACE_ASSIGN(Value fresh, text_of(c, args, a[1], "new"));
  MILLRACE_ASSIGN(old, written(c, self, args, old));
  MILLRACE_ASSIGN(fresh, written(c, self, args, fresh));
  MILLRACE_ASSIGN(std::int64_t left, integer_argument(args, a[2], "count", -1));
  const std::string_view from = *old.string;
  const TrackedView whole = self.view(), to = fresh.view();
  HeldMemory held(c);
  MILLRACE_ASSIGN(const Search search, search_for(held, args.at, from, false));
  TextDraft out(c);
  std::string_view s = whole.bytes;
  for (; left != 0; --left) {
    const std::size_t found = search.in(s);
    if (found == s.npos) break;
    // An empty text is found between all characters.
    const std::size_t step = from.empty() && !s.empty() ? text::character_bytes(s, 0) : 0;
    MILLRACE_TRY(out.append(args.at, whole.part(s.substr(0, found))));
    MILLRACE_TRY(out.append(args.at, to));
    MILLRACE_TRY(out.append(args.at, whole.part(s.substr(found, step))));
    s = s.substr(found + from.size() + step);
    if (from.empty() && step == 0) break;
  }
  MILLRACE_TRY(out.append(args.at, whole.part(s)));
  return like(self, c.text(args.at, std::move(out)));
}

template <text::Case how>
Result<Value> change_case(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return like(self, c.change_case(args.at, self.view(), how));
}

// find, rfind, index and rindex
template <bool from_right, bool must_be_there>
Result<Value> find_text(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"sub"}));
  MILLRACE_ASSIGN(const Value part, text_of(c, args, a[0], "sub"));
  HeldMemory held(c);
  MILLRACE_ASSIGN(const Search search, search_for(held, args.at, *part.string, from_right));
  const std::size_t found = search.in(*self.string);
  if (found != std::string::npos)
    return Value::of(
        static_cast<std::int64_t>(text::length(std::string_view(*self.string).substr(0, found))));
  if (must_be_there) return c.wrong(args.at, "substring not found");
  return Value::of(std::int64_t{-1});
}

Result<Value> count_text(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"sub"}));
  MILLRACE_ASSIGN(const Value part, text_of(c, args, a[0], "sub"));
  if (part.string->empty())
    return Value::of(static_cast<std::int64_t>(text::length(*self.string)) + 1);
  HeldMemory held(c);
  MILLRACE_ASSIGN(const Search search, search_for(held, args.at, *part.string, false));
  std::int64_t n = 0;
  std::string_view s = *self.string;
  for (std::size_t at = search.in(s); at != s.npos; at = search.in(s), ++n)
    s.remove_prefix(at + part.string->size());
  return Value::of(n);
}

Result<Value> join(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"iterable"}));
  if (!a[0]) return c.wrong(args.at, "'join' needs a list");
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, *a[0]));
  TextDraft out(c);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::string))
      return c.wrong(args.at, "sequence item " + std::to_string(i) + ": expected str instance, " +
                                  std::string(type_name(items[i].kind)) + " found");
    if (i > 0) MILLRACE_TRY(c.append(args.at, out, self));
    MILLRACE_ASSIGN(const Value one, written(c, self, args, items[i]));
    MILLRACE_TRY(c.append(args.at, out, one));
  }
  return like(self, c.text(args.at, std::move(out)));
}

template <bool prefix>
Result<Value> remove_affix(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"affix"}));
  MILLRACE_ASSIGN(Value part, text_of(c, args, a[0], "affix"));
  MILLRACE_ASSIGN(part, written(c, self, args, part));
  std::string_view s = *self.string;
  const std::size_t bytes = part.string->size();
  if (!matches(s, *part.string, prefix)) return self;
  s = prefix ? s.substr(bytes) : s.substr(0, s.size() - bytes);
  return like(self, c.text(args.at, self.view().part(s)));
}

template <bool (*holds)(std::string_view)>
Result<Value> test_of(Context&, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return Value::of(holds(*self.string));
}

constexpr MethodEntry methods[] = {
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
    {"find", find_text<false, false>},
    {"rfind", find_text<true, false>},
    {"count", count_text},
    {"join", join},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"isdigit", test_of<text::is_digits>},
    {"index", find_text<false, true>},
    {"rindex", find_text<true, true>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"format", format_text},
    {"islower", test_of<text::is_lower>},
    {"isupper", test_of<text::is_upper>},
    {"isspace", test_of<text::is_blank>},
    {"isalpha", test_of<text::is_letters>},
    {"isalnum", test_of<text::is_letters_or_numbers>},
    {"casefold", nullptr},
    {"center", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format_map", nullptr},
    {"isascii", nullptr},
    {"isdecimal", nullptr},
    {"isidentifier", nullptr},
    {"isnumeric", nullptr},
    {"isprintable", nullptr},
    {"istitle", nullptr},
    {"ljust", nullptr},
    {"maketrans", nullptr},
    {"rjust", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
    {"zfill", nullptr},
};

}  // namespace

std::span<const MethodEntry> string_methods() {
  return methods;
}

}  // namespace millrace::chat_template
