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
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  return c.list(args.at, std::move(items));
}

Result<Value> filter_first(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  return items.empty() ? Value::undefined(nullptr) : items.front();
}

Result<Value> filter_last(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  return items.empty() ? Value::undefined(nullptr) : items.back();
}

Result<Value> filter_reverse(Context& c, const Value& input, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  std::reverse(items.begin(), items.end());
  if (!input.is(Kind::string)) return c.list(args.at, std::move(items));
  TrackedText out;
  for (const Value& one : items) out.append(one.view());
  return c.text(args.at, std::move(out));
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
  const std::string name = "items";
  return call_method(c, Method{input, &name}, Args{args.at, "items", {}, {}});
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

Result<Value> filter_join(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"d", "attribute"}));
  MILLRACE_ASSIGN(const Value separator, c.to_text(args.at, a[0].value_or(Value())));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  TrackedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (a[1] && !a[1]->is(Kind::none)) {
      MILLRACE_ASSIGN(items[i], follow(c, args.at, items[i], *a[1]));
    }
    if (i > 0) MILLRACE_TRY(c.append(args.at, out, separator));
    MILLRACE_TRY(c.append(args.at, out, items[i]));
  }
  return c.text(args.at, std::move(out));
}

Args without_first(const Args& args, std::string_view callee) {
  return Args{args.at, callee, {args.positional.begin() + 1, args.positional.end()}, args.named};
}

Result<Value> filter_map(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  if (args.positional.empty()) {
    MILLRACE_ASSIGN(auto a, bind<2>(args, {"attribute", "default"}));
    if (!a[0]) return c.wrong(args.at, "'map' needs a filter or an attribute");
    for (Value& one : items) {
      MILLRACE_ASSIGN(one, follow(c, args.at, one, *a[0]));
      if (one.is(Kind::undefined) && a[1]) one = *a[1];
    }
    return c.list(args.at, std::move(items));
  }
  MILLRACE_ASSIGN(const std::string_view name, text_argument(args, args.positional[0], "name", {}));
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) return c.unsupported(args.at, "the filter '" + std::string(name) + "'");
  const Args inner = without_first(args, name);
  for (Value& one : items) {
    MILLRACE_ASSIGN(one, run_builtin(c, *filter, one, inner));
  }
  return c.list(args.at, std::move(items));
}

// select and reject (by_attribute is false), selectattr and rejectattr.
template <bool by_attribute, bool wanted>
Result<Value> filter_select(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  Args rest = args;
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
  std::vector<Value> out;
  for (const Value& one : items) {
    Value probe = one;
    if (by_attribute) {
      MILLRACE_ASSIGN(probe, follow(c, args.at, one, path));
    }
    if (test != nullptr) {
      MILLRACE_ASSIGN(probe, run_builtin(c, *test, probe, rest));
    }
    if (truthy(probe) == wanted) out.push_back(one);
  }
  return c.list(args.at, std::move(out));
}

struct Keyed {
  Value key, value;
};

// Sorts by key. The sort is stable, as in Python, and ignores the case of texts unless
// `case_sensitive` is set.
Status sort(Context& c, Position at, std::vector<Keyed>& items, bool case_sensitive, bool reverse) {
  if (!case_sensitive)
    for (Keyed& one : items)
      if (one.key.is(Kind::string)) {
        MILLRACE_ASSIGN(one.key, c.text(at, text::change_case(*one.key.string, text::Case::lower)));
      }
  std::optional<Error> error;
  const auto before = [&](const Keyed& a, const Keyed& b) {
    const auto order =
        reverse ? c.compare(at, b.key, a.key, "<") : c.compare(at, a.key, b.key, "<");
    if (!order && !error) error = order.error();
    return order && *order < 0;
  };
  // A binary insertion sort is well defined even if a comparison fails midway; std::sort is not.
  std::vector<Keyed> sorted;
  for (const Keyed& one : items) {
    std::size_t low = 0, high = sorted.size();
    while (low < high && !error) {
      const std::size_t middle = (low + high) / 2;
      if (before(one, sorted[middle])) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (error) return fail(*error);
    MILLRACE_TRY(c.spend(at, 1 + (sorted.size() - low) / 4));
    sorted.insert(sorted.begin() + static_cast<std::ptrdiff_t>(low), one);
  }
  items = std::move(sorted);
  return {};
}

Result<Value> filter_sort(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"reverse", "case_sensitive", "attribute"}));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  std::vector<Keyed> keyed;
  for (const Value& one : items) {
    Value key = one;
    if (a[2] && !a[2]->is(Kind::none)) {
      MILLRACE_ASSIGN(key, follow(c, args.at, one, *a[2]));
    }
    keyed.push_back({key, one});
  }
  MILLRACE_TRY(sort(c, args.at, keyed, a[1] && truthy(*a[1]), a[0] && truthy(*a[0])));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].value;
  return c.list(args.at, std::move(items));
}

Result<Value> filter_dictsort(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<3>(args, {"case_sensitive", "by", "reverse"}));
  MILLRACE_ASSIGN(const std::string_view by, text_argument(args, a[1], "by", "key"));
  if (by != "key" && by != "value")
    return c.wrong(args.at, "You can only sort by either \"key\" or \"value\"");
  MILLRACE_ASSIGN(Value pairs, filter_items(c, input, Args{args.at, "items", {}, {}}));
  std::vector<Keyed> keyed;
  for (const Value& pair : pairs.list->items)
    keyed.push_back({pair.list->items[by == "key" ? 0 : 1], pair});
  MILLRACE_TRY(sort(c, args.at, keyed, a[0] && truthy(*a[0]), a[2] && truthy(*a[2])));
  std::vector<Value> out;
  for (const Keyed& one : keyed) out.push_back(one.value);
  return c.list(args.at, std::move(out));
}

Result<Value> filter_unique(Context& c, const Value& input, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"case_sensitive", "attribute"}));
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  std::vector<Value> keys, out;
  for (const Value& one : items) {
    Value key = one;
    if (a[1] && !a[1]->is(Kind::none)) {
      MILLRACE_ASSIGN(key, follow(c, args.at, one, *a[1]));
    }
    if (key.is(Kind::string) && !(a[0] && truthy(*a[0]))) {
      MILLRACE_ASSIGN(key, c.text(args.at, text::change_case(*key.string, text::Case::lower)));
    }
    bool seen = false;
    for (const Value& k : keys) seen = seen || equal(k, key, c.work());
    MILLRACE_TRY(c.spend(args.at));
    if (seen) continue;
    keys.push_back(key);
    out.push_back(one);
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
  MILLRACE_ASSIGN(auto items, c.iterate(args.at, input));
  Value total = a[1] ? *a[1] : Value::of(std::int64_t{0});
  for (Value one : items) {
    if (a[0] && !a[0]->is(Kind::none)) {
      MILLRACE_ASSIGN(one, follow(c, args.at, one, *a[0]));
    }
    MILLRACE_ASSIGN(total, arithmetic(c, args.at, Operation::add, total, one));
  }
  return total;
}

constexpr Builtin sequence_table[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
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
  return builtin.run(c, input, args);
}

}  // namespace millrace::chat_template
