#pragma once
// The fields of each message, once, in wire order. Whoever encodes, decodes or prints messages
// walks these lists with a visitor of its own:
//   v.field(name, member)     may be left out: then it keeps its default
//   v.required(name, member)  must be there
//   v.body(name, member)      a job or result map, kept as the bytes it came in; required
//   v.bodies(name, member)    a list of those
// The same names stand in schemas/json; a test holds them together. Thread safety: pure.
#include <concepts>
#include <type_traits>

#include "schemas/messages.hpp"

namespace millrace::wire {

template <class M, class T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

// ---- parts of jobs and results
void describe(auto& v, Is<Error> auto& m) {
  // `code` is written by name; see the visitors.
  v.required("code", m.code);
  v.field("message", m.message);
  v.field("hint", m.hint);
}
void describe(auto& v, Is<Sampling> auto& m) {
  v.field("temperature", m.temperature);
  v.field("top_k", m.top_k);
  v.field("top_p", m.top_p);
  v.field("min_p", m.min_p);
  v.field("typical_p", m.typical_p);
  v.field("xtc_probability", m.xtc_probability);
  v.field("xtc_threshold", m.xtc_threshold);
  v.field("seed", m.seed);
}
void describe(auto& v, Is<Penalty> auto& m) {
  v.field("value", m.value);
  v.field("scope", m.scope);
  v.field("window", m.window);
}
void describe(auto& v, Is<LogitBias> auto& m) {
  v.required("token", m.token);
  v.required("bias", m.bias);
}
void describe(auto& v, Is<Dry> auto& m) {
  v.field("multiplier", m.multiplier);
  v.field("base", m.base);
  v.field("allowed_length", m.allowed_length);
  v.field("window", m.window);
  v.field("breakers", m.breakers);
  v.field("breaker_ids", m.breaker_ids);
}
void describe(auto& v, Is<LogitEdits> auto& m) {
  v.field("bias", m.bias);
  v.field("repetition", m.repetition);
  v.field("presence", m.presence);
  v.field("frequency", m.frequency);
  v.field("dry", m.dry);
  v.field("no_repeat_ngram", m.no_repeat_ngram);
  v.field("allowed", m.allowed);
  v.field("bad_words", m.bad_words);
  v.field("bad_word_ids", m.bad_word_ids);
}
void describe(auto& v, Is<Marker> auto& m) {
  v.required("part", m.part);
  v.required("open", m.open);
  v.field("close", m.close);
}
void describe(auto& v, Is<ListedLogprobs> auto& m) {
  v.required("ids", m.ids);
  v.required("logprobs", m.logprobs);
}
void describe(auto& v, Is<TokenLogprobs> auto& m) {
  v.field("top", m.top);
  v.required("token", m.token);
  v.field("top_ids", m.top_ids);
  v.field("top_logprobs", m.top_logprobs);
  v.field("listed", m.listed);
}
void describe(auto& v, Is<Choice> auto& m) {
  v.required("index", m.index);
  v.field("text", m.text);
  v.field("tokens", m.tokens);
  v.required("finish_reason", m.finish_reason);
  v.field("stop_string", m.stop_string);
  v.field("stop_token", m.stop_token);
  v.field("stop_sequence", m.stop_sequence);
  v.field("logprobs", m.logprobs);
  v.field("reasoning", m.reasoning);
  v.field("tool_calls", m.tool_calls);
}
void describe(auto& v, Is<Usage> auto& m) {
  v.field("prompt_tokens", m.prompt_tokens);
  v.field("cached_tokens", m.cached_tokens);
  v.field("completion_tokens", m.completion_tokens);
}
void describe(auto& v, Is<EngineTimes> auto& m) {
  v.field("queue_us", m.queue_us);
  v.field("first_token_us", m.first_token_us);
  v.field("total_us", m.total_us);
}
void describe(auto& v, Is<EffectiveSettings> auto& m) {
  v.field("model", m.model);
  v.field("fingerprint", m.fingerprint);
  v.field("kv", m.kv);
  v.field("kv_policy", m.kv_policy);
  v.field("kv_bytes_per_token", m.kv_bytes_per_token);
  v.field("kv_compression", m.kv_compression);
  v.field("math", m.math);
  v.field("sampling", m.sampling);
  v.field("edits", m.edits);
  v.field("max_tokens", m.max_tokens);
  v.field("markers", m.markers);
}
void describe(auto& v, Is<GenerationResult> auto& m) {
  v.field("choices", m.choices);
  v.field("prompt", m.prompt);
  v.field("prompt_logprobs", m.prompt_logprobs);
  v.field("usage", m.usage);
  v.field("times", m.times);
  v.field("effective", m.effective);
}
void describe(auto& v, Is<JobResult> auto& m) {
  v.field("job", m.job);
  v.field("custom_id", m.custom_id);
  v.field("model", m.model);
  v.field("batch", m.batch);
  v.required("state", m.state);
  v.field("result", m.result);
  v.field("error", m.error);
  v.field("warnings", m.warnings);
  v.field("metadata", m.metadata);
  v.field("attempts", m.attempts);
  v.field("submitted_us", m.submitted_us);
  v.field("ended_us", m.ended_us);
}

// ---- sessions
void describe(auto& v, Is<Hello> auto& m) {
  v.field("role", m.role);
  v.field("name", m.name);
  v.field("software", m.software);
  v.field("version_min", m.version_min);
  v.field("version_max", m.version_max);
  v.field("capabilities", m.capabilities);
  v.field("instance", m.instance);
  v.field("model", m.model);
  v.field("label", m.label);
  v.field("fingerprint", m.fingerprint);
  v.field("kv_policies", m.kv_policies);
  v.field("kv", m.kv);
  v.field("kv_bytes_per_token", m.kv_bytes_per_token);
  v.field("kv_compression", m.kv_compression);
  v.field("context_tokens", m.context_tokens);
  v.field("layer_path", m.layer_path);
}
void describe(auto& v, Is<Welcome> auto& m) {
  v.field("broker", m.broker);
  v.field("software", m.software);
  v.field("version", m.version);
  v.field("capabilities", m.capabilities);
  v.field("frame_bytes", m.frame_bytes);
  v.field("job_bytes", m.job_bytes);
  v.field("jobs_per_submit", m.jobs_per_submit);
  v.field("heartbeat_ms", m.heartbeat_ms);
  v.field("lease_ms", m.lease_ms);
  v.field("doorbell", m.doorbell);
}
void describe(auto& v, Is<Refused> auto& m) {
  v.required("error", m.error);
}
void describe(auto& v, Is<Goodbye> auto& m) {
  v.field("reason", m.reason);
}

// ---- producers
void describe(auto& v, Is<Submit> auto& m) {
  v.bodies("jobs", m.jobs);
}
void describe(auto& v, Is<SubmitAnswer> auto& m) {
  v.field("job", m.job);
  v.field("known", m.known);
  v.field("state", m.state);
  v.field("error", m.error);
  v.field("waits", m.waits);
}
void describe(auto& v, Is<Submitted> auto& m) {
  v.required("answers", m.answers);
}
void describe(auto& v, Is<Cancel> auto& m) {
  v.field("jobs", m.jobs);
  v.field("batch", m.batch);
}
void describe(auto& v, Is<Cancelled> auto& m) {
  v.field("cancelled", m.cancelled);
  v.field("requested", m.requested);
  v.field("ended", m.ended);
  v.field("unknown", m.unknown);
}
void describe(auto& v, Is<Retry> auto& m) {
  v.field("jobs", m.jobs);
  v.field("batch", m.batch);
}
void describe(auto& v, Is<Retried> auto& m) {
  v.field("retried", m.retried);
  v.field("not_failed", m.not_failed);
  v.field("unknown", m.unknown);
}
void describe(auto& v, Is<JobCounts> auto& m) {
  v.field("queued", m.queued);
  v.field("leased", m.leased);
  v.field("completed", m.completed);
  v.field("failed", m.failed);
  v.field("cancelled", m.cancelled);
  v.field("expired", m.expired);
}
void describe(auto& v, Is<StatusRequest> auto& m) {
  v.field("job", m.job);
  v.field("batch", m.batch);
  v.field("stream", m.stream);
}
void describe(auto& v, Is<EngineInfo> auto& m) {
  v.field("name", m.name);
  v.field("model", m.model);
  v.field("label", m.label);
  v.field("fingerprint", m.fingerprint);
  v.field("kv_policies", m.kv_policies);
  v.field("kv", m.kv);
  v.field("kv_bytes_per_token", m.kv_bytes_per_token);
  v.field("kv_compression", m.kv_compression);
  v.field("layer_path", m.layer_path);
  v.field("leases", m.leases);
  v.field("rows", m.rows);
  v.field("tokens_per_second", m.tokens_per_second);
}
void describe(auto& v, Is<StatusAnswer> auto& m) {
  v.field("counts", m.counts);
  v.field("state", m.state);
  v.field("attempts", m.attempts);
  v.field("job_stream", m.job_stream);
  v.field("job_batch", m.job_batch);
  v.field("job_number", m.job_number);
  v.field("job_waits", m.job_waits);
  v.field("epoch", m.epoch);
  v.field("first", m.first);
  v.field("high", m.high);
  v.field("engines", m.engines);
  v.field("draining", m.draining);
}

// ---- readers
void describe(auto& v, Is<Fetch> auto& m) {
  v.field("stream", m.stream);
  v.field("epoch", m.epoch);
  v.field("from", m.from);
  v.field("cursor", m.cursor);
  v.field("max_entries", m.max_entries);
  v.field("max_bytes", m.max_bytes);
}
void describe(auto& v, Is<Entry> auto& m) {
  v.required("number", m.number);
  v.field("job", m.job);
  v.body("body", m.body);
}
void describe(auto& v, Is<Data> auto& m) {
  v.required("stream", m.stream);
  v.required("epoch", m.epoch);
  v.field("first", m.first);
  v.field("high", m.high);
  v.field("entries", m.entries);
}
void describe(auto& v, Is<Trimmed> auto& m) {
  v.required("stream", m.stream);
  v.required("epoch", m.epoch);
  v.required("first", m.first);
}
void describe(auto& v, Is<Acknowledge> auto& m) {
  v.required("stream", m.stream);
  v.required("cursor", m.cursor);
  v.required("number", m.number);
}
void describe(auto& v, Is<Acknowledged> auto& m) {
  v.required("number", m.number);
}

void describe(auto& v, Is<Watch> auto& m) {
  v.field("stream", m.stream);
  v.field("on", m.on);
}
void describe(auto& v, Is<Watching> auto& m) {
  v.required("stream", m.stream);
  v.field("on", m.on);
}
void describe(auto& v, Is<PartialEntry> auto& m) {
  v.field("lease", m.lease);
  v.field("job", m.job);
  v.field("custom_id", m.custom_id);
  v.field("attempt", m.attempt);
  v.field("choice", m.partial.choice);
  v.field("first_token", m.partial.first_token);
  v.field("tokens", m.partial.tokens);
  v.field("text", m.partial.text);
  v.field("reasoning", m.partial.reasoning);
  v.field("tool_calls", m.partial.tool_calls);
}
void describe(auto& v, Is<Partials> auto& m) {
  v.field("stream", m.stream);
  v.required("entries", m.entries);
}

// ---- engines
void describe(auto& v, Is<Ready> auto& m) {
  v.required("credit", m.credit);
}
void describe(auto& v, Is<Lease> auto& m) {
  v.required("lease", m.lease);
  v.required("job", m.job);
  v.field("attempt", m.attempt);
  v.field("alone", m.alone);
  v.field("submitted_us", m.submitted_us);
  v.body("body", m.body);
}
void describe(auto& v, Is<Leases> auto& m) {
  v.required("leases", m.leases);
}
void describe(auto& v, Is<Heartbeat> auto& m) {
  v.field("leases", m.leases);
  v.field("steps", m.steps);
  v.field("tokens", m.tokens);
  v.field("credit", m.credit);
  v.field("rows", m.rows);
}
void describe(auto& v, Is<HeartbeatAnswer> auto& m) {
  v.field("lost", m.lost);
  v.field("cancelled", m.cancelled);
  v.field("drain", m.drain);
}
void describe(auto& v, Is<JobEnd> auto& m) {
  v.required("lease", m.lease);
  v.field("state", m.state);
  v.body("body", m.body);
}
void describe(auto& v, Is<Ends> auto& m) {
  v.required("ends", m.ends);
}
void describe(auto& v, Is<Committed> auto& m) {
  v.field("committed", m.committed);
  v.field("stale", m.stale);
}
void describe(auto& v, Is<Release> auto& m) {
  v.required("leases", m.leases);
}

}  // namespace millrace::wire
