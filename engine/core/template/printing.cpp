// How values become text: str, repr and changes of case, as in Python. Long texts are written in
// pieces, so that the work and the memory of each piece count before it is made.
#include "engine/core/template/builtins.hpp"
#include "engine/core/template/drafts.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

Result<Value> Context::to_text(Position at, const Value& v) {
  if (v.is(Kind::string)) return v;
  TextDraft out(*this);
  MILLRACE_TRY(append(at, out, v));
  return text(at, std::move(out));
}

Status Context::append(Position at, TextDraft& out, const Value& v) {
  if (v.is(Kind::undefined)) return {};
  if (v.is(Kind::string)) return out.append(at, v.view());
  return append_repr(at, out, v, is_tainted(v), 0);
}

Result<Value> Context::change_case(Position at, const TrackedView& s, text::Case how) {
  MILLRACE_TRY(spend_bytes(at, 4 * s.bytes.size()));  // the tables of Unicode are slow to read
  TextDraft out(*this);
  text::CaseMap map(how);
  Status status;
  s.for_each_run([&](std::string_view run, bool tainted) {
    if (status) {
      status = append_pieces(at, out, run, tainted, [&](std::string& made, std::string_view piece) {
        made += map.next(piece);
      });
    }
  });
  MILLRACE_TRY(status);
  return text(at, std::move(out));
}

namespace {

Status append_quoted(Position at, TextDraft& out, const Value& v, bool tainted) {
  const char quote = text::repr_quote(*v.string);
  const std::string mark(1, quote);
  if (v.markup) MILLRACE_TRY(out.append(at, "Markup(", tainted));
  MILLRACE_TRY(out.append(at, mark, tainted));
  MILLRACE_TRY(append_pieces(
      at, out, *v.string, tainted,
      [&](std::string& made, std::string_view piece) { text::append_repr(made, piece, quote); }));
  return out.append(at, mark + (v.markup ? ")" : ""), tainted);
}

std::string_view repr_of_constant(const Value& v) {
  switch (v.kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "None";
    default:
      return v.boolean ? "True" : "False";
  }
}

}  // namespace

Status Context::append_repr(Position at, TextDraft& out, const Value& v, bool tainted, int depth) {
  if (depth > max_depth) return wrong(at, "the list is nested too deep to print");
  switch (v.kind) {
    case Kind::undefined:
    case Kind::none:
    case Kind::boolean:
      return out.append(at, repr_of_constant(v), tainted);
    case Kind::integer:
      return out.append(at, std::to_string(v.integer), tainted);
    case Kind::real:
      return out.append(at, text::repr(v.real), tainted);
    case Kind::string:
      return append_quoted(at, out, v, tainted);
    case Kind::list:
    case Kind::tuple: {
      const bool tuple = v.is(Kind::tuple);
      MILLRACE_TRY(out.append(at, tuple ? "(" : "[", tainted));
      const auto& items = v.list->items;
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) MILLRACE_TRY(out.append(at, ", ", tainted));
        MILLRACE_TRY(append_repr(at, out, items[i], tainted, depth + 1));
      }
      return out.append(at, !tuple ? "]" : items.size() == 1 ? ",)" : ")", tainted);
    }
    case Kind::dict: {
      std::string_view before = "{";
      for (const auto& [key, value] : v.dict->items) {
        MILLRACE_TRY(out.append(at, std::exchange(before, ", "), tainted));
        MILLRACE_TRY(append_repr(at, out, key, tainted, depth + 1));
        MILLRACE_TRY(out.append(at, ": ", tainted));
        MILLRACE_TRY(append_repr(at, out, value, tainted, depth + 1));
      }
      return out.append(at, v.dict->items.empty() ? "{}" : "}", tainted);
    }
    default:
      return unsupported(at, "printing a " + std::string(type_name(v.kind)));
  }
}

}  // namespace millrace::chat_template
