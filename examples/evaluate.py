#!/usr/bin/env python3
"""Evaluates a model by the exact logprobs of given texts. Nothing is sampled.

    python examples/evaluate.py perplexity FILE... --model M.gguf
    python examples/evaluate.py choices examples/data/questions.jsonl --model M.gguf

The logprobs of a text are the same bits whatever else the engine computes at the time, so figures
are equal when they are made again. The fingerprint names all that they depend on: give it with
--fingerprint, and an engine that would give other figures refuses.
"""
import argparse
import json
import math
import pathlib

import millrace

PIECE_CHARACTERS = 4000  # a long text is scored in pieces, each without what is before it


def pieces(text):
    """Cuts a text at the ends of lines."""
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > PIECE_CHARACTERS:
            yield piece
            piece = ""
        piece += line
    if piece:
        yield piece


def logprobs(result, begin=1):
    """The logprobs of a scored prompt's tokens. The first one has none: nothing is before it."""
    return [float(value) for value in result.prompt_logprobs.token[begin:]]


def perplexity(client, texts, **fields):
    """What each token costs, and each byte, by which models of other vocabularies are compared."""
    total, tokens, size, fingerprint = [], 0, 0, None
    for result in client.map((p for text in texts for p in pieces(text)), task="score", **fields):
        values = logprobs(result.raise_for_error())
        total += values
        tokens += len(values)
        size += len(result.item.encode())
        fingerprint = result.effective.fingerprint
    if not tokens:
        raise SystemExit("there is no text to score")
    total = math.fsum(total)
    return {"perplexity": math.exp(-total / tokens), "bits_per_byte": -total / math.log(2) / size,
            "tokens": tokens, "fingerprint": fingerprint}


def accuracy(client, questions, **fields):
    """A question counts as right if its right choice is the likeliest: by the sum of the logprobs
    of its tokens, and by this sum for each character, which is fairer to long choices."""
    prompts = [f"Question: {one['question']}\nAnswer:" for one in questions]
    begins = [one.raise_for_error().usage.prompt_tokens
              for one in client.map(prompts, max_tokens=1, temperature=0, **fields)]
    scored = client.map((f"{prompt} {choice}" for prompt, question in zip(prompts, questions)
                         for choice in question["choices"]), task="score", **fields)
    right = right_by_length = 0
    for question, begin in zip(questions, begins):
        sums = []
        for _ in question["choices"]:
            result = next(scored).raise_for_error()
            sums.append(math.fsum(logprobs(result, begin)))
        by_length = [value / len(choice) for value, choice in zip(sums, question["choices"])]
        right += sums.index(max(sums)) == question["answer"]
        right_by_length += by_length.index(max(by_length)) == question["answer"]
        fingerprint = result.effective.fingerprint
    count = len(questions)
    share = right / count
    return {"accuracy": share, "accuracy_by_length": right_by_length / count, "questions": count,
            "standard_error": math.sqrt(share * (1 - share) / count), "fingerprint": fingerprint}


def main():
    parser = argparse.ArgumentParser(description="Evaluates a model by exact logprobs of texts.")
    parser.add_argument("what", choices=["perplexity", "choices"])
    parser.add_argument("files", type=pathlib.Path, nargs="+", help="texts, or lines of JSON with "
                        "a question, choices, and the number of the right one as answer")
    parser.add_argument("--fingerprint", help="refuse to compute with anything else")
    parser.add_argument("--model", help="a model file: run it for this command alone")
    args = parser.parse_args()
    fields = {"require_fingerprint": args.fingerprint} if args.fingerprint else {}
    texts = [path.read_text(encoding="utf-8") for path in args.files]
    with (millrace.run(args.model, math="exact") if args.model else millrace.Client()) as client:
        if args.what == "perplexity":
            found = perplexity(client, texts, **fields)
        else:
            lines = [json.loads(line) for text in texts for line in text.splitlines()]
            found = accuracy(client, lines, **fields)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
