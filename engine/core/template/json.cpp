// json.dumps, as transformers configures the tojson filter: it does not escape HTML, and escapes
// characters beyond ASCII only with ensure_ascii.
#include <algorithm>
#include <cmath>

#include "engine/core/template/context.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

struct JsonStyle {
  std::int64_t indent;
  bool ensure_ascii;
  bool sort_keys;
};

namespace {

void new_line(std::string& out, const JsonStyle& style, int depth) {
  if (style.indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(style.indent) * static_cast<std::size_t>(depth), ' ');
}

std::string json_number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return text::repr(d);
}

}  // namespace

Result<Value> Context::to_json(Position at, const Value& v, std::int64_t indent, bool ensure_ascii,
                               bool sort_keys) {
  if (indent > 64) return wrong(at, "'tojson' has an indent of more than 64");
  JsonStyle style{indent, ensure_ascii, sort_keys};
  std::string out;
  MILLRACE_TRY(append_json(at, out, v, style, 0));
  return text(at, std::move(out));
}

Status Context::append_json(Position at, std::string& out, const Value& v, JsonStyle& style,
                            int depth) {
  if (depth > max_depth) return wrong(at, "the value is nested too deep for JSON");
  MILLRACE_TRY(spend(at));
  MILLRACE_TRY(check_size(at, out.size()));
  const std::string_view separator = style.indent < 0 ? ", " : ",";
  switch (v.kind) {
    case Kind::none:
      out += "null";
      return {};
    case Kind::boolean:
      out += v.boolean ? "true" : "false";
      return {};
    case Kind::integer:
      out += std::to_string(v.integer);
      return {};
    case Kind::real:
      out += json_number(v.real);
      return {};
    case Kind::string:
      MILLRACE_TRY(spend(at, v.string->size() / 64));
      text::append_json(out, *v.string, style.ensure_ascii);
      return {};
    case Kind::list:
    case Kind::tuple: {
      out += '[';
      bool first = true;
      for (const Value& one : v.list->items) {
        if (!first) out += separator;
        first = false;
        new_line(out, style, depth + 1);
        MILLRACE_TRY(append_json(at, out, one, style, depth + 1));
      }
      if (!first) new_line(out, style, depth);
      out += ']';
      return {};
    }
    case Kind::dict:
      break;
    default:
      return wrong(
          at, "Object of type " + std::string(type_name(v.kind)) + " is not JSON serializable");
  }
  auto items = v.dict->items;
  for (const auto& [key, value] : items)
    if (!key.is(Kind::string)) return unsupported(at, "JSON of a dict whose keys are not strings");
  if (style.sort_keys)
    std::sort(items.begin(), items.end(),
              [](const auto& a, const auto& b) { return *a.first.string < *b.first.string; });
  out += '{';
  bool first = true;
  for (const auto& [key, value] : items) {
    if (!first) out += separator;
    first = false;
    new_line(out, style, depth + 1);
    text::append_json(out, *key.string, style.ensure_ascii);
    out += ": ";
    MILLRACE_TRY(append_json(at, out, value, style, depth + 1));
  }
  if (!first) new_line(out, style, depth);
  out += '}';
  return {};
}

}  // namespace millrace::chat_template
