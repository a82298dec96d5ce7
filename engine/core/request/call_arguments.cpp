#include "engine/core/request/call_arguments.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "schemas/base/json_writer.hpp"

namespace millrace::engine {
namespace {

// Values of jobs are nested at most limits::message_depth deep.
void write(JsonWriter& json, const Json& value) {
  if (const auto* list = std::get_if<JsonList>(&value.value)) {
    json.begin_array();
    for (const Json& item : *list) write(json, item);
    json.end_array();
  } else if (const auto* object = std::get_if<JsonObject>(&value.value)) {
    json.begin_object();
    for (const JsonMember& member : *object) {
      json.key(member.name);
      write(json, member.value);
    }
    json.end_object();
  } else {
    std::visit(
        [&json](const auto& plain) {
          using T = std::remove_cvref_t<decltype(plain)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            json.null();
          } else if constexpr (!std::is_same_v<T, JsonList> && !std::is_same_v<T, JsonObject>) {
            json.value(plain);
          }
        },
        value.value);
  }
}

Json* member(JsonObject& object, std::string_view name) {
  const auto at = std::ranges::find(object, name, &JsonMember::name);
  return at == object.end() ? nullptr : &at->value;
}
template <class T>
T* as(Json* value) {
  return value == nullptr ? nullptr : std::get_if<T>(&value->value);
}

// Returns whether the call had an object.
bool write_arguments(JsonObject& call) {
  auto* function = as<JsonObject>(member(call, "function"));
  Json* arguments = member(function == nullptr ? call : *function, "arguments");
  if (as<JsonObject>(arguments) == nullptr) return false;
  std::string text;
  JsonWriter json(text);
  write(json, *arguments);
  arguments->value = std::move(text);
  return true;
}

}  // namespace

std::optional<Chat> with_text_arguments(const Chat& chat) {
  Chat out = chat;
  bool changed = false;
  for (ChatMessage& message : out) {
    auto* calls = as<JsonList>(member(message.more, "tool_calls"));
    if (calls == nullptr) continue;
    for (Json& call : *calls) {
      if (auto* object = as<JsonObject>(&call)) changed |= write_arguments(*object);
    }
  }
  if (!changed) return std::nullopt;
  return out;
}

}  // namespace millrace::engine
