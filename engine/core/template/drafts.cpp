#include "engine/core/template/drafts.hpp"

namespace millrace::chat_template {

Status TextDraft::make_room(Position at, std::size_t bytes, std::size_t spans) {
  Context& context = bytes_.context();
  MILLRACE_TRY(context.spend_bytes(at, bytes + spans * sizeof(TextSpan)));
  MILLRACE_TRY(context.check_size(at, text_.bytes.size() + bytes));
  MILLRACE_TRY(bytes_.grow(at, text_.bytes, bytes, 1));
  return spans_.grow(at, text_.taint, spans, sizeof(TextSpan));
}

Status TextDraft::append(Position at, std::string_view more, bool tainted) {
  MILLRACE_TRY(make_room(at, more.size(), tainted ? 1 : 0));
  text_.append(more, tainted);
  return {};
}

Status TextDraft::append(Position at, const TrackedView& more) {
  MILLRACE_TRY(make_room(at, more.bytes.size(), more.spans().size()));
  text_.append(more);
  return {};
}

Status ListDraft::append(Position at, std::span<const Value> more) {
  MILLRACE_TRY(held_.context().spend(at, more.size()));
  MILLRACE_TRY(held_.grow(at, items_, more.size(), sizeof(Value)));
  items_.insert(items_.end(), more.begin(), more.end());
  return {};
}

Status DictDraft::put(Position at, const Value& key, const Value& value) {
  Context& context = held_.context();
  if (!key.is(Kind::string) && !key.is_number() && !key.is(Kind::none))
    return context.wrong(at, "a '" + std::string(type_name(key.kind)) + "' cannot be a dict's key");
  for (auto& [known, old] : items_)
    if (equal(known, key, context.work())) {
      old = value;
      return context.spend(at);
    }
  MILLRACE_TRY(context.spend(at));
  MILLRACE_TRY(held_.grow(at, items_, 1, 2 * sizeof(Value)));
  items_.emplace_back(key, value);
  return {};
}

Value DictDraft::take() && {
  held_.drop_all();
  return Value::of(held_.context().heap().dict(std::move(items_)));
}

}  // namespace millrace::chat_template
