// Python's methods of dicts and lists. Those that change their receiver are refused, as in Jinja's
// immutable sandbox.
#include <array>

#include "engine/core/template/builtins.hpp"

namespace millrace::chat_template {
namespace {

Result<Value> dict_items(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  ListDraft out(c);
  for (const auto& [key, value] : self.dict->items) {
    MILLRACE_ASSIGN(const Value pair,
                    c.list(args.at, std::array<Value, 2>{key, value}, Kind::tuple));
    MILLRACE_TRY(out.append(args.at, pair));
  }
  return c.list(args.at, std::move(out));
}
Result<Value> dict_keys(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  MILLRACE_ASSIGN(const auto keys, c.iterate(args.at, self));
  return c.list(args.at, keys);
}
Result<Value> dict_values(Context& c, const Value& self, const Args& args) {
  MILLRACE_TRY(bind<0>(args, {}));
  ListDraft out(c);
  for (const auto& [key, value] : self.dict->items) MILLRACE_TRY(out.append(args.at, value));
  return c.list(args.at, std::move(out));
}
Result<Value> dict_get(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<2>(args, {"key", "default"}));
  if (!a[0]) return c.wrong(args.at, "'get' needs a key");
  const Value* found = find(*self.dict, *a[0], c.work());
  MILLRACE_TRY(c.spend(args.at));
  if (found != nullptr) return *found;
  return a[1] ? *a[1] : Value::none();
}

Result<Value> list_index(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"value"}));
  if (!a[0]) return c.wrong(args.at, "'index' needs a value");
  const auto& items = self.list->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    MILLRACE_TRY(c.spend(args.at));
    if (equal(items[i], *a[0], c.work())) return Value::of(static_cast<std::int64_t>(i));
  }
  return c.wrong(args.at, "the list does not hold the value that 'index' looks for");
}
Result<Value> list_count(Context& c, const Value& self, const Args& args) {
  MILLRACE_ASSIGN(auto a, bind<1>(args, {"value"}));
  if (!a[0]) return c.wrong(args.at, "'count' needs a value");
  std::int64_t n = 0;
  for (const Value& one : self.list->items) {
    n += equal(one, *a[0], c.work()) ? 1 : 0;
    MILLRACE_TRY(c.spend(args.at));
  }
  return Value::of(n);
}

constexpr MethodEntry methods_of_dicts[] = {
    {"items", dict_items}, {"keys", dict_keys},     {"values", dict_values}, {"get", dict_get},
    {"clear", nullptr},    {"copy", nullptr},       {"fromkeys", nullptr},   {"pop", nullptr},
    {"popitem", nullptr},  {"setdefault", nullptr}, {"update", nullptr},
};

constexpr MethodEntry methods_of_lists[] = {
    {"index", list_index}, {"count", list_count}, {"append", nullptr}, {"clear", nullptr},
    {"copy", nullptr},     {"extend", nullptr},   {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr},   {"reverse", nullptr},  {"sort", nullptr},
};

}  // namespace

std::span<const MethodEntry> dict_methods() {
  return methods_of_dicts;
}
std::span<const MethodEntry> list_methods() {
  return methods_of_lists;
}

}  // namespace millrace::chat_template
