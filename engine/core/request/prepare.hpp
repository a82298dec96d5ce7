#pragma once
// Checks a request against the model and turns its prompt into tokens, before anything changes.
// Every refusal names the field, the value and the limit. Errors: invalid_value, limit_exceeded,
// invalid_utf8, invalid_token, empty_prompt, context_exceeded, kv_exceeded, no_chat_template,
// template_error, template_unsupported, unsupported_field, fingerprint_mismatch.
// Thread safety: pure functions over immutable parts.
#include <memory>
#include <string>
#include <vector>

#include "engine/core/kv/page_pool.hpp"
#include "engine/core/kv/prefix_tree.hpp"
#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/template/chat_template.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// What a request is checked against. All of it outlives the request.
struct RequestContext {
  const Tokenizer* tokenizer = nullptr;
  const Result<ChatTemplate>* chat_template = nullptr;  // or why there is none
  const PagePool* pool = nullptr;
  std::uint32_t context_tokens = 0;
  std::uint32_t vocabulary = 0;
  std::vector<std::string> kv_names;  // what jobs may ask for; first as the engine was given it
  std::string fingerprint;
};

struct PreparedRequest {
  Task task = Task::generate;
  Tokens prompt;
  std::uint32_t n = 1;           // 0 for Task::score
  std::uint32_t max_tokens = 0;  // 0 for Task::score
  Sampling sampling;             // seed set
  LogitEdits edits;              // with the ids that bad words and breakers are tokenized to
  LogprobRequest logprobs;
  bool partials = false;
  std::shared_ptr<const StopRules> rules;
  std::vector<Checkpoint> checkpoints;  // where others may begin alike
};

Result<PreparedRequest> prepare(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
