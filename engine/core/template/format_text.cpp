// str.format, as in Python: {}, {0}, {name}, {name.attribute[key]}, !s and !r, and the common
// format specifications of texts and numbers.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

// [[fill]align][sign][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0;
  bool commas = false;
  std::optional<std::size_t> width, precision;
};

constexpr std::size_t most_width = 1000;

std::optional<std::size_t> number(std::string_view& s) {
  std::size_t n = 0;
  const auto parsed = std::from_chars(s.data(), s.data() + s.size(), n);
  if (parsed.ec != std::errc{}) return std::nullopt;
  s.remove_prefix(static_cast<std::size_t>(parsed.ptr - s.data()));
  return n;
}

// Returns nothing for a specification outside this subset.
std::optional<Spec> read_spec(std::string_view s) {
  constexpr std::string_view aligns = "<>^=";
  Spec spec;
  const std::size_t first = s.empty() ? 0 : text::character_bytes(s, 0);
  if (s.size() > first && aligns.contains(s[first])) {
    spec.fill = s.substr(0, first);
    spec.align = s[first];
    s.remove_prefix(first + 1);
  } else if (!s.empty() && aligns.contains(s[0])) {
    spec.align = s[0];
    s.remove_prefix(1);
  }
  if (!s.empty() && std::string_view("+- ").contains(s[0])) {
    spec.sign = s[0];
    s.remove_prefix(1);
  }
  if (s.starts_with('0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = number(s);
  if (s.starts_with(',')) {
    spec.commas = true;
    s.remove_prefix(1);
  }
  if (s.starts_with('.')) {
    s.remove_prefix(1);
    spec.precision = number(s);
    if (!spec.precision) return std::nullopt;
  }
  if (!s.empty()) {
    spec.type = s[0];
    s.remove_prefix(1);
  }
  if (!s.empty() || spec.width.value_or(0) > most_width || spec.precision.value_or(0) > most_width)
    return std::nullopt;
  return spec;
}

std::string with_commas(std::string digits) {
  std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  while (end > 3) digits.insert(end -= 3, 1, ',');
  return digits;
}

// Writes the digits of a number without its sign; nothing for a type that does not fit it.
std::optional<std::string> digits_of(const Value& v, const Spec& spec) {
  if (v.is_integer() && (spec.type == 0 || spec.type == 'd')) {
    std::string digits = std::to_string(v.as_integer());
    if (digits.starts_with('-')) digits.erase(0, 1);
    return spec.precision ? std::nullopt : std::optional(digits);
  }
  const double d = std::abs(v.as_real());
  if (spec.type == 0 && !spec.precision && v.is(Kind::real)) return text::repr(d);
  if (spec.type != 'f' && spec.type != 'e' && spec.type != 'g') return std::nullopt;
  const char format[] = {'%', '.', '*', spec.type, '\0'};
  const int precision = static_cast<int>(spec.precision.value_or(6));
  std::string out(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, precision, d)), '\0');
  std::snprintf(out.data(), out.size() + 1, format, precision, d);
  return out;
}

class Formatter {
 public:
  Formatter(Context& c, const Value& pattern, const Args& args)
      : c_(c), args_(args), at_(args.at), pattern_(pattern), out_(c) {}

  Result<Value> run() {
    const TrackedView whole = pattern_.view();
    std::string_view s = whole.bytes;
    while (!s.empty()) {
      const std::size_t plain = std::min(s.find_first_of("{}"), s.size());
      MILLRACE_TRY(out_.append(at_, whole.part(s.substr(0, plain))));
      s.remove_prefix(plain);
      if (s.empty()) break;
      if (s.size() > 1 && s[1] == s[0]) {  // a doubled brace is one
        MILLRACE_TRY(out_.append(at_, whole.part(s.substr(0, 1))));
        s.remove_prefix(2);
        continue;
      }
      const std::size_t end = s.find('}');
      if (s[0] == '}' || end == s.npos)
        return c_.wrong(at_, std::string("single '") + s[0] + "' in the pattern of 'format'");
      MILLRACE_TRY(field(s.substr(1, end - 1)));
      s.remove_prefix(end + 1);
    }
    MILLRACE_ASSIGN(Value made, c_.text(at_, std::move(out_)));
    made.markup = pattern_.markup;
    return made;
  }

 private:
  Status field(std::string_view s) {
    const std::size_t colon = std::min(s.find(':'), s.size());
    std::string_view name = s.substr(0, colon);
    const std::string_view spec = s.substr(std::min(colon + 1, s.size()));
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    MILLRACE_ASSIGN(Value v, value(name));
    if (conversion == 'r') {
      MILLRACE_ASSIGN(v, repr(v));
    } else if (conversion == 's') {
      MILLRACE_ASSIGN(v, c_.to_text(at_, v));
    } else if (conversion != 0) {
      return c_.unsupported(at_, std::string("'!") + conversion + "' of 'format'");
    }
    if (pattern_.markup) {
      MILLRACE_ASSIGN(v, c_.to_text(at_, v));
      MILLRACE_ASSIGN(v, escaped(c_, at_, v));
    }
    return write(v, spec);
  }

