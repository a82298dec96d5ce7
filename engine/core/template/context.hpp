#pragma once
// What one rendering shares: its heap, its limits, and Python's basic operations on values.
// A rendering that exceeds a limit ends with template_error, so a template that loops for ever or
// builds too much costs bounded time and memory.
// Thread safety: none; one rendering belongs to one thread.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/template/chat_template.hpp"
#include "engine/core/template/lexer.hpp"
#include "engine/core/template/value.hpp"

namespace millrace::chat_template {

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
  // Fails if a text of this size exceeds the limit.
  Status check_size(Position at, std::size_t text_bytes) const;
  // Fails if `more` further bytes in a growing text exceed the limits.
  Status check_room(Position at, const TrackedText& text, std::size_t more = 0) const;
  // Makes a string value and checks its size. TaintScope decides the taint of a plain std::string.
  Result<Value> text(Position at, TrackedText s);
  Result<Value> text(Position at, const TrackedView& s);
  Result<Value> text(Position at, std::string s);
  Result<Value> list(Position at, std::vector<Value> items, Kind kind = Kind::list);

  // str(v). Writes the items of lists and dicts with repr. An undefined value gives an empty text.
  // to_text returns a string unchanged.
  Result<Value> to_text(Position at, const Value& v);
  Status append(Position at, TrackedText& out, const Value& v);
  // json.dumps(v); indent < 0 writes one line.
  Result<Value> to_json(Position at, const Value& v, std::int64_t indent, bool ensure_ascii,
                        bool sort_keys);

  Result<std::vector<Value>> iterate(Position at, const Value& v);
  Result<std::int64_t> length(Position at, const Value& v);
  Result<bool> contains(Position at, const Value& container, const Value& item);
  Result<int> compare(Position at, const Value& a, const Value& b, std::string_view operation);

  Result<Value> attribute(Position at, const Value& v, const std::string& name);
  Result<Value> item(Position at, const Value& v, const Value& key);

  std::unexpected<Error> wrong(Position at, std::string_view what) const;
  std::unexpected<Error> unsupported(Position at, std::string_view what) const;
  // The error for the use of an undefined value: "'x' is undefined".
  std::unexpected<Error> undefined(Position at, const Value& v) const;

 private:
  Status check_memory(Position at, std::size_t more) const;  // with `more` bytes beside the heap's
  Status append_repr(Position at, std::string& out, const Value& v, int depth);
  Status append_json(Position at, std::string& out, const Value& v, struct JsonStyle& style,
                     int depth);
  Value loop_attribute(const Loop& loop, const std::string& name);

  TemplateLimits limits_;
  std::int64_t now_s_;
  std::int64_t work_;
  Heap heap_;
};

}  // namespace millrace::chat_template
