#include "engine/core/engine_choices.hpp"

#include <algorithm>
#include <string>

namespace millrace::engine {
namespace {

// Most tokens of a step if none are given. A device with memory of its own computes more at once,
// and has the memory for them.
constexpr std::uint32_t usual_step_tokens = 512, usual_step_tokens_own_memory = 4'096;

}  // namespace

Status check_options(const EngineOptions& o) {
  const auto refuse = [](const char* what, std::uint64_t value, const char* hint) {
    return fail(Code::invalid_value, std::string(what) + " is " + std::to_string(value), hint);
  };
  if (o.max_batch == 0) return refuse("max-batch", 0, "give at least 1");
  if (o.prefill_chunk == 0) return refuse("prefill-chunk", 0, "give at least 1");
  if (o.step_tokens > most_step_tokens) {
    return refuse("step-tokens", o.step_tokens, "give at most 1048576");
  }
  if (o.step_tokens != 0 && o.step_tokens < o.max_batch) {
    return refuse("step-tokens", o.step_tokens,
                  "give at least max-batch: every decoding sequence has a token in each step");
  }
  return {};
}

EngineOptions settled(EngineOptions options, bool has_own_memory) {
  if (options.step_tokens == 0) {
    const std::uint32_t usual = has_own_memory ? usual_step_tokens_own_memory : usual_step_tokens;
    options.step_tokens = std::max(usual, 2 * options.max_batch);
  }
  options.kv_memory_auto = options.kv_memory_auto && has_own_memory;
  return options;
}

std::uint32_t row_tokens(const EngineOptions& options) {
  return std::min(options.prefill_chunk, options.step_tokens);
}

}  // namespace millrace::engine
