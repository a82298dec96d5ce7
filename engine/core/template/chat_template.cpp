#include "engine/core/template/chat_template.hpp"

#include <set>

#include "engine/core/template/evaluator.hpp"
#include "engine/core/template/parser.hpp"

namespace millrace {

namespace {

using namespace chat_template;

// Roles that templates commonly hand through without naming them.
constexpr std::string_view common_roles[] = {"system",    "developer", "user",
                                             "assistant", "tool",      "function"};

// Many templates write any role into the prompt as it is. A model has never seen such a turn, so a
// role is refused that is neither common nor named by the template.
Status check_roles(const Chat& chat, const std::set<std::string, std::less<>>& named) {
  for (std::size_t i = 0; i < chat.size(); ++i) {
    const std::string& role = chat[i].role;
    bool known = named.contains(role);
    for (const std::string_view common : common_roles) known = known || role == common;
    if (!known)
      return fail(Code::template_error,
                  "messages[" + std::to_string(i) + "] has the role \"" + role +
                      "\", which the chat template does not know",
                  "use system, user and assistant");
  }
  return {};
}

Value message_list(Heap& heap, const Chat& chat, const std::string* role,
                   const std::string* content) {
  std::vector<Value> messages;
  for (const ChatMessage& message : chat)
    messages.push_back(Value::of(heap.dict({{Value::of(role), Value::of(&message.role)},
                                            {Value::of(content), Value::of(&message.content)}})));
  return Value::of(heap.list(std::move(messages)));
}

}  // namespace

struct ChatTemplate::Parsed {
  Tree tree;
  TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  if (source.empty())
    return fail(Code::no_chat_template, "the model file carries no chat template",
                "send the prompt as text or tokens, or use an instruction-tuned model");
  auto parsed = std::make_unique<Parsed>();
  parsed->limits = limits;
  MILLRACE_ASSIGN(parsed->tree, chat_template::parse(source));
  return ChatTemplate(std::move(parsed));
}

Result<std::string> ChatTemplate::render(const Chat& chat,
                                         const TemplateVariables& variables) const {
  Context context(parsed_->limits, variables.now_s);
  Evaluator evaluator(context);
  const std::string role = "role", content = "content";
  evaluator.define("messages", message_list(context.heap(), chat, &role, &content));
  evaluator.define("add_generation_prompt", Value::of(variables.add_generation_prompt));
  evaluator.define("bos_token", Value::of(&variables.bos_token));
  evaluator.define("eos_token", Value::of(&variables.eos_token));
  evaluator.define("tools", Value::none());
  evaluator.define("documents", Value::none());
  MILLRACE_ASSIGN(std::string text, evaluator.run(parsed_->tree.body));
  MILLRACE_TRY(check_roles(chat, parsed_->tree.strings));
  return text;
}

}  // namespace millrace
