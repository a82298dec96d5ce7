// Filters on lists and dicts. Where Jinja's filter returns a generator, ours returns a list.
#include <algorithm>

#include "engine/core/template/builtins.hpp"
#include "engine/core/template/text.hpp"

namespace millrace::chat_template {
namespace {

Result<Value> filter_length(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(std::int64_t n, c.length(args.at, input));
  return Value::of(n);
}

Result<Value> filter_list(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, input));
  return c.list(args.at, items);
}

template <bool last>
Result<Value> filter_end(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  if (input.is(Kind::string) || input.is_sequence()) {
    MILLRACE_ASSIGN(const Value one,
                    c.item(args.at, input, Value::of(std::int64_t{last ? -1 : 0})));
    return one.is(Kind::undefined) ? Value::undefined(nullptr) : one;
  }
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, input));
  if (items.empty()) return Value::undefined(nullptr);
  return last ? items.back() : items.front();
}

Result<Value> filter_reverse(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  if (input.is(Kind::string)) {
    MILLRACE_ASSIGN(Value made, slice(c, args.at, input, {}, {}, -1));
    made.markup = false;
    return made;
  }
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, input));
  ListDraft out(c);
  MILLRACE_TRY(out.append(args.at, items));
  std::ranges::reverse(out.items());
  return c.list(args.at, std::move(out));
}

Result<Value> filter_default(Context&, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"default_value", "boolean"}));
  const bool falsy_too = a[1] && truthy(*a[1]);
  if (!input.is(Kind::undefined) && (!falsy_too || truthy(input))) return input;
  static const std::string empty;
  return a[0] ? *a[0] : Value::of(&empty);
}

Result<Value> filter_items(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  if (input.is(Kind::undefined)) return c.list(args.at, {});
  if (!input.is(Kind::dict)) return c.wrong(args.at, "Can only get item pairs from a mapping.");
  return call_method(c, Method{input, "items"}, Args{args.at, "items", {}, {}});
}

// Returns item.a.b for the path "a.b". Numbers in the path are positions.
Result<Value> follow(Context& c, Position at, Value v, const Value& path) {
  if (path.is_integer()) return c.item(at, v, path);
  if (!path.is(Kind::string))
    return c.wrong(at, "an attribute's name must be a string or a number");
  std::string_view rest = *path.string;
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    more = dot != std::string_view::npos;
    const std::string_view part = rest.substr(0, dot);
    const bool number = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    const Value key = number ? Value::of(std::int64_t{std::stoi(std::string(part))})
                             : c.heap().text(std::string(part));
    MILLRACE_ASSIGN(v, c.item(at, v, key));
    if (more) rest.remove_prefix(dot + 1);
  }
  return v;
}

// Returns the items, or with `path` an attribute of each.
Result<std::span<const Value>> items_or_attributes(Context& c, Position at, const Value& input,
                                                   const std::optional<Value>& path) {
  MILLRACE_ASSIGN(const auto items, c.iterate(at, input));
  if (!path || path->is(Kind::none)) return items;
  ListDraft out(c);
  for (const Value& one : items) {
    MILLRACE_ASSIGN(const Value attribute, follow(c, at, one, *path));
    MILLRACE_TRY(out.append(at, attribute));
  }
  MILLRACE_ASSIGN(const Value list, c.list(at, std::move(out)));
  return std::span<const Value>(list.list->items);
}

Result<Value> filter_join(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"d", "attribute"}));
  MILLRACE_ASSIGN(const Value separator, c.to_text(args.at, a[0].value_or(Value())));
  MILLRACE_ASSIGN(const auto items, items_or_attributes(c, args.at, input, a[1]));
  TextDraft out(c);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) MILLRACE_TRY(c.append(args.at, out, separator));
    MILLRACE_TRY(c.append(args.at, out, items[i]));
  }
  return c.text(args.at, std::move(out));
}

Args without_first(const Args& args, std::string_view callee) {
  return Args{args.at, callee, {args.positional.begin() + 1, args.positional.end()}, args.named};
}

// Jinja's map, select and their kin give nothing for none, as for every value that is false.
Result<std::span<const Value>> items_if_any(Context& c, Position at, const Value& input) {
  if (!truthy(input)) return std::span<const Value>();
  return c.iterate(at, input);
}

