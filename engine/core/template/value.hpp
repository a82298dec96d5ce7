#pragma once
// The values of the template language. A Value is small and copied freely. The Heap of a rendering,
// the syntax tree or the caller's chat own what it points to, and all of them outlive it. Lists and
// dicts never change after they are made (as in Jinja's immutable sandbox); namespaces and loops
// do.
// Thread safety: none; one rendering belongs to one thread.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/template/tracked_text.hpp"
#include "schemas/base/error.hpp"

namespace millrace::chat_template {

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  space,     // namespace()
  loop,      // the `loop` variable of a for statement
  macro,     // a macro of the template
  function,  // range, raise_exception, ...
  method,    // a method bound to its receiver
};

struct List;
struct Dict;
struct Space;
struct Loop;
struct Method;
struct Stmt;
enum class Function : std::uint8_t { range, make_namespace, raise_exception, strftime_now, dict };

struct Value {
  Kind kind = Kind::undefined;
  Kind holder = Kind::undefined;  // of an undefined attribute: the kind of the value that lacks it
  bool markup = false;            // of a string: Python's Markup, which the filter `safe` makes
  union {
    bool boolean;
    std::int64_t integer;
    double real;
    const std::string* string = nullptr;  // of an undefined value: the missing name, or null
    const List* list;                     // list and tuple
    const Dict* dict;
    Space* space;
    Loop* loop;
    const Stmt* macro;
    Function function;
    const Method* method;
  };
  Taint taint = nullptr;  // set for strings only

  static Value none() { return of(Kind::none); }
  static Value undefined(const std::string* name, Kind holder = Kind::undefined) {
    Value v = of(Kind::undefined);
    v.holder = holder;
    v.string = name;
    return v;
  }
  static Value of(bool b) {
    Value v = of(Kind::boolean);
    v.boolean = b;
    return v;
  }
  static Value of(std::int64_t i) {
    Value v = of(Kind::integer);
    v.integer = i;
    return v;
  }
  static Value of(double d) {
    Value v = of(Kind::real);
    v.real = d;
    return v;
  }
  static Value of(const std::string* s, Taint taint = nullptr) {
    Value v = of(Kind::string);
    v.string = s;
    v.taint = taint;
    return v;
  }
  static Value of(const List* l, Kind kind = Kind::list) {
    Value v = of(kind);
    v.list = l;
    return v;
  }
  static Value of(const Dict* d) {
    Value v = of(Kind::dict);
    v.dict = d;
    return v;
  }
  static Value of(Space* s) {
    Value v = of(Kind::space);
    v.space = s;
    return v;
  }
  static Value of(Loop* l) {
    Value v = of(Kind::loop);
    v.loop = l;
    return v;
  }
  static Value of(const Stmt* m) {
    Value v = of(Kind::macro);
    v.macro = m;
    return v;
  }
  static Value of(Function f) {
    Value v = of(Kind::function);
    v.function = f;
    return v;
  }
  static Value of(const Method* m) {
    Value v = of(Kind::method);
    v.method = m;
    return v;
  }

  bool is(Kind k) const { return kind == k; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  bool is_integer() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integer() || kind == Kind::real; }
  // Python's view of a boolean as a number. Only for is_integer() and is_number().
  std::int64_t as_integer() const { return kind == Kind::boolean ? boolean : integer; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_integer()); }
  // The text of a string. Only for strings.
  TrackedView view() const { return {*string, taint}; }

 private:
  static Value of(Kind k) {
    Value v;
    v.kind = k;
    return v;
  }
};

struct List {
  std::vector<Value> items;
  bool tainted = false;  // whether an item is tainted
};
struct Dict {  // in order of insertion
  std::vector<std::pair<Value, Value>> items;
  bool tainted = false;
};
struct Space {
  std::unordered_map<std::string_view, Value> attributes;
};
struct Loop {
  std::span<const Value> items;
  std::int64_t index0 = 0;
};
struct Method {
  Value receiver;
  std::string_view name;
};

bool truthy(const Value& v);
// Says whether the value holds text from a message. Returns true for every namespace, loop and
// method, because their contents may change or lead to other values.
bool is_tainted(const Value& v);
// Returns the type's name in Python's error messages, such as "str" or "NoneType".
std::string_view type_name(Kind kind);
// Reading, comparing or copying so many bytes takes one step.
inline constexpr std::size_t bytes_per_step = 64;
// Python's ==. Subtracts its cost from `work`. Returns false when no work is left, or beyond
// max_depth levels. The caller must check `work` afterwards (Context::spend does).
bool equal(const Value& a, const Value& b, std::int64_t& work, int depth = 0);
inline constexpr int max_depth = 100;

// Finds a key. Returns null if it is absent.
const Value* find(const Dict& dict, const Value& key, std::int64_t& work);

// Owns the values that a rendering makes. All of them live until the rendering ends, so no value
// dangles and no cycle leaks. Context bounds `spent_bytes`.
class Heap {
 public:
  Value text(TrackedText s);
  // Makes a text whose maker does not say which bytes are tainted. TaintScope decides whether all
  // or none are.
  Value text(std::string s);
  const List* list(std::vector<Value> items);
  const Dict* dict(std::vector<std::pair<Value, Value>> items);
  // Context::set_attribute adds attributes.
  Space* space(Space space) {
    spent_bytes_ += sizeof(Space);
    return &spaces_.emplace_back(std::move(space));
  }
  Loop* loop(Loop loop) {
    spent_bytes_ += sizeof(Loop);
    return &loops_.emplace_back(loop);
  }
  const Method* method(Method method) {
    spent_bytes_ += sizeof(Method);
    return &methods_.emplace_back(method);
  }
  bool taints() const { return taints_; }  // see TaintScope
  void spend_bytes(std::size_t bytes) { spent_bytes_ += bytes; }
  std::size_t spent_bytes() const { return spent_bytes_; }

 private:
  friend class TaintScope;
  const std::string* store(std::string s) {
    spent_bytes_ += s.capacity() + sizeof(std::string);
    return &strings_.emplace_back(std::move(s));
  }

  std::size_t spent_bytes_ = 0;
  bool taints_ = true;  // whether text(std::string) makes tainted texts
  std::deque<std::string> strings_;
  std::deque<TextSpans> taints_of_strings_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Space> spaces_;
  std::deque<Loop> loops_;
  std::deque<Method> methods_;
};

// Decides the taint of texts whose maker does not say which bytes are tainted. While a scope lives,
// such a text is tainted if the inputs of the operation are; outside any scope it always is. Every
// filter, test, method, function and operator runs in a scope, so that an operation that does not
// handle taint is safe.
class TaintScope {
 public:
  TaintScope(Heap& heap, bool inputs_tainted)
      : heap_(heap), before_(std::exchange(heap.taints_, inputs_tainted)) {}
  ~TaintScope() { heap_.taints_ = before_; }
  TaintScope(const TaintScope&) = delete;
  TaintScope& operator=(const TaintScope&) = delete;

 private:
  Heap& heap_;
  bool before_;
};

}  // namespace millrace::chat_template
