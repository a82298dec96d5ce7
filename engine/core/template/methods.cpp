// Calls the methods of strings, dicts, lists and loops.
#include "engine/core/template/builtins.hpp"

namespace millrace::chat_template {
namespace {

const MethodEntry* find_method(Kind receiver, std::string_view name) {
  std::span<const MethodEntry> table;
  if (receiver == Kind::string) table = string_methods();
  if (receiver == Kind::dict) table = dict_methods();
  if (receiver == Kind::list || receiver == Kind::tuple) table = list_methods();
  for (const MethodEntry& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

// loop.cycle(a, b, ...): each iteration returns the next argument, in turn.
Result<Value> cycle(Context& c, const Loop& loop, const Args& args) {
  if (args.positional.empty()) return c.wrong(args.at, "no items for cycling given");
  return args.positional[static_cast<std::size_t>(loop.index0) % args.positional.size()];
}

}  // namespace

bool is_method(Kind receiver, std::string_view name) {
  if (receiver == Kind::loop) return name == "cycle" || name == "changed";
  return find_method(receiver, name) != nullptr;
}

Result<Value> call_method(Context& c, const Method& method, const Args& args) {
  const Value& self = method.receiver;
  const TaintScope scope(c.heap(), is_tainted(self) || is_tainted(args));
  MILLRACE_TRY(spend_call(c, self, args));
  if (self.is(Kind::loop) && method.name == "cycle") return cycle(c, *self.loop, args);
  const MethodEntry* entry = find_method(self.kind, method.name);
  if (entry == nullptr || entry->run == nullptr)
    return c.unsupported(args.at, "the method '" + std::string(method.name) + "' of '" +
                                      std::string(type_name(self.kind)) + "'");
  return entry->run(c, self, args);
}

}  // namespace millrace::chat_template
