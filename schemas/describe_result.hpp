#pragma once
// The fields of a result and its parts, declared once, in wire order. Code that encodes, decodes,
// checks or documents results and messages (describe.hpp) walks these lists with a visitor of its
// own:
//
//   v.field(name, member, [form,] about)     has its default where it is absent
//   v.required(name, member, [form,] about)  must be present
//   v.sparse(part)                           the fields of a part, left out where they have their
//                                            defaults
//
// The tools in schemas/tools generate the JSON Schemas and the documentation from them.
// Thread safety: pure functions.
#include "schemas/job_fields.hpp"

namespace millrace {

void fields(auto& v, Is<Error> auto& m) {
  v.required("code", m.code,
             "one of the error codes; treat codes that you do not know as `internal`");
  v.field("message", m.message, "what is wrong, and where, for a person");
  v.field("hint", m.hint, "what to do about it; may be empty");
  v.field("retry_ms", m.retry_ms,
          "send the same again after this many milliseconds; absent: it has to be changed first");
}

void fields(auto& v, Is<ListedLogprobs> auto& m) {
  v.required("ids", m.ids, "the token ids as the job listed them");
  v.required("logprobs", m.logprobs, "one logprob for each id at each position");
}

void fields(auto& v, Is<TokenLogprobs> auto& m) {
  v.field("top", m.top, "how many likeliest tokens each position has");
  v.required("token", m.token,
             "the natural logarithm of the probability of each position's token; NaN where there "
             "is none (the first prompt token), -infinity is allowed");
  v.field("top_ids", m.top_ids,
          "`top` ids a position, likeliest first; where the logprobs are NaN the ids mean nothing");
  v.field("top_logprobs", m.top_logprobs,
          "the logprobs of `top_ids`; `processed` ones are -infinity (null in the client's JSON) "
          "for tokens that could not be drawn: those that top-k, top-p or min-p left out are "
          "listed by their likelihood, those that edits, bans, typical-p or XTC left out come "
          "last, lowest ids first, and fill the list");
  v.field("listed", m.listed, "the logprobs of `logprob_token_ids`, where the job listed some");
}

void fields(auto& v, Is<Choice> auto& m) {
  v.required("index", m.index, "the number of the answer, from 0 to n - 1");
  v.field("text", m.text,
          "the decoded text, without what ended it (unless `include_stop_str_in_output`) and "
          "without the marked parts");
  v.field("tokens", m.tokens, "all sampled tokens, a stopping one included");
  v.required("finish_reason", m.finish_reason, "why the text ended");
  v.field("stop_string", m.stop_string, "the string that ended it");
  v.field("stop_token", m.stop_token,
          "the token that ended it: one of `stop_token_ids`, or end of text");
  v.field("stop_sequence", m.stop_sequence, "the sequence of `stop_token_sequences` that ended it");
  v.field("logprobs", m.logprobs, "logprobs of as many positions as `tokens` has");
  v.field("reasoning", m.reasoning, "the text between reasoning markers; absent: there was none");
  v.field("tool_calls", m.tool_calls,
          "the tool calls between their markers, each as it was written");
  v.field("reasoning_spans", m.reasoning_spans,
          "which of `tokens` are reasoning, its markers included: pairs of the index of a first "
          "token and of the one after the last; a token belongs where its first byte does");
  v.field("tool_call_spans", m.tool_call_spans, "which of `tokens` are tool calls, in this form");
}

void fields(auto& v, Is<Usage> auto& m) {
  v.field("prompt_tokens", m.prompt_tokens, "how many tokens the prompt has");
  v.field("cached_tokens", m.cached_tokens, "how many of these came from the prefix cache");
  v.field("completion_tokens", m.completion_tokens, "how many were sampled, over all choices");
  v.field("reasoning_tokens", m.reasoning_tokens, "how many of these are reasoning");
}

void fields(auto& v, Is<EngineTimes> auto& m) {
  v.field("queue_us", m.queue_us, "from the engine's acceptance of the job to its first step");
  v.field("first_token_us", m.first_token_us, "from the acceptance to the first token");
  v.field("total_us", m.total_us, "from the acceptance to the end");
}

void fields(auto& v, Is<EngineFacts> auto& m) {
  constexpr Label label{limits::id_bytes};
  v.field("model", m.model, label, "the model's id, the name that jobs give");
  v.field("fingerprint", m.fingerprint, label,
          "the numeric fingerprint: engines with equal ones give equal bits for equal jobs");
  v.field("math", m.math, label, "`exact` or `fast`");
  v.field("kv_policy", m.kv_policy, Label{limits::kv_bytes},
          "the KV policy as the engine was given it or chose it");
  v.field("kv", m.kv, Label{limits::kv_bytes}, "the KV policy by layer");
  v.field("kv_bytes_per_token", m.kv_bytes_per_token,
          "the bytes of all layers' keys and values of one token; 0: unknown");
  v.field("kv_compression", m.kv_compression,
          "how many times smaller that is than with f16; 0: unknown");
  v.field("context_tokens", m.context_tokens, "the longest sequence in tokens; 0: unknown");
}

void fields(auto& v, Is<SuggestedSampling> auto& m) {
  v.field("temperature", m.temperature, "the suggested `temperature`");
  v.field("top_k", m.top_k, "the suggested `top_k`");
  v.field("top_p", m.top_p, "the suggested `top_p`");
  v.field("min_p", m.min_p, "the suggested `min_p`");
  v.field("xtc_probability", m.xtc_probability, "the suggested `xtc_probability`");
  v.field("xtc_threshold", m.xtc_threshold, "the suggested `xtc_threshold`");
  v.field("repetition_penalty", m.repetition_penalty, "the suggested `repetition_penalty`");
  v.field("repetition_penalty_window", m.repetition_penalty_window,
          "the suggested `repetition_penalty_window`");
}

void fields(auto& v, Is<EngineProfile> auto& m) {
  constexpr Text for_people{limits::error_text_bytes};
  fields(v, m.facts);
  v.field("label", m.label, for_people, "what the model's file calls itself, for people");
  v.field("layer_path", m.layer_path, for_people,
          "in how many launches a step runs the layers, and why, for people");
  v.field("kv_memory", m.kv_memory, for_people,
          "the tokens that the KV memory holds for the layers of each window, for people; empty: "
          "all layers hold the same tokens");
  v.field("kv_policies", m.kv_policies, Labels{limits::kv_policies_per_engine, limits::kv_bytes},
          "the KV policies that the engine answers to: as given or chosen, by layer, and under "
          "other names that mean the same");
  v.field("suggested_sampling", m.suggested_sampling,
          "the sampling that the model's file suggests, which a job gets with `sampling: model`; "
          "empty: none");
  v.field("suggested_sampling_error", m.suggested_sampling_error, for_people,
          "why the suggestion of the model's file cannot be used; empty: it can, or there is none");
}

void fields(auto& v, Is<EffectiveSettings> auto& m) {
  fields(v, m.engine);
  v.field("max_tokens", m.max_tokens, "the most tokens that each answer could have");
  fields(v, m.sampling);
  v.sparse(m.edits);
  v.field("markers", m.markers, "the markers that split the text");
}

void fields(auto& v, Is<GenerationResult> auto& m) {
  v.field("choices", m.choices, "the answers by index; none for a score job");
  v.field("prompt", m.prompt, "the prompt's token ids, where its logprobs were asked for");
  v.field("prompt_logprobs", m.prompt_logprobs, "one position for each prompt token");
  v.field("usage", m.usage, "token counts");
  v.field("times", m.times, "durations inside the engine, in microseconds");
  v.field("effective", m.effective,
          "the engine and the settings that were used, so that the text can be generated again; "
          "settings have the job's names, edits are there where they differ from their defaults");
}

void fields(auto& v, Is<JobCounts> auto& m) {
  v.field("queued", m.queued, "jobs that wait");
  v.field("leased", m.leased, "jobs that are with an engine");
  v.field("completed", m.completed, "jobs that ended with a result");
  v.field("failed", m.failed, "jobs that ended with an error");
  v.field("cancelled", m.cancelled, "jobs that were cancelled");
  v.field("expired", m.expired, "jobs whose deadline passed");
}

// The fields of a result that the broker writes.
void published_fields(auto& v, Is<JobResult> auto& m) {
  v.field("job", m.job, "the job's id");
  v.field("custom_id", m.custom_id, "the job's label");
  v.field("model", m.model, "the model as the job named it");
  v.field("batch", m.batch, "the job's batch");
  v.required("state", m.state, "`completed`, `failed`, `cancelled` or `expired`");
  v.field("error", m.error, "why there is no result, or no whole one");
  v.field("warnings", m.warnings, "unknown fields that were ignored, and the like");
  v.field("metadata", m.metadata, "the job's metadata");
  v.field("attempts", m.attempts, "how often the job was handed to an engine");
  v.field("submitted_us", m.submitted_us, "Unix time of the submission, by the broker's clock");
  v.field("ended_us", m.ended_us, "Unix time of the end, by the broker's clock");
  v.field("counts", m.counts,
          "in the stream `batches` alone: how the jobs of the batch ended; `submitted_us` is the "
          "time of its first job then");
}
void fields(auto& v, Is<JobResult> auto& m) {
  published_fields(v, m);
  v.field("result", m.result, "what was generated or scored, byte by byte as the engine sent it");
}

void fields(auto& v, Is<JobLabels> auto& m) {
  v.field("metadata", m.metadata, "the job's metadata");
  v.field("warnings", m.warnings, "unknown fields that were ignored");
}

}  // namespace millrace
