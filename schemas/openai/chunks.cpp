#include "schemas/openai/chunks.hpp"

#include <algorithm>
#include <utility>

#include "schemas/openai/echo.hpp"
#include "schemas/openai/error_body.hpp"
#include "schemas/openai/response.hpp"
#include "schemas/openai/result_parts.hpp"

namespace millrace::openai {

namespace {

std::string model_name(std::string chosen, const Request& request) {
  if (chosen.empty()) chosen = request.model;
  return chosen;
}

}  // namespace

Chunks::Chunks(const Request& request, std::span<const std::string> ids, ChunkOptions options)
    : facts_{request.form, response_id(request.form.endpoint, ids.empty() ? "" : ids.front()),
             model_name(std::move(options.model), request), options.created_s},
      tools_(request.tools),
      token_bytes_(std::move(options.token_bytes)),
      left_(ids.size()) {
  const TokenTexts texts(token_bytes_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    JobState& job = jobs_[ids[i]];
    job.id = ids[i];
    job.first_index = static_cast<std::uint32_t>(i) * request.form.n;
    if (request.form.echo) job.echo = echo_text(request.jobs[i].echo, texts);
  }
}

void Chunks::add(const JobState& job, std::uint32_t choice, Delta delta, Events& out) const {
  delta.index = job.first_index + choice;
  delta.job = job.id;
  delta.choice = choice;
  out.push_back(chunk_event(facts_, delta, TokenTexts(token_bytes_)));
}

// Returns the choice's state. The first call of a choice adds the event that it begins with.
Chunks::ChoiceState& Chunks::begun(JobState& job, std::uint32_t choice, Events& out) {
  ChoiceState& state = job.choices[choice];
  if (std::exchange(state.begun, true)) return state;
  if (facts_.form.endpoint == Endpoint::chat) add(job, choice, {.role = true}, out);
  if (!job.echo.empty()) add(job, choice, {.text = state.text.next(job.echo)}, out);
  return state;
}

// Another attempt tells everything anew.
void Chunks::begin_again(JobState& job) const {
  for (auto& [number, state] : job.choices) {
    state.told = 0;
    state.lost = false;
    for (SentText* text : {&state.text, &state.reasoning, &state.parts}) text->restart();
    state.text.next(job.echo);
    if (state.held) state.held->clear();
  }
}

// Adds the event unless there is nothing in it.
void Chunks::add_text(const JobState& job, std::uint32_t choice, const Delta& delta,
                      Events& out) const {
  const bool ids = facts_.form.token_ids && !delta.tokens.empty();
  if (ids || !delta.text.empty() || !delta.reasoning.empty()) add(job, choice, delta, out);
}

void Chunks::add_calls(const JobState& job, std::uint32_t choice, ChoiceState& state,
                       std::span<const ToolCall> calls, Events& out) const {
  if (calls.empty()) return;
  add(job, choice, {.calls = calls, .first_call = state.calls}, out);
  state.calls += calls.size();
}

// Adds the next tool calls, given as they were written, as far as they were not sent yet.
void Chunks::add_parts(const JobState& job, std::uint32_t choice, ChoiceState& state,
                       std::span<const std::string> parts, Events& out) const {
  if (facts_.form.endpoint != Endpoint::chat) return;
  for (const std::string& part : parts) {
    if (state.parts.next(part + '\0').empty()) continue;
    const std::vector<ToolCall> calls = parse_tool_calls(part, tools_.list);
    if (calls.empty()) add_text(job, choice, {.text = part}, out);
    add_calls(job, choice, state, calls, out);
  }
}

std::vector<std::string> Chunks::partial(const PartialEntry& entry) {
  Events out;
  const auto at = jobs_.find(entry.job);
  const Partial& partial = entry.partial;
  if (at == jobs_.end() || ended() || at->second.ended || partial.choice >= facts_.form.n) {
    return out;
  }
  JobState& job = at->second;
  if (entry.attempt < job.attempt) return out;
  if (entry.attempt > std::exchange(job.attempt, entry.attempt)) begin_again(job);
  ChoiceState& state = begun(job, partial.choice, out);
  if (partial.first_token < state.told) return out;  // told twice
  state.lost = state.lost || partial.first_token > state.told;
  if (state.lost) return out;
  const std::span<const TokenId> tokens = partial.tokens;
  const std::size_t known = std::min(tokens.size(), state.sent - std::min(state.sent, state.told));
  state.told += tokens.size();
  state.sent = std::max(state.sent, state.told);
  const std::string text = state.held ? *state.held + partial.text : partial.text;
  if (state.held && may_be_call(text, tools_)) {
    state.held = text;
  } else {
    state.held.reset();
  }
  add_text(job, partial.choice,
           {.text = state.held ? std::string_view() : state.text.next(text),
            .reasoning = state.reasoning.next(partial.reasoning),
            .tokens = tokens.subspan(known)},
           out);
  add_parts(job, partial.choice, state, partial.tool_calls, out);
  return out;
}

// Adds what was not sent of a choice that has ended. `warnings` are for the last event of all.
void Chunks::add_end(JobState& job, const Choice& choice, std::span<const TokenId> tokens,
                     std::span<const std::string> warnings, Events& out) {
  ChoiceState& state = begun(job, choice.index, out);
  for (SentText* text : {&state.text, &state.reasoning, &state.parts}) text->restart();
  std::vector<ToolCall> bare;
  if (state.held && choice.tool_calls.empty()) bare = chat_answer(choice, tools_).calls;
  const std::string none;
  add_text(job, choice.index,
           {.text = bare.empty() ? state.text.next(choice.text) : std::string_view(),
            .reasoning = state.reasoning.next(choice.reasoning ? *choice.reasoning : none),
            .tokens = tokens.subspan(std::min(state.sent, tokens.size()))},
           out);
  add_parts(job, choice.index, state, choice.tool_calls, out);
  add_calls(job, choice.index, state, bare, out);
  if (!state.text.is_whole() || !state.reasoning.is_whole() || !state.parts.is_whole()) {
    return add_failure(
        {Code::engine_died,
         "an engine died, and the next one wrote a text that differs from what was sent",
         "ask again; require_fingerprint lets only engines run it that write the same"},
        out);
  }
  if (choice.logprobs) add(job, choice.index, {.logprobs = &choice}, out);
  add(job, choice.index,
      {.finish_reason = finish_reason_of(choice, state.calls > 0), .warnings = warnings}, out);
}

std::vector<std::string> Chunks::end(const JobResult& result) {
  Events out;
  const auto at = jobs_.find(result.job);
  if (at == jobs_.end() || ended() || std::exchange(at->second.ended, true)) return out;
  JobState& job = at->second;
  if (const auto error = error_of(result)) {
    add_failure(*error, out);
    return out;
  }
  const GenerationResult& generation = *result.result;
  facts_.fingerprint = generation.effective.engine.fingerprint;
  const std::vector<Choice> choices = facts_.form.echo
                                          ? echoed(generation, job.echo, facts_.form.echo_logprobs)
                                          : generation.choices;
  add_warnings(warnings_, result);
  for (std::size_t i = 0; i < choices.size() && !failed_; ++i) {
    std::span<const TokenId> sampled;
    if (i < generation.choices.size()) sampled = generation.choices[i].tokens;
    const bool last = left_ == 1 && i + 1 == choices.size() && !facts_.form.include_usage;
    add_end(job, choices[i], sampled, std::span(warnings_).first(last ? warnings_.size() : 0), out);
  }
  job.choices.clear();
  add_usage(usage_, generation.usage);
  --left_;
  if (left_ == 0 && !failed_ && facts_.form.include_usage) {
    out.push_back(usage_event(facts_, usage_, warnings_));
  }
  return out;
}

void Chunks::add_failure(const Error& error, Events& out) {
  failed_ = true;
  out.push_back(error_body(error));
}

}  // namespace millrace::openai
