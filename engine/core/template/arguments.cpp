// Matches a call's arguments with the callee's parameters.
#include <algorithm>

#include "engine/core/template/builtins.hpp"

namespace millrace::chat_template {
namespace {

std::unexpected<Error> wrong(const Args& args, std::string_view what) {
  return fail(error_at(Code::template_error, args.at,
                       "'" + std::string(args.callee) + "' " + std::string(what)));
}

}  // namespace

bool is_tainted(const Args& args) {
  return std::ranges::any_of(args.positional, [](const Value& v) { return is_tainted(v); }) ||
         std::ranges::any_of(args.named, [](const auto& one) { return is_tainted(one.second); });
}

Status spend_call(Context& c, const Value& input, const Args& args) {
  std::size_t bytes = 0;
  const auto count = [&](const Value& v) { bytes += v.is(Kind::string) ? v.string->size() : 0; };
  count(input);
  for (const Value& v : args.positional) count(v);
  for (const auto& [name, v] : args.named) count(v);
  return c.spend_bytes(args.at, bytes);
}

Status bind_all(const Args& args, const std::string_view* names, std::optional<Value>* out,
                std::size_t count) {
  if (args.positional.size() > count)
    return wrong(args, "takes at most " + std::to_string(count) + " arguments, not " +
                           std::to_string(args.positional.size()));
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    std::size_t i = 0;
    while (i < count && names[i] != name) ++i;
    if (i == count) return wrong(args, "takes no argument '" + std::string(name) + "'");
    if (out[i]) return wrong(args, "was given '" + std::string(name) + "' twice");
    out[i] = value;
  }
  return {};
}

Result<std::string_view> text_argument(const Args& args, const std::optional<Value>& value,
                                       std::string_view name, std::string_view fallback) {
  if (!value || value->is(Kind::none)) return fallback;
  if (!value->is(Kind::string))
    return wrong(args, "needs a string as '" + std::string(name) + "', not a " +
                           std::string(type_name(value->kind)));
  return std::string_view(*value->string);
}

Result<std::int64_t> integer_argument(const Args& args, const std::optional<Value>& value,
                                      std::string_view name, std::int64_t fallback) {
  if (!value || value->is(Kind::none)) return fallback;
  if (!value->is_integer())
    return wrong(args, "needs an integer as '" + std::string(name) + "', not a " +
                           std::string(type_name(value->kind)));
  return value->as_integer();
}

}  // namespace millrace::chat_template
