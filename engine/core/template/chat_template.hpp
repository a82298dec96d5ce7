#pragma once
// Renders the chat template of a model file (tokenizer.chat_template) as transformers does: Jinja
// with trim_blocks, lstrip_blocks, loop controls and json.dumps. README.md lists the subset. Parse
// a template once and render it for each chat.
//
// Errors of parse: no_chat_template (empty source), template_error (not a template),
// template_unsupported (a construct outside the subset, with its name, line and column).
// Errors of render: template_error (the template's own raise_exception, an invalid operation, a
// limit exceeded, a role that the template does not know), template_unsupported, context_exceeded.
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
  std::uint64_t steps = 10'000'000;  // one per evaluated node, and per 64 bytes read or written
  std::uint64_t memory_bytes = 256 * limits::MiB;  // all values, texts and lists of one rendering
  std::uint64_t output_bytes = 2 * limits::frame_bytes;  // the result and any string on the way
  std::uint32_t depth = 400;  // nested expressions, blocks and macro calls
};

struct TemplateVariables {
  std::string bos_token, eos_token;  // texts of the special tokens; empty without one
  bool add_generation_prompt = true;
  const ChatInputs* inputs = nullptr;  // tools, and variables that the job gives; null: none
  // The time that strftime_now() formats in UTC, as Unix time in seconds. The engine passes a fixed
  // time, so that the same job has the same prompt on every day (ARCHITECTURE.md, "Determinism").
  std::int64_t now_s = 0;
};

struct RenderedChat {
  std::string text;
  // The parts of the text that came from messages and not from the template. A literal of a special
  // token becomes that token only outside these parts.
  TextSpans from_messages;
};

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});

  // A rendering ends as soon as its text has more than `most_bytes`, with context_exceeded.
  Result<RenderedChat> render(const Chat& chat, const TemplateVariables& variables,
                              std::uint64_t most_bytes = UINT64_MAX) const;

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<Parsed> parsed);
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace millrace
