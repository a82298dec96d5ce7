#include "engine/core/template/chat_template.hpp"

#include <algorithm>
#include <set>

#include "engine/core/template/evaluator.hpp"
#include "engine/core/template/inputs.hpp"
#include "engine/core/template/parser.hpp"

namespace millrace {

namespace {

using namespace chat_template;

// Roles that templates commonly write without naming them.
constexpr std::string_view common_roles[] = {"system",    "developer", "user",
                                             "assistant", "tool",      "function"};

// Refuses a role that is neither common nor named by the template. Many templates write any role
// into the prompt as it is, and the model has never seen such a turn.
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
    return fail(Code::no_chat_template, "the model file has no chat template",
                "send the prompt as text or tokens, or use an instruction-tuned model");
  auto parsed = std::make_unique<Parsed>();
  parsed->limits = limits;
  MILLRACE_ASSIGN(parsed->tree, chat_template::parse(source));
  return ChatTemplate(std::move(parsed));
}

Result<RenderedChat> ChatTemplate::render(const Chat& chat, const TemplateVariables& variables,
                                          std::uint64_t most_bytes) const {
  Context context(parsed_->limits, variables.now_s);
  Evaluator evaluator(context, most_bytes);
  // Templates that take parts compare a part's type with 'text'. The others would drop a list, or
  // write it as Python shows it.
  const bool parts = parsed_->tree.strings.contains("text");
  MILLRACE_ASSIGN(const Variables given, input_variables(context, chat, variables, parts));
  for (const auto& [name, value] : given) MILLRACE_TRY(evaluator.define(name, value));
  MILLRACE_ASSIGN(TrackedText text, evaluator.run(parsed_->tree.body));
  MILLRACE_TRY(check_roles(chat, parsed_->tree.strings));
  return RenderedChat{std::move(text.bytes), std::move(text.taint)};
}

}  // namespace millrace
