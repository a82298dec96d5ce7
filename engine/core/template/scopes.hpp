#pragma once
// The variables of a rendering. They live in frames: a for loop's body, a macro and a `with` open a
// frame; `if` does not. An assignment writes to the innermost frame, so that a `set` inside a loop
// has no effect outside of it, as in Jinja. A name is found by its hash, however many variables
// there are and however deep the frames nest. Thread safety: none.
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/template/context.hpp"

namespace millrace::chat_template {

class Scopes {
 public:
  // Begins with one frame, the outermost.
  explicit Scopes(Context& context) : context_(context) {}

  void open() { frames_.push_back(log_.size()); }
  void close();
  // Assigns in the innermost frame. The name must outlive this object.
  Status put(Position at, std::string_view name, const Value& value);
  // Returns null for an unknown name.
  const Value* find(std::string_view name) const;

  // Hides all open frames but the outermost; a macro sees its parameters and the template's
  // outermost variables only. Returns what `restore` needs to show them again.
  std::size_t hide() { return std::exchange(visible_from_, frames_.size() + 1); }
  void restore(std::size_t hidden) { visible_from_ = hidden; }

 private:
  struct Binding {
    std::size_t frame;  // 0: the outermost
    Value value;
  };
  using Bindings = std::vector<Binding>;  // of one name, by frame

  Context& context_;
  std::unordered_map<std::string_view, Bindings> names_;
  std::vector<Bindings*> log_;       // what the frames have bound, in order
  std::vector<std::size_t> frames_;  // for each inner frame, where it begins in log_
  std::size_t visible_from_ = 0;
};

// Keeps a frame open while this object lives.
class Frame {
 public:
  explicit Frame(Scopes& scopes) : scopes_(scopes) { scopes.open(); }
  ~Frame() { scopes_.close(); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Scopes& scopes_;
};

// Hides the callers' frames from a macro while this object lives.
class MacroView {
 public:
  explicit MacroView(Scopes& scopes) : scopes_(scopes), hidden_(scopes.hide()) {}
  ~MacroView() { scopes_.restore(hidden_); }
  MacroView(const MacroView&) = delete;
  MacroView& operator=(const MacroView&) = delete;

 private:
  Scopes& scopes_;
  std::size_t hidden_;
};

}  // namespace millrace::chat_template
