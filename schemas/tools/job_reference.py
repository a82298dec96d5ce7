"""The page docs/job-reference.md: the fields of a job by what they are for, from schemas/json.

generate.py writes it. Here stand the groups, and from whose interface each name comes; a field that
has no place here is an error, so that a new one gets a place.
"""

# Heading, what to know first, and the fields. `OpenAI` and the others say whose name it is; names
# without one are Millrace's own.
GROUPS = [
    ("What to run", "Give one of `prompt`, `tokens` and `messages`.", {
        "model": "OpenAI", "task": "", "prompt": "OpenAI", "tokens": "", "messages": "OpenAI",
        "tools": "OpenAI", "tool_choice": "OpenAI", "chat_template_kwargs": "vLLM",
        "add_special_tokens": "vLLM", "parse_special": "llama.cpp"}),
    ("How much", "", {
        "n": "OpenAI", "max_tokens": "OpenAI", "max_completion_tokens": "OpenAI",
        "n_predict": "llama.cpp", "min_tokens": "vLLM", "max_reasoning_tokens": ""}),
    ("Sampling", "Temperature and filters apply in this order, whatever the order in the job, and "
     "after the next section's.", {
        "sampling": "", "temperature": "OpenAI", "top_k": "vLLM, llama.cpp",
        "typical_p": "llama.cpp", "top_p": "OpenAI", "min_p": "vLLM, llama.cpp",
        "xtc_probability": "llama.cpp",
        "xtc_threshold": "llama.cpp", "seed": "OpenAI"}),
    ("Tokens that are made likelier, less likely or impossible", "", {
        "logit_bias": "OpenAI", "repetition_penalty": "vLLM", "repeat_penalty": "llama.cpp",
        "repetition_penalty_scope": "", "repetition_penalty_window": "",
        "presence_penalty": "OpenAI", "presence_penalty_scope": "", "presence_penalty_window": "",
        "frequency_penalty": "OpenAI", "frequency_penalty_scope": "",
        "frequency_penalty_window": "", "dry_multiplier": "llama.cpp", "dry_base": "llama.cpp",
        "dry_allowed_length": "llama.cpp", "dry_penalty_last_n": "llama.cpp",
        "dry_sequence_breakers": "llama.cpp", "dry_breaker_ids": "",
        "no_repeat_ngram_size": "transformers", "allowed_token_ids": "vLLM", "bad_words": "vLLM",
        "bad_word_ids": ""}),
    ("Where a text ends", "", {
        "stop": "OpenAI", "stop_token_ids": "vLLM", "stop_token_sequences": "",
        "include_stop_str_in_output": "vLLM", "ignore_eos": "vLLM, llama.cpp",
        "repetition_detection": "vLLM"}),
    ("What comes back", "", {
        "markers": "", "logprobs": "OpenAI", "top_logprobs": "OpenAI", "prompt_logprobs": "vLLM",
        "logprob_mode": "", "logprob_token_ids": "", "partials": ""}),
    ("Which engine", "", {"kv": "", "require_fingerprint": ""}),
    ("The queue", "These say nothing about the text, and give no other one.", {
        "id": "", "custom_id": "OpenAI", "priority": "vLLM", "not_before_us": "",
        "deadline_us": "", "max_attempts": "", "stream": "", "batch": "", "metadata": "OpenAI",
        "strict": ""}),
]

HEAD = """# The fields of a job

`schemas/tools/generate.py` makes this page from the table that the programs decode jobs with
(`schemas/json/job.json`). The same fields hold in a line of a file, in the `body` of a line in
OpenAI's batch format, in a request over [HTTP](http.md), in the Python package and over ZeroMQ.

A job holds only what differs from the defaults; `null` is absent. OpenAI's request bodies are jobs,
because the names are the same. Where OpenAI has no name for something, it is that of vLLM,
llama.cpp or transformers, which the third column tells; the other names are Millrace's own. So
these are jobs:

```sh
cat >jobs.jsonl <<'END'
{"prompt": "The sea is", "max_tokens": 8}
{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0}
{"prompt": "The sky is", "max_tokens": 8, "n": 2, "top_k": 40, "stop": ["\\n"], "logprobs": 3}
{"prompt": "The sea is blue.", "task": "score"}
{"method": "POST", "url": "/v1/completions", "body": {"prompt": "A boat", "min_p": 0.1}}
END
millrace run --model M.gguf --input jobs.jsonl --output results.jsonl
```

```text
...
5 of 5 jobs done, 0 failed
...
```

An unknown field is left out with a warning in the result, or refused where the job says `strict`. A
value that is wrong or out of range refuses this job alone, with the field's name.
[messages.md](../schemas/docs/messages.md) has the results, too.
"""

UNSUPPORTED = """## Known, and not supported

These fields of other programs are known. They may have values that change nothing; another value is
refused (`unsupported_field`), never dropped in silence.
"""


def page(schema, type_name, meaning, default):
    """The page's text. The functions are generate.py's, so that types read as in messages.md."""
    fields = schema["properties"]
    ours = {name for name, prop in fields.items() if not prop.get("x-neutral-only")}
    placed = [name for _, _, names in GROUPS for name in names]
    if sorted(placed) != sorted(ours):
        wrong = ", ".join(sorted(ours.symmetric_difference(placed)))
        raise SystemExit(f"schemas/tools/job_reference.py: give these fields one place: {wrong}")
    lines = [HEAD]
    for heading, first, names in GROUPS:
        lines += [f"## {heading}", ""]
        lines += [first, ""] if first else []
        lines += ["| field | type | name of | default | meaning |", "|---|---|---|---|---|"]
        for name, origin in names.items():
            prop = fields[name]
            kind = type_name(prop, "job.json").replace("](#", "](../schemas/docs/messages.md#")
            lines.append(f"| `{name}` | {kind} | {origin or 'Millrace'} | "
                         f"{default(schema, name)} | {meaning(prop)} |")
        lines.append("")
    lines += [UNSUPPORTED, "| field | accepted |", "|---|---|"]
    lines += [f"| `{name}` | {prop['description'].removeprefix('accepted: ')} |"
              for name, prop in fields.items() if prop.get("x-neutral-only")]
    return "\n".join(lines) + "\n"
