#pragma once
// Writes one event of a stream (chunks.hpp): an object chat.completion.chunk or text_completion.
// Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "schemas/openai/chat_answer.hpp"
#include "schemas/openai/endpoint.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::openai {

// What all events of a stream repeat.
struct EventFacts {
  AnswerForm form;
  std::string id, model;
  std::int64_t created_s = 0;
  std::string fingerprint{};  // of the engine; empty: not known yet
};

// What one event tells of a choice.
struct Delta {
  std::uint32_t index = 0;   // of the choice
  std::string_view job{};    // whose choice it is
  std::uint32_t choice = 0;  // in its job
  bool role = false;         // a chat's choice begins
  std::string_view text{}, reasoning{};
  std::span<const ToolCall> calls{};        // of a chat
  std::size_t first_call = 0;               // their number before these
  const Choice* logprobs = nullptr;         // whose logprobs the event has
  std::string_view finish_reason{};         // empty: the choice goes on
  std::span<const TokenId> tokens{};        // where the request asks for token ids
  std::span<const std::string> warnings{};  // of the stream, whose last event this is
};

std::string chunk_event(const EventFacts& facts, const Delta& delta, const TokenTexts& texts);
// The last event of a stream that was asked for its usage.
std::string usage_event(const EventFacts& facts, const Usage& usage,
                        std::span<const std::string> warnings);

}  // namespace millrace::openai
