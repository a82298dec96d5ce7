#pragma once
// Checks a request against the model and turns its prompt into tokens, before anything changes.
// Every error names the field, the value and the limit. Errors: invalid_value, limit_exceeded,
// invalid_utf8, invalid_token, empty_prompt, context_exceeded, kv_exceeded, no_chat_template,
// template_error, template_unsupported, unsupported_field, fingerprint_mismatch.
// Thread safety: pure functions over immutable parts.
#include <memory>
#include <string>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/kv/prefix_tree.hpp"
#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/template/chat_template.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// What a request is checked against. What it points to must outlive the request. Without a device
// there are no pools, no names of policies and no fingerprint, and nothing is checked against them.
struct RequestContext {
  const Tokenizer* tokenizer = nullptr;
  const Result<ChatTemplate>* chat_template = nullptr;  // the error says why there is none
  const CachePools* pools = nullptr;
  std::uint32_t context_tokens = 0;
  std::uint32_t vocabulary = 0;
  std::vector<std::string> kv_names;  // that jobs may ask for; the first is the engine's option
  std::string fingerprint;
  std::vector<Marker> markers;           // that the model is known to write
  SuggestedSampling suggested_sampling;  // by the model's file
  std::string suggested_sampling_error;  // why its suggestion cannot be used
};

struct PreparedRequest {
  Task task = Task::generate;
  Tokens prompt;
  std::uint32_t n = 1;           // 0 for Task::score
  std::uint32_t max_tokens = 0;  // 0 for Task::score
  Sampling sampling;             // the seed is set
  LogitEdits edits;              // with the token ids of bad words and breakers
  LogprobRequest logprobs;
  bool partials = false;
  std::shared_ptr<const StopRules> rules;
  std::vector<Checkpoint> checkpoints;  // where other prompts may diverge from this one
};

Result<PreparedRequest> prepare(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