Result<Value> filter_map(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(const auto items, items_if_any(c, args.at, input));
  ListDraft out(c);
  if (items.empty()) return c.list(args.at, std::move(out));
  if (args.positional.empty()) {
    MILLRACE_ASSIGN(auto a, bind<2>(args, {"attribute", "default"}));
    if (!a[0]) return c.wrong(args.at, "'map' needs a filter or an attribute");
    for (const Value& one : items) {
      MILLRACE_ASSIGN(Value made, follow(c, args.at, one, *a[0]));
      if (made.is(Kind::undefined) && a[1]) made = *a[1];
      MILLRACE_TRY(out.append(args.at, made));
    }
    return c.list(args.at, std::move(out));
  }
  MILLRACE_ASSIGN(const std::string_view name, text_argument(args, args.positional[0], "name", {}));
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) return c.unsupported(args.at, "the filter '" + std::string(name) + "'");
  const Args inner = without_first(args, name);
  for (const Value& one : items) {
    MILLRACE_ASSIGN(const Value made, run_builtin(c, *filter, one, inner));
    MILLRACE_TRY(out.append(args.at, made));
  }
  return c.list(args.at, std::move(out));
}

// select and reject (by_attribute is false), selectattr and rejectattr.
template <bool by_attribute, bool wanted>
Result<Value> filter_select(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(const auto items, items_if_any(c, args.at, input));
  if (items.empty()) return c.list(args.at, items);
  Args rest{args.at, args.callee, args.positional, args.named};
  Value path;
  if (by_attribute) {
    if (rest.positional.empty()) return c.wrong(args.at, "an attribute's name is missing");
    path = rest.positional.front();
    rest = without_first(args, args.callee);
  }
  const Builtin* test = nullptr;
  if (!rest.positional.empty()) {
    MILLRACE_ASSIGN(const std::string_view name,
                    text_argument(args, rest.positional[0], "test", {}));
    test = find_test(name);
    if (test == nullptr) return c.unsupported(args.at, "the test '" + std::string(name) + "'");
    rest = without_first(rest, name);
  }
  ListDraft out(c);
  for (const Value& one : items) {
    Value probe = one;
    if (by_attribute) {
      MILLRACE_ASSIGN(probe, follow(c, args.at, one, path));
    }
    if (test != nullptr) {
      MILLRACE_ASSIGN(probe, run_builtin(c, *test, probe, rest));
    }
    if (truthy(probe) == wanted) MILLRACE_TRY(out.append(args.at, one));
  }
  return c.list(args.at, std::move(out));
}

// What a sort compares, and what it moves.
struct Keyed {
  Value key, value;
};
class Sort {
 public:
  Sort(Context& c, Position at, bool case_sensitive, bool reverse)
      : c_(c), at_(at), case_sensitive_(case_sensitive), reverse_(reverse), held_(c) {}

  Status add(Value key, const Value& value) {
    if (key.is(Kind::string) && !case_sensitive_) {
      MILLRACE_ASSIGN(key, c_.change_case(at_, key.view(), text::Case::lower));
    }
    MILLRACE_TRY(held_.grow(at_, items_, 1, sizeof(Keyed)));
    // A binary insertion is well defined even if a comparison fails midway; std::sort is not. It
    // is stable, as Python's sort is.
    std::size_t low = 0, high = items_.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      MILLRACE_ASSIGN(const bool first, before(key, items_[middle].key));
      (first ? high : low) = first ? middle : middle + 1;
    }
    MILLRACE_TRY(c_.spend(at_, 1 + (items_.size() - low) / 4));
    items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(low), {key, value});
    return {};
  }

  Result<Value> list() {
    ListDraft out(c_);
    for (const Keyed& one : items_) MILLRACE_TRY(out.append(at_, one.value));
    return c_.list(at_, std::move(out));
  }

 private:
  Result<bool> before(const Value& a, const Value& b) {
    MILLRACE_ASSIGN(const int order,
                    reverse_ ? c_.compare(at_, b, a, "<") : c_.compare(at_, a, b, "<"));
    return order < 0;
  }

  Context& c_;
  Position at_;
  bool case_sensitive_, reverse_;
  HeldMemory held_;
  std::vector<Keyed> items_;
};

