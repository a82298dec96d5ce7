// Filters on text and numbers.
#include <charconv>
#include <cmath>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/json.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

Result<Value> filter_trim(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"chars"}));
  MILLRACE_ASSIGN(const Value s, c.to_text(args.at, input));
  const std::string* characters = nullptr;
  if (a[0] && !a[0]->is(Kind::none)) {
    MILLRACE_TRY(text_argument(args, a[0], "chars", {}));
    characters = a[0]->string;
  }
  MILLRACE_ASSIGN(Value made,
                  c.text(args.at, s.view().part(text::strip(*s.string, characters, true, true))));
  made.markup = s.markup;
  return made;
}

template <text::Case how>
Result<Value> filter_case(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(const Value s, c.to_text(args.at, input));
  MILLRACE_ASSIGN(Value made, c.change_case(args.at, s.view(), how));
  made.markup = s.markup && how != text::Case::words;  // Jinja's `title` joins a plain text
  return made;
}

// The filter reads its input as plain text, unlike the method of Markup.
Result<Value> filter_replace(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"old", "new", "count"}));
  if (!a[0] || !a[1]) return c.wrong(args.at, "'replace' needs 'old' and 'new'");
  Args call{args.at, "replace", {*a[0], *a[1]}, {}};
  for (Value& text : call.positional) {
    MILLRACE_ASSIGN(text, c.to_text(args.at, text));
  }
  if (a[2] && !a[2]->is(Kind::none)) call.positional.push_back(*a[2]);
  MILLRACE_ASSIGN(Value whole, c.to_text(args.at, input));
  whole.markup = false;
  return call_method(c, Method{whole, "replace"}, call);
}

Result<Value> filter_string(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return c.to_text(args.at, input);
}

Result<Value> filter_safe(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(Value made, filter_string(c, input, args));
  made.markup = true;
  return made;
}

template <bool again>
Result<Value> filter_escape(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(Value made, filter_string(c, input, args));
  if (again) made.markup = false;
  return escaped(c, args.at, made);
}

Result<Value> filter_indent(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"width", "first", "blank"}));
  MILLRACE_ASSIGN(const Value whole, c.to_text(args.at, input));
  if (!a[0] || !a[0]->is(Kind::string)) {
    MILLRACE_ASSIGN(std::int64_t width, integer_argument(args, a[0], "width", 4));
    if (width < 0 || width > 1000)
      return c.wrong(args.at, "the width of 'indent' must be 0 to 1000");
    a[0] = c.heap().text(TrackedText{std::string(static_cast<std::size_t>(width), ' '), {}});
  }
  const TrackedView s = whole.view(), margin = a[0]->view();
  const bool first = a[1] && truthy(*a[1]), blank = a[2] && truthy(*a[2]);
  TextDraft out(c);
  for (std::size_t begin = 0, line = 0; begin <= s.bytes.size(); ++line) {
    const std::size_t end = std::min(s.bytes.find('\n', begin), s.bytes.size());
    const bool empty = end == begin;
    if (line == 0 ? first : (blank || !empty)) MILLRACE_TRY(out.append(args.at, margin));
    MILLRACE_TRY(out.append(args.at, s.part(s.bytes.substr(begin, end + 1 - begin))));
    begin = end + 1;
  }
  MILLRACE_ASSIGN(Value made, c.text(args.at, std::move(out)));
  made.markup = whole.markup;
  return made;
}

