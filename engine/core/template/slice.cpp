// value[start:stop:step], as in Python.
#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

// The positions from, from + step... of `count` items.
struct Selection {
  std::size_t from, count;
};

// Clips the ends as Python does.
Selection select(std::int64_t n, std::optional<std::int64_t> start,
                 std::optional<std::int64_t> stop, std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clip = [&](std::int64_t i) { return std::clamp(i < 0 ? i + n : i, low, high); };
  const std::int64_t from = start ? clip(*start) : step > 0 ? low : high;
  const std::int64_t to = stop ? clip(*stop) : step > 0 ? high : low;
  const std::int64_t span = step > 0 ? to - from : from - to;
  if (span <= 0) return {0, 0};
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  return {static_cast<std::size_t>(from),
          static_cast<std::size_t>((static_cast<std::uint64_t>(span) - 1) / stride + 1)};
}

Result<Value> slice_text(Context& c, Position at, const Value& of,
                         std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                         std::int64_t step) {
  const TrackedView whole = of.view();
  const std::string_view s = whole.bytes;
  MILLRACE_TRY(c.spend_bytes(at, 2 * s.size()));
  const auto n = static_cast<std::int64_t>(text::length(s));
  const auto [from, count] = select(n, start, stop, step);
  std::size_t place = text::forward(s, 0, from);
  TextDraft out(c);
  if (step == 1) {
    const std::size_t end = text::forward(s, place, count);
    MILLRACE_TRY(out.append(at, whole.part(s.substr(place, end - place))));
  } else {
    MILLRACE_TRY(c.spend(at, s.size() / 8));  // the characters are visited one by one
    for (std::size_t i = 0; i < count; ++i) {
      MILLRACE_TRY(out.append(at, whole.part(s.substr(place, text::character_bytes(s, place)))));
      if (i + 1 == count) break;
      if (step > 0) place = text::forward(s, place, static_cast<std::size_t>(step));
      for (std::int64_t back = step; back < 0; ++back) place = text::backward(s, place);
    }
  }
  MILLRACE_ASSIGN(Value made, c.text(at, std::move(out)));
  made.markup = of.markup;
  return made;
}

}  // namespace

Result<Value> slice(Context& c, Position at, const Value& of, std::optional<std::int64_t> start,
                    std::optional<std::int64_t> stop, std::int64_t step) {
  if (step == 0) return c.wrong(at, "slice step cannot be zero");
  if (of.is(Kind::undefined)) return c.undefined(at, of);
  if (of.is(Kind::string)) return slice_text(c, at, of, start, stop, step);
  if (!of.is_sequence()) return Value::undefined(nullptr);
  const auto& items = of.list->items;
  const auto [from, count] = select(static_cast<std::int64_t>(items.size()), start, stop, step);
  ListDraft out(c);
  for (std::size_t i = 0; i < count; ++i)
    MILLRACE_TRY(out.append(at, items[from + i * static_cast<std::size_t>(step)]));
  return c.list(at, std::move(out), of.kind);
}

}  // namespace millrace::chat_template
