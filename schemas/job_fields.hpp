#pragma once
// The fields of a job, declared once: those of the queue here, those of the request in
// schemas/base/request_fields.hpp, which also describes the visitors. One more list has the fields
// of other programs that are known and not supported:
//
//   v.known(name, neutral, accepted)   accepts only values that change nothing
//
// Any other field of a job is unknown: it is ignored with a warning in the result, or refused where
// the job is strict. Thread safety: pure functions.
#include "schemas/base/request_fields.hpp"
#include "schemas/job.hpp"

namespace millrace {

void known_fields(auto& v) {
  v.known("add_generation_prompt", neutral_true, "true");
  v.known("audio", neutral_null, "null");
  v.known("best_of", neutral_one, "1");
  v.known("chat_template", neutral_null, "null; the model file's own template is used");
  v.known("continue_final_message", neutral_false, "false");
  v.known("early_stopping", neutral_false, "false");
  v.known("echo", neutral_false, "false");
  v.known("function_call", neutral_none_or_auto, "none or auto");
  v.known("functions", neutral_empty, "[]");
  v.known("grammar", neutral_empty, "\"\"");
  v.known("guided_choice", neutral_empty, "[]");
  v.known("guided_grammar", neutral_empty, "\"\"");
  v.known("guided_json", neutral_null, "null");
  v.known("guided_regex", neutral_empty, "\"\"");
  v.known("length_penalty", neutral_one, "1");
  v.known("logits_processors", neutral_empty, "[]");
  v.known("min_tokens_to_keep", neutral_one, "1");
  v.known("mirostat", neutral_zero, "0");
  v.known("modalities", neutral_text, "[\"text\"]");
  v.known("parallel_tool_calls", neutral_any, "any value, because calls are not parsed");
  v.known("prediction", neutral_any, "any value, because it only hints at speed");
  v.known("prompt_cache_key", neutral_any, "any value, because prefixes are found without it");
  v.known("prompt_cache_retention", neutral_any, "any value");
  v.known("reasoning_effort", neutral_null, "null");
  v.known("response_format", neutral_text, "{\"type\": \"text\"}");
  v.known("safety_identifier", neutral_any, "any value");
  v.known("service_tier", neutral_any, "any value");
  v.known("skip_special_tokens", neutral_true, "true");
  v.known("spaces_between_special_tokens", neutral_true, "true");
  v.known("store", neutral_any, "any value, because results are kept in their stream");
  v.known("stream_options", neutral_any, "any value; `partials` sends text while it is generated");
  v.known("structured_outputs", neutral_empty, "{}");
  v.known("suffix", neutral_empty, "\"\"");
  v.known("truncate_prompt_tokens", neutral_null, "null");
  v.known("use_beam_search", neutral_false, "false");
  v.known("user", neutral_any, "any value");
  v.known("verbosity", neutral_null, "null");
  v.known("web_search_options", neutral_null, "null");
}

void fields(auto& v, Is<Job> auto& j) {
  constexpr Label label{limits::id_bytes};
  constexpr Label name{limits::id_bytes, true};
  v.beside("id", j.id, label,
           "the job's id, chosen by the producer; a job without one gets a hash of its body");
  v.beside("custom_id", j.custom_id, label, "a label that the result repeats");
  v.field("model", j.model, name, "the model's name; * is any model");
  fields(v, j.request);
  v.field("priority", j.priority, Range{0, limits::priority_count - 1},
          "jobs of a smaller number are served first");
  v.beside("not_before_us", j.not_before_us, UnixTime{},
           "a Unix time in microseconds; the job waits until then and delays no other");
  v.beside("deadline_us", j.deadline_us, UnixTime{},
           "a Unix time in microseconds; a job that has not ended by then is expired");
  v.field("max_attempts", j.max_attempts, Count{limits::max_attempts, 1},
          "the job fails after this many failures of engines: deaths while one ran it alone, and "
          "errors that are not the job's own, after which it runs again with growing pauses");
  v.field("stream", j.stream, Label{limits::id_bytes, true, true},
          "the name of the stream that the result is published on; OpenAI's false is neutral");
  v.beside("batch", j.batch, label, "the batch that the job is counted in");
  v.field("metadata", j.metadata, Dictionary{limits::metadata_entries, limits::metadata_bytes},
          "strings by name that the result repeats");
  v.field("strict", j.strict, "refuse unknown fields instead of warning");
  known_fields(v);
}

}  // namespace millrace
