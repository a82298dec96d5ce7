"""The fields of a job.

Made by client/python/tools/generate.py from the schemas: change those.
"""
from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence, TypedDict


class Job(TypedDict, total=False):
    """What is asked for; each field that is left out has its default."""

    # the job's id, chosen by the producer; a job without one gets a hash of its body (up to 256
    # bytes)
    id: str | None
    # a label that the result repeats (up to 256 bytes)
    custom_id: str | None
    # the model's name; * is any model (up to 256 bytes)
    model: str | None
    # generate a text, or score: give the logprobs of the prompt's tokens and sample nothing
    task: Literal["generate", "score"] | None
    # the prompt: a text, or token ids as an array; special tokens written out in a text become
    # those tokens, see parse_special; give one of prompt, tokens and messages
    prompt: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]] | None
    # the prompt as token ids, bin of little-endian uint32 or an array
    tokens: bytes | Sequence[int] | None
    # a chat: an array of {role, content}, which the model's own template renders, with any
    # further JSON fields that the template reads, such as tool_calls, tool_call_id and
    # reasoning_content; a content is a text, a list of {type: text, text}, or null; special
    # tokens written out in it stay text, see parse_special (up to 4096 messages)
    messages: Sequence[Mapping[str, Any]] | None
    # what the model may call: objects that the chat template shows to the model as they are (up
    # to 1024 objects)
    tools: Sequence[Mapping[str, Any]] | None
    # none hides the tools from the chat template; no other choice can be forced
    tool_choice: Literal["auto", "none"] | None
    # variables of the chat template by name, such as enable_thinking (up to 64 entries)
    chat_template_kwargs: Mapping[str, Any] | None
    # put BOS before a text prompt where the model's file says so; not beside token ids or
    # messages
    add_special_tokens: bool | None
    # whether special tokens written out in a text prompt or in messages become those tokens;
    # absent: true for a text prompt, false for messages; not beside token ids; what the chat
    # template itself writes always does
    parse_special: bool | None
    # how many answers (1 to 128)
    n: int | None
    # the most tokens that an answer may have, n times this at most 1048576; absent: 16, in a chat
    # the rest of the context (0 to 1048576)
    max_tokens: int | None
    # another name of `max_tokens` (0 to 1048576)
    max_completion_tokens: int | None
    # another name of `max_tokens` (0 to 1048576)
    n_predict: int | None
    # nothing ends the text before this many tokens (0 to 1048576)
    min_tokens: int | None
    # where the sampling fields that the job does not give come from: job means their defaults,
    # model what the model's file suggests; a job that says model is refused by an engine whose
    # model suggests nothing
    sampling: Literal["job", "model"] | None
    # divides the logits before a draw: 0 is greedy, 1 the model's own distribution (0 to 100)
    temperature: float | None
    # keep the k likeliest tokens; 0 is off
    top_k: int | None
    # keep the likeliest tokens up to this probability in all; 1 is off (above 0 and up to 1)
    top_p: float | None
    # keep tokens of at least this share of the likeliest one's probability; 0 is off (0 to 1)
    min_p: float | None
    # keep the tokens of the most typical information up to this probability in all; 1 is off
    # (above 0 and up to 1)
    typical_p: float | None
    # XTC: how often a draw leaves out all tokens of at least xtc_threshold but the least likely
    # of them; 0 is off (0 to 1)
    xtc_probability: float | None
    # XTC: the probability from which tokens are left out; at least 0.000001 where xtc_probability
    # is above 0 (0 to 0.5)
    xtc_threshold: float | None
    # seeds the draws; a job without one gets a hash of its prompt, its sampling fields and its
    # custom_id, and the result tells it
    seed: int | None
    # numbers added to the logits of token ids: a map from ids, or an array of [id, bias] pairs
    # (up to 1024 ids, each with a number from -100 to 100)
    logit_bias: Mapping[int | str, float] | Sequence[Sequence[Any]] | None
    # divides the positive logits of tokens that have occurred and multiplies their negative ones;
    # 1 is off (0.1 to 10)
    repetition_penalty: float | None
    # another name of `repetition_penalty` (0.1 to 10)
    repeat_penalty: float | None
    # which tokens it counts: prompt+output or output
    repetition_penalty_scope: Literal["prompt+output", "output"] | None
    # how many last tokens of the scope count; 0: all of them (0 to 1048576)
    repetition_penalty_window: int | None
    # subtracted once from the logit of each token that has occurred; 0 is off (-2 to 2)
    presence_penalty: float | None
    # which tokens it counts: prompt+output or output
    presence_penalty_scope: Literal["prompt+output", "output"] | None
    # how many last tokens of the scope count; 0: all of them (0 to 1048576)
    presence_penalty_window: int | None
    # subtracted from a token's logit once for each time that it has occurred; 0 is off (-2 to 2)
    frequency_penalty: float | None
    # which tokens it counts: prompt+output or output
    frequency_penalty_scope: Literal["prompt+output", "output"] | None
    # how many last tokens of the scope count; 0: all of them (0 to 1048576)
    frequency_penalty_window: int | None
    # DRY: a token that extends a repeat of L tokens loses dry_multiplier x dry_base^(L -
    # dry_allowed_length); 0 is off (0 to 100)
    dry_multiplier: float | None
    # DRY: the factor for each token by which a repeat is longer than allowed (1 to 10)
    dry_base: float | None
    # DRY: the length in tokens of the shortest repeat that is penalized (1 to 64)
    dry_allowed_length: int | None
    # DRY: how many tokens of prompt and output are searched for repeats (1 to 4096)
    dry_penalty_last_n: int | None
    # DRY: no repeat reaches across the last token of one of these texts (up to 64 texts of up to
    # 1024 bytes)
    dry_sequence_breakers: Sequence[str] | None
    # DRY: no repeat reaches across one of these tokens, beside those of the texts (up to 128 ids,
    # each below the size of the vocabulary)
    dry_breaker_ids: bytes | Sequence[int] | None
    # no sequence of this many tokens occurs twice, the prompt's included; 0 is off (0 to 64)
    no_repeat_ngram_size: int | None
    # only these token ids are drawn (up to 65536 ids, each below the size of the vocabulary)
    allowed_token_ids: bytes | Sequence[int] | None
    # texts that must not appear, as they are tokenized by themselves and after a space (up to
    # 1024 texts of up to 1024 bytes)
    bad_words: Sequence[str] | None
    # token sequences that must not appear (up to 1024 sequences of 1 to 64 ids)
    bad_word_ids: Sequence[bytes | Sequence[int]] | None
    # a string or a list of strings that end the text; they are cut off (up to 64 texts of up to
    # 1024 bytes)
    stop: str | Sequence[str] | None
    # token ids that end the text (up to 1024 ids, each below the size of the vocabulary)
    stop_token_ids: bytes | Sequence[int] | None
    # sequences of token ids that end the text; they are cut off (up to 256 sequences of 1 to 64
    # ids)
    stop_token_sequences: Sequence[bytes | Sequence[int]] | None
    # keep what ended the text at its end
    include_stop_str_in_output: bool | None
    # go on after an end-of-text token
    ignore_eos: bool | None
    # sets reasoning and tool calls apart from the text: none, reasoning or auto (reasoning and
    # tool calls) by the markers that the model is known to write, or a list of {part, open,
    # close}; absent: reasoning for messages, none for another prompt (up to 16 parts)
    markers: Literal["none", "reasoning", "auto"] | Sequence[Mapping[str, Any]] | None
    # the most tokens of reasoning in an answer, markers not counted; after them the closing
    # marker's tokens are forced and the answer goes on; 0 closes reasoning as soon as it opens;
    # forced tokens are among the result's tokens and count in usage and max_tokens, their raw
    # logprob is the model's own, their processed one 0; needs markers of reasoning that are known
    # or listed (0 to 1048576)
    max_reasoning_tokens: int | None
    # ends a text whose last tokens are one pattern several times in a row, with the finish reason
    # repetition
    repetition_detection: Mapping[str, Any] | None
    # logprobs of this many likeliest tokens at each position; needs logprobs or prompt_logprobs
    # (0 to 128)
    top_logprobs: int | None
    # true: logprobs of the sampled tokens; a number: and of that many likeliest tokens (true,
    # false or 0 to 128)
    logprobs: bool | int | None
    # logprobs of the prompt's tokens, always raw; a score job always gives them
    prompt_logprobs: bool | None
    # raw: the model's own logprobs; processed: those of the distribution that was drawn from
    logprob_mode: Literal["raw", "processed"] | None
    # logprobs of these token ids at each position; needs logprobs or prompt_logprobs (up to 128
    # ids, each below the size of the vocabulary)
    logprob_token_ids: bytes | Sequence[int] | None
    # also send text and tokens, while they are generated, to sessions that watch the stream
    partials: bool | None
    # the KV policy wanted: a preset, KEY/VALUE, or the effective.kv of a result (up to 16384
    # bytes)
    kv: str | None
    # fail on an engine with another numeric fingerprint (up to 256 bytes)
    require_fingerprint: str | None
    # jobs of a smaller number are served first (0 to 4)
    priority: int | None
    # a Unix time in microseconds; the job waits until then and delays no other (microseconds
    # since 1970)
    not_before_us: int | None
    # a Unix time in microseconds; a job that has not ended by then is expired (microseconds since
    # 1970)
    deadline_us: int | None
    # the job fails after this many failures of engines: deaths while one ran it alone, and errors
    # that are not the job's own, after which it runs again with growing pauses (1 to 100)
    max_attempts: int | None
    # the name of the stream that the result is published on; OpenAI's false is neutral (up to 256
    # bytes)
    stream: str | Literal[False] | None
    # the batch that the job is counted in (up to 256 bytes)
    batch: str | None
    # strings by name that the result repeats (up to 64 entries of 16384 bytes in all)
    metadata: Mapping[str, str] | None
    # refuse unknown fields instead of warning
    strict: bool | None
