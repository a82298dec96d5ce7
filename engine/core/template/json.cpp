// json.dumps, as transformers configures the tojson filter: it does not escape HTML, and escapes
// characters beyond ASCII only with ensure_ascii.
#include "engine/core/template/json.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/template/drafts.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

// Writes one value and those in it.
class JsonWriter {
 public:
  JsonWriter(Context& context, Position at, const JsonStyle& style, bool tainted)
      : context_(context), at_(at), style_(style), tainted_(tainted), out_(context) {}

  Status write(const Value& v, int depth) {
    if (depth > max_depth) return context_.wrong(at_, "the value is nested too deep for JSON");
    switch (v.kind) {
      case Kind::none:
        return put("null");
      case Kind::boolean:
        return put(v.boolean ? "true" : "false");
      case Kind::integer:
        return put(std::to_string(v.integer));
      case Kind::real:
        return put(number(v.real));
      case Kind::string:
        return quoted(*v.string);
      case Kind::list:
      case Kind::tuple:
        return array(v.list->items, depth);
      case Kind::dict:
        return object(*v.dict, depth);
      default:
        return context_.wrong(
            at_, "Object of type " + std::string(type_name(v.kind)) + " is not JSON serializable");
    }
  }
  TextDraft take() && { return std::move(out_); }

 private:
  Status put(std::string_view s) { return out_.append(at_, s, tainted_); }

  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return text::repr(d);
  }

  Status quoted(std::string_view s) {
    MILLRACE_TRY(put("\""));
    MILLRACE_TRY(
        append_pieces(at_, out_, s, tainted_, [&](std::string& made, std::string_view piece) {
          text::append_json(made, piece, style_.ensure_ascii);
        }));
    return put("\"");
  }

  Status new_line(int depth) {
    if (!style_.indent) return {};
    MILLRACE_TRY(put("\n"));
    for (int i = 0; i < depth; ++i) MILLRACE_TRY(put(*style_.indent));
    return {};
  }

  Status array(const std::vector<Value>& items, int depth) {
    MILLRACE_TRY(put("["));
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) MILLRACE_TRY(put(style_.item_separator));
      MILLRACE_TRY(new_line(depth + 1));
      MILLRACE_TRY(write(items[i], depth + 1));
    }
    if (!items.empty()) MILLRACE_TRY(new_line(depth));
    return put("]");
  }

  Status object(const Dict& dict, int depth) {
    HeldMemory held(context_);
    MILLRACE_TRY(held.add(at_, dict.items.size() * sizeof(void*)));
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    for (const auto* item : items) MILLRACE_TRY(check_key(item->first));
    if (style_.sort_keys) MILLRACE_TRY(sort(items));
    MILLRACE_TRY(put("{"));
    bool first = true;
    for (const auto* item : items) {
      if (!std::exchange(first, false)) MILLRACE_TRY(put(style_.item_separator));
      MILLRACE_TRY(new_line(depth + 1));
      MILLRACE_TRY(quoted(*item->first.string));
      MILLRACE_TRY(put(style_.key_separator));
      MILLRACE_TRY(write(item->second, depth + 1));
    }
    if (!first) MILLRACE_TRY(new_line(depth));
    return put("}");
  }

  Status sort(std::vector<const std::pair<Value, Value>*>& items) {
    std::ranges::sort(items, [&](const auto* a, const auto* b) {
      const std::string &x = *a->first.string, &y = *b->first.string;
      context_.work() -=
          static_cast<std::int64_t>(1 + std::min(x.size(), y.size()) / bytes_per_step);
      return x < y;
    });
    return context_.spend(at_);
  }
  Status check_key(const Value& v) const {
    if (v.is(Kind::string)) return {};
    return context_.unsupported(at_, "JSON of a dict whose keys are not strings");
  }

  Context& context_;
  Position at_;
  const JsonStyle& style_;
  bool tainted_;
  TextDraft out_;
};

}  // namespace

Result<Value> Context::to_json(Position at, const Value& v, const JsonStyle& style) {
  JsonWriter writer(*this, at, style, heap_.taints());
  MILLRACE_TRY(writer.write(v, 0));
  return text(at, std::move(writer).take());
}

}  // namespace millrace::chat_template
