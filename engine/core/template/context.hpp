#pragma once
// What one rendering shares: its heap, its limits, and Python's basic operations on values.
// Every operation spends steps for the values and the bytes that it touches, and counts the memory
// that it takes, before it does the work. So a template that loops for ever or builds too much
// costs bounded time and memory: a rendering that exceeds a limit ends with template_error.
// Thread safety: none; one rendering belongs to one thread.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/template/chat_template.hpp"
#include "engine/core/template/lexer.hpp"
#include "engine/core/template/value.hpp"

namespace millrace::chat_template {

class TextDraft;
class ListDraft;

class Context {
 public:
  Context(const TemplateLimits& limits, std::int64_t now_s)
      : limits_(limits), now_s_(now_s), work_(static_cast<std::int64_t>(limits.steps)) {}

  Heap& heap() { return heap_; }
  std::int64_t now_s() const { return now_s_; }
  const TemplateLimits& limits() const { return limits_; }
  std::int64_t& work() { return work_; }

  // Uses up `cost` steps. Fails when the steps or the memory have run out.
  Status spend(Position at, std::size_t cost = 1);
  // Uses up the steps for reading or copying so many bytes.
  Status spend_bytes(Position at, std::size_t bytes) {
    return spend(at, 1 + bytes / bytes_per_step);
  }
  // Counts memory beside the heap until it is released. Fails if the limit is reached.
  Status hold(Position at, std::size_t bytes);
  void release(std::size_t bytes) { held_bytes_ -= bytes; }
  // Fails if a text of this size exceeds the limit.
  Status check_size(Position at, std::size_t text_bytes) const;

  // Makes a string value. TaintScope decides the taint of a plain std::string.
  Result<Value> text(Position at, TextDraft draft);
  Result<Value> text(Position at, const TrackedView& s);
  Result<Value> text(Position at, std::string s);
  Result<Value> list(Position at, ListDraft draft, Kind kind = Kind::list);
  Result<Value> list(Position at, std::span<const Value> items, Kind kind = Kind::list);

  // str(v). Writes the items of lists and dicts with repr. An undefined value gives an empty text.
  // to_text returns a string unchanged.
  Result<Value> to_text(Position at, const Value& v);
  Status append(Position at, TextDraft& out, const Value& v);
  // json.dumps(v).
  Result<Value> to_json(Position at, const Value& v, const struct JsonStyle& style);
  Result<Value> change_case(Position at, const TrackedView& s, text::Case how);

  // The items of a list, the keys of a dict, the characters of a string. They live as long as the
  // heap. An undefined value has none.
  Result<std::span<const Value>> iterate(Position at, const Value& v);
  Result<std::int64_t> length(Position at, const Value& v);
  Result<bool> contains(Position at, const Value& container, const Value& item);
  Result<int> compare(Position at, const Value& a, const Value& b, std::string_view operation);

  // `name` must live as long as the heap.
  Result<Value> attribute(Position at, const Value& v, const std::string& name);
  Status set_attribute(Position at, Space& space, std::string_view name, const Value& value);
  Result<Value> item(Position at, const Value& v, const Value& key);

  std::unexpected<Error> wrong(Position at, std::string_view what) const;
  std::unexpected<Error> unsupported(Position at, std::string_view what) const;
  // The error for the use of an undefined value: "'x' is undefined".
  std::unexpected<Error> undefined(Position at, const Value& v) const;

 private:
  Status check_memory(Position at) const;
  Status append_repr(Position at, TextDraft& out, const Value& v, bool tainted, int depth);
  Result<Value> character(Position at, const Value& v, std::int64_t index);

  TemplateLimits limits_;
  std::int64_t now_s_;
  std::int64_t work_;
  std::size_t held_bytes_ = 0;
  Heap heap_;
};

}  // namespace millrace::chat_template
