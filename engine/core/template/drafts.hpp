#pragma once
// Texts and lists that a rendering builds piece by piece. Each piece costs steps, and the memory of
// a draft counts against the rendering's limit for as long as the draft lives.
// Thread safety: none; one rendering belongs to one thread.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/context.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

// Memory beside the heap that counts against the limit while this object lives.
class HeldMemory {
 public:
  explicit HeldMemory(Context& context) : context_(&context) {}
  HeldMemory(HeldMemory&& other) noexcept
      : context_(other.context_), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldMemory& operator=(HeldMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldMemory() { context_->release(bytes_); }

  Context& context() const { return *context_; }
  // Counts `bytes` more. Fails if the limit is reached.
  Status add(Position at, std::size_t bytes) {
    MILLRACE_TRY(context_->hold(at, bytes));
    bytes_ += bytes;
    return {};
  }
  void drop(std::size_t bytes) {
    context_->release(bytes);
    bytes_ -= bytes;
  }

  void drop_all() { drop(bytes_); }

  // Makes room for `more` items in the string or vector whose memory this object counts. The old
  // memory and the new one count together while the items move.
  Status grow(Position at, auto& container, std::size_t more, std::size_t item_bytes) {
    const std::size_t wanted = container.size() + more, before = bytes_;
    if (wanted <= container.capacity()) return {};
    const std::size_t room = std::max(wanted, 2 * container.capacity());
    MILLRACE_TRY(add(at, room * item_bytes));
    container.reserve(room);
    drop(before);
    return {};
  }

 private:
  Context* context_;
  std::size_t bytes_ = 0;
};

class TextDraft {
 public:
  explicit TextDraft(Context& context) : bytes_(context), spans_(context) {}

  Status append(Position at, std::string_view more, bool tainted);
  Status append(Position at, const TrackedView& more);

  std::size_t size() const { return text_.bytes.size(); }
  TrackedView view() const { return text_.view(); }
  TrackedText take() && {
    bytes_.drop_all();
    spans_.drop_all();
    return std::move(text_);
  }

 private:
  Status make_room(Position at, std::size_t bytes, std::size_t spans);

  HeldMemory bytes_, spans_;
  TrackedText text_;
};

// Appends what write(std::string& made, std::string_view piece) makes of a text, piece by piece. A
// piece consists of whole characters.
Status append_pieces(Position at, TextDraft& out, std::string_view s, bool tainted, auto&& write) {
  constexpr std::size_t piece_bytes = 4096;
  std::string made;
  while (!s.empty()) {
    const std::string_view piece = text::whole_prefix(s, piece_bytes);
    made.clear();
    write(made, piece);
    MILLRACE_TRY(out.append(at, made, tainted));
    s.remove_prefix(piece.size());
  }
  return {};
}

class ListDraft {
 public:
  explicit ListDraft(Context& context) : held_(context) {}

  Status append(Position at, const Value& item) { return append(at, std::span(&item, 1)); }
  Status append(Position at, std::span<const Value> more);

  std::vector<Value>& items() { return items_; }
  std::vector<Value> take() && {
    held_.drop_all();
    return std::move(items_);
  }

 private:
  HeldMemory held_;
  std::vector<Value> items_;
};

// A dict that grows pair by pair. A key that it holds keeps its place and gets the new value.
class DictDraft {
 public:
  explicit DictDraft(Context& context) : held_(context) {}

  Status put(Position at, const Value& key, const Value& value);
  Value take() &&;

 private:
  HeldMemory held_;
  std::vector<std::pair<Value, Value>> items_;
};

}  // namespace millrace::chat_template