Result<Value> filter_tojson(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<4>(args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = a[0] && truthy(*a[0]);
  style.sort_keys = a[3] && truthy(*a[3]);
  if (a[1] && a[1]->is(Kind::string)) {
    style.indent = *a[1]->string;
  } else if (a[1] && !a[1]->is(Kind::none)) {
    MILLRACE_ASSIGN(const std::int64_t indent, integer_argument(args, a[1], "indent", 0));
    if (indent > 64) return c.wrong(args.at, "'tojson' has an indent of more than 64");
    style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(indent, 0)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (a[2] && !a[2]->is(Kind::none)) {
    if (!a[2]->is_sequence() || a[2]->list->items.size() != 2)
      return c.wrong(args.at, "the separators of 'tojson' must be a pair of strings");
    const auto& pair = a[2]->list->items;
    MILLRACE_ASSIGN(style.item_separator, text_argument(args, pair[0], "separators", {}));
    MILLRACE_ASSIGN(style.key_separator, text_argument(args, pair[1], "separators", {}));
  }
  return c.to_json(args.at, input, style);
}

// Reads an integer as Python's int(text) does, with whitespace around it and one sign.
std::optional<std::int64_t> read_integer(std::string_view s) {
  s = text::strip(s, nullptr, true, true);
  if (s.starts_with('+') && s.size() > 1 && s[1] != '-') s.remove_prefix(1);
  std::int64_t i = 0;
  const auto parsed = std::from_chars(s.data(), s.data() + s.size(), i);
  if (s.empty() || parsed.ec != std::errc{} || parsed.ptr != s.data() + s.size())
    return std::nullopt;
  return i;
}

std::optional<double> read_real(std::string_view s) {
  s = text::strip(s, nullptr, true, true);
  if (s.starts_with('+') && s.size() > 1 && s[1] != '-') s.remove_prefix(1);
  double d = 0;
  const auto parsed = std::from_chars(s.data(), s.data() + s.size(), d);
  if (s.empty() || parsed.ec != std::errc{} || parsed.ptr != s.data() + s.size())
    return std::nullopt;
  return d;
}

std::optional<std::int64_t> truncated(double d) {
  if (!(std::abs(d) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(d);
}

Result<Value> filter_int(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"default", "base"}));
  MILLRACE_ASSIGN(std::int64_t base, integer_argument(args, a[1], "base", 10));
  if (base != 10) return c.unsupported(args.at, "'int' with a base other than ten");
  const Value fallback = a[0] ? *a[0] : Value::of(std::int64_t{0});
  std::optional<std::int64_t> i;
  if (input.is_integer()) {
    i = input.as_integer();
  } else if (input.is(Kind::real)) {
    i = truncated(input.real);
  } else if (input.is(Kind::string)) {
    i = read_integer(*input.string);
    if (!i)
      if (const auto d = read_real(*input.string)) i = truncated(*d);
  }
  return i ? Value::of(*i) : fallback;
}

Result<Value> filter_float(Context&, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"default"}));
  if (input.is_number()) return Value::of(input.as_real());
  if (input.is(Kind::string))
    if (const auto d = read_real(*input.string)) return Value::of(*d);
  return a[0] ? *a[0] : Value::of(0.0);
}

Result<Value> filter_abs(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  if (input.is(Kind::real)) return Value::of(std::abs(input.real));
  if (!input.is_integer() || input.as_integer() == INT64_MIN)
    return c.wrong(args.at,
                   "bad operand type for abs(): '" + std::string(type_name(input.kind)) + "'");
  return Value::of(std::abs(input.as_integer()));
}

// Returns nothing for a character that stays itself.
std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

constexpr Builtin text_table[] = {
    {"trim", filter_trim},
    {"upper", filter_case<text::Case::upper>},
    {"lower", filter_case<text::Case::lower>},
    {"capitalize", filter_case<text::Case::capitalize>},
    {"title", filter_case<text::Case::words>},
    {"replace", filter_replace},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape<false>},
    {"e", filter_escape<false>},
    {"forceescape", filter_escape<true>},
    {"indent", filter_indent},
    {"tojson", filter_tojson},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
};

}  // namespace

Result<Value> escaped(Context& c, Position at, const Value& v) {
  if (!v.is(Kind::string) || v.markup) return c.to_text(at, v);
  TextDraft out(c);
  Status status;
  v.view().for_each_run([&](std::string_view run, bool tainted) {
    while (status && !run.empty()) {
      const std::size_t plain = std::min(run.find_first_of("&<>'\""), run.size());
      if (plain > 0) status = out.append(at, run.substr(0, plain), tainted);
      run.remove_prefix(plain);
      if (!status || run.empty()) break;
      status = out.append(at, entity(run[0]), tainted);
      run.remove_prefix(1);
    }
  });
  MILLRACE_TRY(status);
  MILLRACE_ASSIGN(Value made, c.text(at, std::move(out)));
  made.markup = true;
  return made;
}

std::span<const Builtin> text_filters() {
  return text_table;
}

bool is_jinja_filter(std::string_view name) {
  for (const std::string_view known :
       {"attr", "batch", "center", "filesizeformat", "format", "groupby", "pprint", "random",
        "round", "slice", "striptags", "truncate", "urlencode", "urlize", "wordcount", "wordwrap",
        "xmlattr"})
    if (name == known) return true;
  return find_filter(name) != nullptr;
}

}  // namespace millrace::chat_template
