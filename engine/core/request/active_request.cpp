#include "engine/core/request/active_request.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace millrace::engine {
namespace {

TokenLogprobs empty_logprobs(const LogprobRequest& wanted) {
  TokenLogprobs out;
  out.top = wanted.top;
  if (!wanted.listed.empty()) out.listed = ListedLogprobs{wanted.listed, {}};
  return out;
}

void append(TokenLogprobs& to, const Sampled& sampled) {
  const auto add = [](auto& list, const auto& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  to.token.push_back(sampled.logprob);
  add(to.top_ids, sampled.top_ids);
  add(to.top_logprobs, sampled.top_logprobs);
  if (to.listed) add(to.listed->logprobs, sampled.listed_logprobs);
}

std::uint64_t since(std::int64_t from_us, std::int64_t to_us) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, to_us - from_us));
}

}  // namespace

ActiveRequest::ActiveRequest(PreparedRequest request, SequenceId first, const Tokenizer& tokenizer,
                             std::int64_t now_us)
    : request_(std::move(request)), first_(first), accepted_us_(now_us) {
  samples_.reserve(request_.n);
  for (std::uint32_t i = 0; i < request_.n; ++i) {
    samples_.push_back({.stop = StopMachine(request_.rules),
                        .budget = {},
                        .decoder = StreamDecoder(tokenizer, {}),
                        .choice = {},
                        .started = false,
                        .ended = false,
                        .token_us = {},
                        .told_tokens = 0,
                        .told_text = 0,
                        .told_reasoning = 0,
                        .told_calls = 0});
    if (decides()) {
      samples_.back().budget.emplace(*request_.rules->reasoning_limit, request_.rules->parts);
    }
    Choice& choice = samples_.back().choice;
    choice.index = i;
    if (request_.logprobs.sampled) {
      choice.logprobs = empty_logprobs(request_.logprobs);
    }
  }
  if (request_.logprobs.prompt) {  // nothing predicts the first token
    const float none = std::numeric_limits<float>::quiet_NaN();
    const std::vector<std::uint32_t> ids(request_.logprobs.top, 0);
    const std::vector<float> logprobs(request_.logprobs.top, none);
    const std::vector<float> listed(request_.logprobs.listed.size(), none);
    Sampled first_position;
    first_position.logprob = none;
    first_position.top_ids = ids;
    first_position.top_logprobs = logprobs;
    first_position.listed_logprobs = listed;
    prompt_logprobs_ = empty_logprobs(request_.logprobs);
    append(prompt_logprobs_, first_position);
  }
}

SampleTask ActiveRequest::task_for(std::uint32_t sample, const PlannedOutput& output) const {
  SampleTask task;
  if (output.kind == OutputKind::prompt_logprob) {
    task.draw = false;
    task.target = request_.prompt[output.position];
    task.top = request_.logprobs.top;
    task.listed = request_.logprobs.listed;
    return task;
  }
  // Drawn tokens before this one, including those that are still on the device.
  const auto count = output.position - static_cast<std::uint32_t>(request_.prompt.size());
  task.slot = output.slot;
  task.position = output.position;
  task.sample = sample;
  task.sampling = request_.sampling;
  if (samples_[sample].budget) task.forced = samples_[sample].budget->forced();
  if (request_.rules->bans_stop_tokens(count)) task.banned = request_.rules->ids;
  task.logprob = request_.logprobs.sampled;
  task.top = request_.logprobs.sampled ? request_.logprobs.top : 0;
  if (request_.logprobs.sampled) task.listed = request_.logprobs.listed;
  task.mode = request_.logprobs.mode;
  task.sequence = sequence_of(sample);
  if (request_.edits.any()) {
    task.edits = &request_.edits;
    task.history = {request_.prompt, samples_[sample].choice.tokens,
                    static_cast<std::uint32_t>(request_.prompt.size()) + request_.max_tokens};
  }
  return task;
}

bool ActiveRequest::started(std::int64_t now_us, std::uint32_t sample, std::uint32_t first) {
  if (!started_us_) started_us_ = now_us;
  if (samples_.empty() || samples_[sample].started) return false;  // a score job has no samples
  samples_[sample].started = true;
  if (sample == 0) cached_ = prompt_counted_ = first;
  return first > 0;
}

std::uint32_t ActiveRequest::count_prompt(std::uint32_t end) {
  end = std::min(end, static_cast<std::uint32_t>(request_.prompt.size()));
  const std::uint32_t fresh = end - std::min(end, prompt_counted_);
  prompt_counted_ += fresh;
  return fresh;
}

std::optional<std::int64_t> ActiveRequest::token_gap_us(std::uint32_t sample, std::int64_t now_us) {
  const auto before_us = std::exchange(samples_[sample].token_us, now_us);
  if (!before_us) return {};
  return std::max<std::int64_t>(now_us - *before_us, 0);
}

