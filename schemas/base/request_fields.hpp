#pragma once
// The fields of a request, declared once: name, member, the form of its value, and one line of
// documentation. The member gives the type and, in a default-constructed request, the default.
// Decoding, encoding, checks, hints, the JSON Schema, the documentation, a job's seed and the
// settings that results report walk these lists with visitors of their own:
//
//   v.field(name, member, [form,] about)     a field; its name is OpenAI's where OpenAI has it,
//                                            else vLLM's or llama.cpp's
//   v.beside(name, member, [form,] about)    a field beside an OpenAI body, not in it
//   v.alias(name, member, form, main_name)   another name of the field `main_name`
//   v.required(name, member, [form,] about)  a required field of a part
//
// Some groups of fields have a list of their own because other code uses them as a group: the seed
// of a job without one comes from `prompt_fields`, Sampling and LogitEdits (schemas/codec.hpp), and
// results report Sampling and LogitEdits. To add a field, add a member and an entry here. Jobs are
// written in this order, so that equal jobs have equal bytes. Thread safety: pure functions.
#include <concepts>
#include <type_traits>

#include "schemas/base/field.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"

namespace millrace {

template <class M, class T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

void prompt_fields(auto& v, Is<GenerationRequest> auto& r) {
  v.field("prompt", r.prompt, Alternative<std::string>{},
          "the prompt: a text, or token ids as an array; special tokens written out in a text "
          "become those tokens, see parse_special; give one of prompt, tokens and messages");
  v.beside("tokens", r.prompt, Alternative<Tokens>{},
           "the prompt as token ids, bin of little-endian uint32 or an array");
  v.field("messages", r.prompt, Alternative<Chat>{limits::chat_messages},
          "a chat: an array of {role, content}, which the model's own template renders, with any "
          "further JSON fields that the template reads, such as tool_calls, tool_call_id and "
          "reasoning_content; a content is a text, a list of {type: text, text}, or null; special "
          "tokens written out in it stay text, see parse_special");
  v.field("tools", r.chat.tools, Objects{limits::tools},
          "what the model may call: objects that the chat template shows to the model as they are");
  v.field("tool_choice", r.chat.tool_choice, Word{},
          "none hides the tools from the chat template; no other choice can be forced");
  v.field("chat_template_kwargs", r.chat.template_kwargs, Variables{limits::template_kwargs},
          "variables of the chat template by name, such as enable_thinking");
  v.field("add_special_tokens", r.add_special_tokens,
          "put BOS before a text prompt where the model's file says so; not beside token ids or "
          "messages");
  v.field("parse_special", r.parse_special,
          "whether special tokens written out in a text prompt or in messages become those "
          "tokens; absent: true for a text prompt, false for messages; not beside token ids; what "
          "the chat template itself writes always does");
}

void fields(auto& v, Is<Sampling> auto& s) {
  v.field("temperature", s.temperature, Range{0, limits::temperature},
          "divides the logits before a draw: 0 is greedy, 1 the model's own distribution");
  v.field("top_k", s.top_k, "keep the k likeliest tokens; 0 is off");
  v.field("top_p", s.top_p, Range{0, 1, true},
          "keep the likeliest tokens up to this probability in all; 1 is off");
  v.field("min_p", s.min_p, Range{0, 1},
          "keep tokens of at least this share of the likeliest one's probability; 0 is off");
  v.field(
      "typical_p", s.typical_p, Range{0, 1, true},
      "keep the tokens of the most typical information up to this probability in all; 1 is off");
  v.field("xtc_probability", s.xtc_probability, Range{0, 1},
          "XTC: how often a draw leaves out all tokens of at least xtc_threshold but the least "
          "likely of them; 0 is off");
  v.field("xtc_threshold", s.xtc_threshold, Range{0, 0.5},
          "XTC: the probability from which tokens are left out; at least 0.000001 where "
          "xtc_probability is above 0");
  v.field("seed", s.seed,
          "seeds the draws; a job without one gets a hash of its prompt, its sampling fields and "
          "its custom_id, and the result tells it");
}

void fields(auto& v, Is<LogitEdits> auto& e) {
  constexpr Range additive{-limits::additive_penalty, limits::additive_penalty};
  constexpr Range factor{1 / limits::repetition_penalty, limits::repetition_penalty};
  constexpr Count window{limits::penalty_window};
  constexpr const char* scope = "which tokens it counts: prompt+output or output";
  constexpr const char* last = "how many last tokens of the scope count; 0: all of them";
  v.field("logit_bias", e.bias, Biases{limits::logit_bias, limits::logit_bias_value},
          "numbers added to the logits of token ids: a map from ids, or an array of [id, bias] "
          "pairs");
  v.field("repetition_penalty", e.repetition.value, factor,
          "divides the positive logits of tokens that have occurred and multiplies their negative "
          "ones; 1 is off");
  v.alias("repeat_penalty", e.repetition.value, factor, "repetition_penalty");
  v.field("repetition_penalty_scope", e.repetition.scope, scope);
  v.field("repetition_penalty_window", e.repetition.window, window, last);
  v.field("presence_penalty", e.presence.value, additive,
          "subtracted once from the logit of each token that has occurred; 0 is off");
  v.field("presence_penalty_scope", e.presence.scope, scope);
  v.field("presence_penalty_window", e.presence.window, window, last);
  v.field("frequency_penalty", e.frequency.value, additive,
          "subtracted from a token's logit once for each time that it has occurred; 0 is off");
  v.field("frequency_penalty_scope", e.frequency.scope, scope);
  v.field("frequency_penalty_window", e.frequency.window, window, last);
  v.field("dry_multiplier", e.dry.multiplier, Range{0, limits::dry_multiplier},
          "DRY: a token that extends a repeat of L tokens loses dry_multiplier x "
          "dry_base^(L - dry_allowed_length); 0 is off");
  v.field("dry_base", e.dry.base, Range{1, limits::dry_base},
          "DRY: the factor for each token by which a repeat is longer than allowed");
  v.field("dry_allowed_length", e.dry.allowed_length, Count{limits::dry_length, 1},
          "DRY: the length in tokens of the shortest repeat that is penalized");
  v.field("dry_penalty_last_n", e.dry.window, Count{limits::dry_window, 1},
          "DRY: how many tokens of prompt and output are searched for repeats");
  v.field("dry_sequence_breakers", e.dry.breakers,
          Texts{limits::dry_breakers, limits::bad_word_bytes},
          "DRY: no repeat reaches across the last token of one of these texts");
  v.field("dry_breaker_ids", e.dry.breaker_ids, Ids{2 * limits::dry_breakers},
          "DRY: no repeat reaches across one of these tokens, beside those of the texts");
  v.field("no_repeat_ngram_size", e.no_repeat_ngram, Count{limits::ngram},
          "no sequence of this many tokens occurs twice, the prompt's included; 0 is off");
  v.field("allowed_token_ids", e.allowed, Ids{limits::allowed_token_ids, false, true},
          "only these token ids are drawn");
  v.field("bad_words", e.bad_words, Texts{limits::bad_words, limits::bad_word_bytes},
          "texts that must not appear, as they are tokenized by themselves and after a space");
  v.field("bad_word_ids", e.bad_word_ids, IdLists{limits::bad_words, limits::bad_word_tokens},
          "token sequences that must not appear");
}

// Where sampling comes from, and the sampling itself.
void sampling_fields(auto& v, Is<GenerationRequest> auto& r) {
  v.field("sampling", r.sampling_source,
          "where the sampling fields that the job does not give come from: job means their "
          "defaults, model what the model's file suggests; a job that says model is refused by an "
          "engine whose model suggests nothing");
  fields(v, r.sampling);
}

void fields(auto& v, Is<Marker> auto& m) {
  v.required("part", m.part,
             "the kind of text between the markers; channel: a header, which says what the text "
             "after it is (to=: a tool call, else analysis: reasoning, else the answer)");
  v.required("open", m.open, Text{limits::marker_bytes, true}, "the text that begins the part");
  v.field("close", m.close, Text{limits::marker_bytes},
          "the text that ends the part; without it the part goes on to the end of the text");
  v.field("at_start", m.at_start, "whether the marker counts only before the answer has begun");
}

void fields(auto& v, Is<RepetitionDetection> auto& d) {
  v.required("max_pattern_size", d.max_pattern_size, Count{limits::repetition_pattern, 1},
             "the longest pattern in tokens");
  v.field("min_pattern_size", d.min_pattern_size, Count{limits::repetition_pattern, 1},
          "the shortest pattern in tokens");
  v.field("min_count", d.min_count, Count{limits::repetition_count, 2},
          "how many times in a row the pattern must occur");
}

// The fields that end a text, and those that split it.
void end_fields(auto& v, Is<GenerationRequest> auto& r) {
  v.field("stop", r.stops.strings, Texts{limits::stop_strings, limits::stop_string_bytes, true},
          "a string or a list of strings that end the text; they are cut off");
  v.field("stop_token_ids", r.stops.token_ids, Ids{limits::stop_token_ids},
          "token ids that end the text");
  v.field("stop_token_sequences", r.stops.sequences,
          IdLists{limits::stop_sequences, limits::stop_sequence_tokens},
          "sequences of token ids that end the text; they are cut off");
  v.field("include_stop_str_in_output", r.stops.include, "keep what ended the text at its end");
  v.field("ignore_eos", r.stops.ignore_eos, "go on after an end-of-text token");
  v.field("markers", r.markers, Parts{limits::markers},
          "sets reasoning and tool calls apart from the text: none, reasoning or auto (reasoning "
          "and tool calls) by the markers that the model is known to write, or a list of {part, "
          "open, close}; absent: reasoning for messages, none for another prompt");
  v.field("max_reasoning_tokens", r.max_reasoning_tokens, Count{limits::job_tokens},
          "the most tokens of reasoning in an answer, markers not counted; after them the closing "
          "marker's tokens are forced and the answer goes on; 0 closes reasoning as soon as it "
          "opens; forced tokens are among the result's tokens and count in usage and max_tokens, "
          "their raw logprob is the model's own, their processed one 0; needs markers of "
          "reasoning that are known or listed");
  v.field("repetition_detection", r.repetition_detection, Part{},
          "ends a text whose last tokens are one pattern several times in a row, with the finish "
          "reason repetition");
}

void fields(auto& v, Is<LogprobRequest> auto& l) {
  v.field("top_logprobs", l.top, Count{limits::top_logprobs},
          "logprobs of this many likeliest tokens at each position; needs logprobs or "
          "prompt_logprobs");
  v.field("logprobs", l, FlagOrTop{limits::top_logprobs},
          "true: logprobs of the sampled tokens; a number: and of that many likeliest tokens");
  v.field("prompt_logprobs", l.prompt,
          "logprobs of the prompt's tokens, always raw; a score job always gives them");
  v.field(
      "logprob_mode", l.mode,
      "raw: the model's own logprobs; processed: those of the distribution that was drawn from");
  v.field("logprob_token_ids", l.listed, Ids{limits::listed_logprobs, true},
          "logprobs of these token ids at each position; needs logprobs or prompt_logprobs");
}

void fields(auto& v, Is<GenerationRequest> auto& r) {
  v.beside(
      "task", r.task,
      "generate a text, or score: give the logprobs of the prompt's tokens and sample nothing");
  prompt_fields(v, r);
  v.field("n", r.n, Count{limits::n, 1}, "how many answers");
  v.field("max_tokens", r.max_tokens, Count{limits::job_tokens},
          "the most tokens that an answer may have, n times this at most 1048576; absent: 16, in "
          "a chat the rest of the context");
  v.alias("max_completion_tokens", r.max_tokens, Count{limits::job_tokens}, "max_tokens");
  v.alias("n_predict", r.max_tokens, Count{limits::job_tokens}, "max_tokens");
  v.field("min_tokens", r.min_tokens, Count{limits::job_tokens},
          "nothing ends the text before this many tokens");
  sampling_fields(v, r);
  fields(v, r.edits);
  end_fields(v, r);
  fields(v, r.logprobs);
  v.field("partials", r.partials,
          "also send text and tokens, while they are generated, to sessions that watch the stream");
  v.field("kv", r.kv, Label{limits::kv_bytes, true},
          "the KV policy wanted: a preset, KEY/VALUE, or the effective.kv of a result");
  v.field("require_fingerprint", r.require_fingerprint, Label{limits::id_bytes, true},
          "fail on an engine with another numeric fingerprint");
}

}  // namespace millrace
