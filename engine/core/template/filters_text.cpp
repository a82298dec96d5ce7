// Filters on text and numbers.
#include <charconv>
#include <cmath>

#include "engine/core/template/builtins.hpp"
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
  return c.text(args.at, s.view().part(text::strip(*s.string, characters, true, true)));
}

template <text::Case how>
Result<Value> filter_case(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(const Value s, c.to_text(args.at, input));
  return c.text(args.at, change_case(s.view(), how));
}

Result<Value> filter_replace(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"old", "new", "count"}));
  if (!a[0] || !a[1]) return c.wrong(args.at, "'replace' needs 'old' and 'new'");
  MILLRACE_ASSIGN(const Value s, c.to_text(args.at, input));
  MILLRACE_ASSIGN(const Value from, c.to_text(args.at, *a[0]));
  MILLRACE_ASSIGN(const Value to, c.to_text(args.at, *a[1]));
  Args call{args.at, "replace", {from, to}, {}};
  if (a[2] && !a[2]->is(Kind::none)) call.positional.push_back(*a[2]);
  const std::string name = "replace";
  return call_method(c, Method{s, &name}, call);
}

Result<Value> filter_string(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  return c.to_text(args.at, input);
}

Result<Value> filter_safe(Context& c, const Value& input, const Args& args) {
  return filter_string(c, input, args);  // templates escape nothing, so everything is safe
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
  TrackedText out;
  for (std::size_t begin = 0, line = 0; begin <= s.bytes.size(); ++line) {
    const std::size_t end = std::min(s.bytes.find('\n', begin), s.bytes.size());
    const bool empty = end == begin;
    if (line == 0 ? first : (blank || !empty)) out.append(margin);
    out.append(s.part(s.bytes.substr(begin, end + 1 - begin)));  // the line with its line end
    begin = end + 1;
    MILLRACE_TRY(c.check_room(args.at, out));
  }
  return c.text(args.at, std::move(out));
}

Result<Value> filter_tojson(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<4>(args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  if (a[2] && !a[2]->is(Kind::none)) return c.unsupported(args.at, "'separators' of 'tojson'");
  if (a[1] && a[1]->is(Kind::string))
    return c.unsupported(args.at, "a string as 'indent' of 'tojson'");
  MILLRACE_ASSIGN(std::int64_t indent, integer_argument(args, a[1], "indent", -1));
  const bool lines = a[1] && !a[1]->is(Kind::none);
  return c.to_json(args.at, input, lines ? std::max<std::int64_t>(indent, 0) : -1,
                   a[0] && truthy(*a[0]), a[3] && truthy(*a[3]));
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

constexpr Builtin text_table[] = {
    {"trim", filter_trim},
    {"upper", filter_case<text::Case::upper>},
    {"lower", filter_case<text::Case::lower>},
    {"capitalize", filter_case<text::Case::capitalize>},
    {"title", filter_case<text::Case::words>},
    {"replace", filter_replace},
    {"string", filter_string},
    {"safe", filter_safe},
    {"indent", filter_indent},
    {"tojson", filter_tojson},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return text_table;
}

bool is_jinja_filter(std::string_view name) {
  for (const std::string_view known :
       {"attr",     "batch",     "center", "escape",    "e",        "filesizeformat", "forceescape",
        "format",   "groupby",   "pprint", "random",    "round",    "slice",          "striptags",
        "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"})
    if (name == known) return true;
  return find_filter(name) != nullptr;
}

}  // namespace millrace::chat_template
