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
  v.known("cache_prompt", neutral_any, "any value, because prefixes are always cached");
  v.known("cache_salt", neutral_null, "null; prefixes are shared within a model");
  v.known("chat_template", neutral_null, "null; the model file's own template is used");
  v.known("continue_final_message", neutral_false, "false");
  v.known("detokenize", neutral_true, "true");
  v.known("documents", neutral_empty, "[]");
  v.known("dynatemp_range", neutral_zero, "0");
  v.known("early_stopping", neutral_false, "false");
  v.known("echo", neutral_false, "false");
  v.known("function_call", neutral_none_or_auto, "none or auto");
  v.known("functions", neutral_empty, "[]");
  v.known("grammar", neutral_empty, "\"\"");
  v.known("guided_choice", neutral_empty, "[]");
  v.known("guided_decoding_backend", neutral_any, "any value, because no text is guided");
  v.known("guided_grammar", neutral_empty, "\"\"");
  v.known("guided_json", neutral_null, "null");
  v.known("guided_regex", neutral_empty, "\"\"");
  v.known("guided_whitespace_pattern", neutral_null, "null");
  v.known("id_slot", neutral_any, "any value, because there are no slots");
  v.known("include_reasoning", neutral_true, "true; markers says what is separated");
  v.known("json_schema", neutral_empty, "{}");
  v.known("kv_transfer_params", neutral_null, "null");
  v.known("length_penalty", neutral_one, "1");
  v.known("logits_processors", neutral_empty, "[]");
  v.known("lora", neutral_empty, "[]");
  v.known("min_keep", neutral_zero, "0");
  v.known("min_tokens_to_keep", neutral_one, "1");
  v.known("mirostat", neutral_zero, "0");
  v.known("mm_processor_kwargs", neutral_empty, "{}");
  v.known("modalities", neutral_text, "[\"text\"]");
  v.known("n_keep", neutral_zero, "0");
  v.known("n_probs", neutral_zero, "0; logprobs and top_logprobs ask for them");
  v.known("parallel_tool_calls", neutral_any,
          "any value, because a model writes as many calls as it will");
  v.known("prediction", neutral_any, "any value, because it only hints at speed");
  v.known("prompt_cache_key", neutral_any, "any value, because prefixes are found without it");
  v.known("prompt_cache_retention", neutral_any, "any value");
  v.known("prompt_embeds", neutral_null, "null");
  v.known("reasoning_effort", neutral_null, "null");
  v.known("repeat_last_n", neutral_null,
          "null; repetition_penalty_window says how many tokens count");
  v.known("request_id", neutral_any, "any value, because a job has its id");
  v.known("response_format", neutral_text, "{\"type\": \"text\"}");
  v.known("return_progress", neutral_any, "any value");
  v.known("return_token_ids", neutral_any, "any value, because results have them");
  v.known("return_tokens_as_token_ids", neutral_false, "false");
  v.known("safety_identifier", neutral_any, "any value");
  v.known("samplers", neutral_null, "null; their order is fixed");
  v.known("service_tier", neutral_any, "any value");
  v.known("skip_special_tokens", neutral_true, "true");
  v.known("spaces_between_special_tokens", neutral_true, "true");
  v.known("store", neutral_any, "any value, because results are kept in their stream");
  v.known("stream_options", neutral_any, "any value; `partials` sends text while it is generated");
  v.known("structural_tag", neutral_null, "null");
  v.known("structured_outputs", neutral_empty, "{}");
  v.known("suffix", neutral_empty, "\"\"");
  v.known("tfs_z", neutral_one, "1");
  v.known("timings_per_token", neutral_any, "any value; results have the times of the whole");
  v.known("top_n_sigma", neutral_null, "null");
  v.known("truncate_prompt_tokens", neutral_null, "null");
  v.known("use_beam_search", neutral_false, "false");
  v.known("user", neutral_any, "any value");
  v.known("verbosity", neutral_null, "null");
  v.known("vllm_xargs", neutral_empty, "{}");
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