Result<Value> filter_sort(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"reverse", "case_sensitive", "attribute"}));
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, input));
  MILLRACE_ASSIGN(const auto keys, items_or_attributes(c, args.at, input, a[2]));
  Sort sort(c, args.at, a[1] && truthy(*a[1]), a[0] && truthy(*a[0]));
  for (std::size_t i = 0; i < items.size(); ++i) MILLRACE_TRY(sort.add(keys[i], items[i]));
  return sort.list();
}

Result<Value> filter_dictsort(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"case_sensitive", "by", "reverse"}));
  MILLRACE_ASSIGN(const std::string_view by, text_argument(args, a[1], "by", "key"));
  if (by != "key" && by != "value")
    return c.wrong(args.at, "You can only sort by either \"key\" or \"value\"");
  MILLRACE_ASSIGN(Value pairs, filter_items(c, input, Args{args.at, "items", {}, {}}));
  Sort sort(c, args.at, a[0] && truthy(*a[0]), a[2] && truthy(*a[2]));
  for (const Value& pair : pairs.list->items)
    MILLRACE_TRY(sort.add(pair.list->items[by == "key" ? 0 : 1], pair));
  return sort.list();
}

Result<Value> filter_unique(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"case_sensitive", "attribute"}));
  MILLRACE_ASSIGN(const auto items, c.iterate(args.at, input));
  MILLRACE_ASSIGN(const auto given, items_or_attributes(c, args.at, input, a[1]));
  ListDraft keys(c), out(c);
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value key = given[i];
    if (key.is(Kind::string) && !(a[0] && truthy(*a[0]))) {
      MILLRACE_ASSIGN(key, c.change_case(args.at, key.view(), text::Case::lower));
    }
    bool seen = false;
    for (const Value& k : keys.items()) seen = seen || equal(k, key, c.work());
    MILLRACE_TRY(c.spend(args.at));
    if (seen) continue;
    MILLRACE_TRY(keys.append(args.at, key));
    MILLRACE_TRY(out.append(args.at, items[i]));
  }
  return c.list(args.at, std::move(out));
}

Result<Value> extreme(Context& c, const Value& input, const Args& args, int sign) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"case_sensitive", "attribute"}));
  Args sorting{args.at, args.callee, {}, {{"reverse", Value::of(sign < 0)}}};
  if (a[0]) sorting.named.emplace_back("case_sensitive", *a[0]);
  if (a[1]) sorting.named.emplace_back("attribute", *a[1]);
  MILLRACE_ASSIGN(Value sorted, filter_sort(c, input, sorting));
  return sorted.list->items.empty() ? Value::undefined(nullptr) : sorted.list->items.front();
}
Result<Value> filter_min(Context& c, const Value& input, const Args& args) {
  return extreme(c, input, args, 1);
}
Result<Value> filter_max(Context& c, const Value& input, const Args& args) {
  return extreme(c, input, args, -1);
}

Result<Value> filter_sum(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"attribute", "start"}));
  MILLRACE_ASSIGN(const auto items, items_or_attributes(c, args.at, input, a[0]));
  Value total = a[1] ? *a[1] : Value::of(std::int64_t{0});
  for (const Value& one : items) {
    MILLRACE_ASSIGN(total, arithmetic(c, args.at, Operation::add, total, one));
  }
  return total;
}

constexpr Builtin sequence_table[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_end<false>},
    {"last", filter_end<true>},
    {"reverse", filter_reverse},
    {"default", filter_default},
    {"d", filter_default},
    {"items", filter_items},
    {"join", filter_join},
    {"map", filter_map},
    {"select", filter_select<false, true>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<true, false>},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"unique", filter_unique},
    {"min", filter_min},
    {"max", filter_max},
    {"sum", filter_sum},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return sequence_table;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto filters : {text_filters(), sequence_filters()})
    for (const Builtin& filter : filters)
      if (filter.name == name) return &filter;
  return nullptr;
}

Result<Value> run_builtin(Context& c, const Builtin& builtin, const Value& input,
                          const Args& args) {
  const TaintScope scope(c.heap(), is_tainted(input) || is_tainted(args));
  MILLRACE_TRY(spend_call(c, input, args));
  return builtin.run(c, input, args);
}

}  // namespace millrace::chat_template
