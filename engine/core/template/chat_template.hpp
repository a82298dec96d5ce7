#pragma once
// The chat template that a model file ships (tokenizer.chat_template), rendered as transformers
// renders it: Jinja with trim_blocks, lstrip_blocks, loop controls and json.dumps. README.md lists
// the subset. A template is parsed once and rendered for each chat.
//
// Errors of parse: no_chat_template (empty source), template_error (not a template),
// template_unsupported (a construct outside the subset: its name, line and column).
// Errors of render: template_error (the template's own raise_exception, a wrong operation, a limit
// passed, a role the template does not know), template_unsupported.
// Thread safety: a ChatTemplate is immutable; any number of threads may render it at once.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/text_span.hpp"

namespace millrace {

struct TemplateLimits {
  std::uint64_t steps = 10'000'000;                      // evaluated nodes, copied 64-byte pieces
  std::uint64_t memory_bytes = 256 * limits::MiB;        // all that one rendering makes
  std::uint64_t output_bytes = 2 * limits::frame_bytes;  // the text, and any string on the way
  std::uint32_t depth = 400;  // nested expressions, blocks and macro calls
};

struct TemplateVariables {
  std::string bos_token, eos_token;  // the text of the special tokens; empty where there is none
  bool add_generation_prompt = true;
  // What strftime_now() tells, as Unix time in seconds, in UTC. The engine passes a fixed time, so
  // that the same job gives the same prompt on every day (ARCHITECTURE.md, "Determinism").
  std::int64_t now_s = 0;
};

struct RenderedChat {
  std::string text;
  // The parts of the text that came from messages and not from the template. A literal of a special
  // token stands for that token only outside of these parts.
  TextSpans from_messages;
};

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});

  Result<RenderedChat> render(const Chat& chat, const TemplateVariables& variables) const;

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<Parsed> parsed);
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace millrace
