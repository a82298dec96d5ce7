#include "engine/core/template/inputs.hpp"

#include <algorithm>

#include "engine/core/template/drafts.hpp"

namespace millrace::chat_template {
namespace {

Value text_of(const std::string& s) {
  return Value::of(&s, s.empty() ? nullptr : whole_taint());
}

// A role that is a plain word counts as the template's own text, because templates build tokens
// from roles ('<|' + role + '|>'). That is safe: ChatTemplate refuses a role that the template does
// not know, and a word alone spells no special token.
Taint taint_of_role(std::string_view role) {
  const bool word = std::ranges::all_of(role, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return word ? nullptr : whole_taint();
}

const std::string role_key = "role", content_key = "content", type_key = "type", text_key = "text";

class Converter {
 public:
  explicit Converter(Context& context) : context_(context) {}

  Result<Value> list(const JsonList& items) {
    ListDraft out(context_);
    for (const Json& item : items) {
      MILLRACE_ASSIGN(const Value v, value(item));
      MILLRACE_TRY(out.append({}, v));
    }
    return context_.list({}, std::move(out));
  }

  Result<Value> value(const Json& json) {
    if (const auto* items = std::get_if<JsonList>(&json.value)) return list(*items);
    if (const auto* object = std::get_if<JsonObject>(&json.value)) {
      DictDraft out(context_);
      MILLRACE_TRY(put(out, *object));
      return std::move(out).take();
    }
    if (const auto* text = std::get_if<std::string>(&json.value)) return text_of(*text);
    if (const auto* b = std::get_if<bool>(&json.value)) return Value::of(*b);
    if (const auto* i = std::get_if<std::int64_t>(&json.value)) return Value::of(*i);
    if (const auto* d = std::get_if<double>(&json.value)) return Value::of(*d);
    return Value::none();
  }

  Result<Value> message(const ChatMessage& message, bool parts) {
    DictDraft out(context_);
    MILLRACE_TRY(
        out.put({}, Value::of(&role_key), Value::of(&message.role, taint_of_role(message.role))));
    Value content = message.content ? text_of(*message.content) : Value::none();
    if (parts && !message.parts.empty()) {
      MILLRACE_ASSIGN(content, part_list(message.parts));
    }
    MILLRACE_TRY(out.put({}, Value::of(&content_key), content));
    MILLRACE_TRY(put(out, message.more));
    return std::move(out).take();
  }

 private:
  Status put(DictDraft& out, const JsonObject& object) {
    for (const auto& [name, member] : object) {
      MILLRACE_ASSIGN(const Value v, value(member));
      MILLRACE_TRY(out.put({}, text_of(name), v));
    }
    return {};
  }

  Result<Value> part_list(const std::vector<std::string>& parts) {
    ListDraft out(context_);
    for (const std::string& part : parts) {
      DictDraft one(context_);
      MILLRACE_TRY(one.put({}, Value::of(&type_key), Value::of(&text_key)));
      MILLRACE_TRY(one.put({}, Value::of(&text_key), text_of(part)));
      MILLRACE_TRY(out.append({}, std::move(one).take()));
    }
    return context_.list({}, std::move(out));
  }

  Context& context_;
};

}  // namespace

Result<Variables> input_variables(Context& context, const Chat& chat,
                                  const TemplateVariables& variables, bool parts) {
  Converter convert(context);
  ListDraft messages(context);
  for (const ChatMessage& message : chat) {
    MILLRACE_ASSIGN(const Value v, convert.message(message, parts));
    MILLRACE_TRY(messages.append({}, v));
  }
  MILLRACE_ASSIGN(const Value list, context.list({}, std::move(messages)));
  Variables out = {{"messages", list},
                   {"add_generation_prompt", Value::of(variables.add_generation_prompt)},
                   {"bos_token", Value::of(&variables.bos_token)},
                   {"eos_token", Value::of(&variables.eos_token)},
                   {"tools", Value::none()},
                   {"documents", Value::none()}};
  if (variables.inputs == nullptr) return out;
  const ChatInputs& inputs = *variables.inputs;
  if (!inputs.tools.empty() && inputs.tool_choice != ToolChoice::none) {
    MILLRACE_ASSIGN(const Value tools, convert.list(inputs.tools));
    out.emplace_back("tools", tools);
  }
  for (const auto& [name, value] : inputs.template_kwargs) {
    MILLRACE_ASSIGN(const Value v, convert.value(value));
    out.emplace_back(name, v);
  }
  return out;
}

}  // namespace millrace::chat_template