  Result<Value> repr(const Value& v) {
    MILLRACE_ASSIGN(const Value list, c_.list(at_, std::span(&v, 1)));
    MILLRACE_ASSIGN(const Value shown, c_.to_text(at_, list));
    return slice(c_, at_, shown, 1, -1, 1);  // without the brackets
  }

  // Returns the value that a name such as `0`, `x`, `x.y` or `x[0]` stands for.
  Result<Value> value(std::string_view name) {
    const std::size_t first = std::min(name.find_first_of(".["), name.size());
    MILLRACE_ASSIGN(Value v, argument(name.substr(0, first)));
    name.remove_prefix(first);
    while (!name.empty()) {
      const bool bracket = name[0] == '[';
      name.remove_prefix(1);
      const std::size_t end = std::min(name.find_first_of(bracket ? "]" : ".["), name.size());
      const std::string_view key = name.substr(0, end);
      name.remove_prefix(std::min(end + (bracket ? 1 : 0), name.size()));
      std::string_view rest = key;
      const auto index = number(rest);
      if (bracket && index && rest.empty()) {
        MILLRACE_ASSIGN(v, c_.item(at_, v, Value::of(static_cast<std::int64_t>(*index))));
      } else {
        MILLRACE_ASSIGN(const Value text, c_.text(at_, std::string(key)));
        MILLRACE_ASSIGN(v, c_.item(at_, v, text));
      }
    }
    return v;
  }

  Result<Value> argument(std::string_view name) {
    std::string_view rest = name;
    std::optional<std::size_t> index = number(rest);
    if (name.empty()) index = next_++;
    if (index && rest.empty()) {
      if (*index < args_.positional.size()) return args_.positional[*index];
      return c_.wrong(at_, "'format' has no argument " + std::to_string(*index));
    }
    for (const auto& [known, v] : args_.named)
      if (known == name) return v;
    return c_.wrong(at_, "'format' has no argument '" + std::string(name) + "'");
  }

  Status write(const Value& v, std::string_view spec_text) {
    if (spec_text.empty()) return c_.append(at_, out_, v);
    const auto unknown = [&] {
      return c_.unsupported(at_, "the format '" + std::string(spec_text) + "'");
    };
    const auto spec = read_spec(spec_text);
    if (!spec) return unknown();
    if (v.is(Kind::string)) {
      if (spec->type != 0 && spec->type != 's') return unknown();
      Value shown = v;
      if (spec->precision) {
        MILLRACE_ASSIGN(shown,
                        slice(c_, at_, v, 0, static_cast<std::int64_t>(*spec->precision), 1));
      }
      return padded(*spec, {}, shown, '<');
    }
    if (!v.is_number() || v.is(Kind::boolean)) return unknown();
    auto digits = digits_of(v, *spec);
    if (!digits) return unknown();
    if (spec->commas) digits = with_commas(*digits);
    const bool negative = v.as_real() < 0;
    const std::string sign = negative ? "-" : spec->sign == '-' ? "" : std::string(1, spec->sign);
    return padded(*spec, sign, c_.heap().text(TrackedText{*digits, {}}), '>');
  }

  Status padded(const Spec& spec, const std::string& sign, const Value& v, char usual) {
    const std::size_t size = sign.size() + text::length(*v.string);
    const std::size_t more = spec.width.value_or(0) > size ? *spec.width - size : 0;
    const char align = spec.align == 0 ? usual : spec.align;
    const std::size_t before = align == '>' ? more : align == '^' ? more / 2 : 0;
    const std::size_t inside = align == '=' ? more : 0;
    MILLRACE_TRY(fill(spec, before));
    MILLRACE_TRY(out_.append(at_, sign, false));
    MILLRACE_TRY(fill(spec, inside));
    MILLRACE_TRY(c_.append(at_, out_, v));
    return fill(spec, more - before - inside);
  }
  Status fill(const Spec& spec, std::size_t count) {
    for (; count > 0; --count) MILLRACE_TRY(out_.append(at_, spec.fill, c_.heap().taints()));
    return {};
  }

  Context& c_;
  const Args& args_;
  Position at_;
  const Value& pattern_;
  TextDraft out_;
  std::size_t next_ = 0;  // the argument that the next {} stands for
};

}  // namespace

Result<Value> format_text(Context& c, const Value& pattern, const Args& args) {
  return Formatter(c, pattern, args).run();
}

}  // namespace millrace::chat_template