Result<bool> ActiveRequest::take_token(std::uint32_t index, const Sampled& sampled,
                                       std::int64_t now_us) {
  Sample& sample = samples_[index];
  if (!first_token_us_) first_token_us_ = now_us;
  std::string piece;
  if (!request_.rules->drops_text(sampled.id)) {
    MILLRACE_ASSIGN(piece, sample.decoder.push(sampled.id, request_.rules->is_marker(sampled.id)));
  }
  if (sample.budget) sample.budget->push(piece);
  sample.choice.tokens.push_back(sampled.id);
  if (sample.choice.logprobs) {
    append(*sample.choice.logprobs, sampled);
  }
  const auto reason = sample.stop.push(sampled.id, piece);
  if (reason) end_sample(sample, *reason);
  return sample.ended;
}

Partial ActiveRequest::take_partial(std::uint32_t index) {
  Sample& sample = samples_[index];
  const auto more = [](auto& to, const auto& all, std::size_t& told) {
    to.insert(to.end(), all.begin() + static_cast<std::ptrdiff_t>(told), all.end());
    told = all.size();
  };
  Partial out;
  out.choice = index;
  out.first_token = static_cast<std::uint32_t>(sample.told_tokens);
  more(out.tokens, sample.choice.tokens, sample.told_tokens);
  more(out.text, sample.stop.text(), sample.told_text);
  const auto& parts = sample.stop.parts();
  if (!parts) return out;
  if (parts->reasoning()) more(out.reasoning, *parts->reasoning(), sample.told_reasoning);
  const std::size_t open = parts->in_tool_call() && !sample.ended ? 1 : 0;
  for (; sample.told_calls + open < parts->tool_calls().size(); ++sample.told_calls) {
    out.tool_calls.push_back(parts->tool_calls()[sample.told_calls]);
  }
  return out;
}

void ActiveRequest::take_prompt_logprob(const Sampled& sampled) {
  append(prompt_logprobs_, sampled);
}

bool ActiveRequest::done() const {
  if (request_.n == 0) return prompt_computed_;
  return std::all_of(samples_.begin(), samples_.end(), [](const Sample& s) { return s.ended; });
}

std::uint64_t ActiveRequest::generated() const {
  std::uint64_t count = 0;
  for (const Sample& sample : samples_) count += sample.choice.tokens.size();
  return count;
}

void ActiveRequest::end_sample(Sample& sample, FinishReason reason) {
  // The bytes that the decoder held back can still complete a stop string. A stop takes precedence
  // over length and repetition.
  const bool stopped = sample.stop.close(sample.decoder.finish());
  if (stopped && (reason == FinishReason::length || reason == FinishReason::repetition)) {
    reason = FinishReason::stop;
  }
  sample.choice.finish_reason = reason;
  sample.choice.text = sample.stop.text();
  sample.choice.stop_string = sample.stop.stop_string();
  sample.choice.stop_token = sample.stop.stop_token();
  sample.choice.stop_sequence = sample.stop.stop_sequence();
  if (const auto& parts = sample.stop.parts()) {
    sample.choice.reasoning = parts->reasoning();
    sample.choice.tool_calls = parts->tool_calls();
    sample.choice.reasoning_spans = sample.stop.token_spans(MarkedPart::reasoning);
    sample.choice.tool_call_spans = sample.stop.token_spans(MarkedPart::tool_call);
  }
  sample.ended = true;
}

GenerationResult ActiveRequest::finish(std::int64_t now_us) {
  GenerationResult result;
  result.usage.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  result.usage.cached_tokens = cached_;
  result.usage.completion_tokens = static_cast<std::uint32_t>(generated());
  for (Sample& sample : samples_) {
    if (!sample.ended) end_sample(sample, FinishReason::cancelled);
    const Tokens spans = sample.choice.reasoning_spans.value_or(Tokens());
    for (std::size_t i = 0; i + 1 < spans.size(); i += 2) {
      result.usage.reasoning_tokens += spans[i + 1] - spans[i];
    }
    result.choices.push_back(std::move(sample.choice));
  }
  if (request_.logprobs.prompt) {
    // A cancelled request may have scored only the beginning of its prompt. The result holds as
    // many tokens as logprobs.
    request_.prompt.resize(std::min(request_.prompt.size(), prompt_logprobs_.token.size()));
    result.prompt = std::move(request_.prompt);
    result.prompt_logprobs = std::move(prompt_logprobs_);
  }
  result.times.queue_us = since(accepted_us_, started_us_.value_or(now_us));
  result.times.first_token_us = first_token_us_ ? since(accepted_us_, *first_token_us_) : 0;
  result.times.total_us = since(accepted_us_, now_us);
  result.effective.sampling = request_.sampling;
  if (request_.edits.any()) result.effective.edits = request_.edits;
  result.effective.max_tokens = request_.max_tokens;
  if (request_.rules && request_.rules->parts) {
    result.effective.markers = request_.rules->parts->markers();
  }
  return result;
}

}  // namespace millrace::engine
