#!/usr/bin/env python3
"""Labels texts, and says how sure the model is. No text is generated, so nothing is parsed.

    python examples/label.py examples/data/reviews.jsonl --model M.gguf

Without --model the jobs go to the broker that runs already. Each line of the file has a `text`; if
lines have a `label` too, the share of right ones is told. The prompt below shows the task by
examples: write your own. It must end where the label begins.
"""
import argparse
import json
import math
import pathlib

import millrace

PROMPT = """Each review is labelled as positive or negative.

Review: The garden is beautiful and the coffee is excellent.
Label: positive

Review: The train was late and the seats were broken.
Label: negative

Review: What a friendly place! Everything was clean and fresh.
Label: positive

Review: The manager shouted at us, and the shower had no hot water.
Label: negative

Review: {text}
Label:"""


def logprobs_of_first_tokens(client, prompts, ids):
    """One job for each text: the logprob of each label's first token, straight from the model.

    The engine computes the beginning that the prompts share once, and takes it from its cache then.
    """
    for result in client.map(prompts, max_tokens=1, temperature=0, logprobs=True,
                             logprob_token_ids=ids):
        result.raise_for_error()
        yield [float(value) for value in result.logprobs.listed.logprobs[0]]


def logprobs_of_whole_labels(client, prompts, labels):
    """One job for each text and label, with the label's whole text: labels may begin alike.

    A score gives the logprob of each token of a prompt. The prompts of one text differ in their
    labels alone, so the differences of their sums are those of the labels. The line's end counts as
    a part of the label: without it, a label with which another one begins would always beat it.
    """
    texts = (f"{prompt} {label}\n" for prompt in prompts for label in labels)
    row = []
    for result in client.map(texts, task="score"):
        result.raise_for_error()
        row.append(math.fsum(float(value) for value in result.prompt_logprobs.token[1:]))
        if len(row) == len(labels):
            yield row
            row = []


def first_tokens(client, prompt, labels):
    """The ids of the labels' first tokens after a prompt, in which they stand in their context."""
    scored = client.map([prompt, *(f"{prompt} {label}" for label in labels)], task="score")
    before, *with_labels = [list(map(int, one.raise_for_error().result.prompt)) for one in scored]
    if any(ids[:len(before)] != before for ids in with_labels):
        raise SystemExit("the prompt's last token changes with the label: end it with a colon")
    return [ids[len(before)] for ids in with_labels]


def shares(logprobs):
    """Probabilities among the labels alone."""
    largest = max(logprobs)
    weights = [math.exp(value - largest) for value in logprobs]
    return [weight / sum(weights) for weight in weights]


def label(client, texts, labels, whole=False):
    """Gives a label and its share of the probability for each text, in order."""
    prompts = [PROMPT.format(text=text) for text in texts]
    ids = first_tokens(client, prompts[0], labels)
    if whole or len(set(ids)) < len(labels):
        rows = logprobs_of_whole_labels(client, prompts, labels)
    else:
        rows = logprobs_of_first_tokens(client, prompts, ids)
    for row in map(shares, rows):
        best = max(range(len(labels)), key=row.__getitem__)
        yield labels[best], row[best]


def main():
    parser = argparse.ArgumentParser(description="Labels texts with the model's own probabilities.")
    parser.add_argument("file", type=pathlib.Path, help="lines of JSON with a text, and a label")
    parser.add_argument("--labels", nargs="+", default=["positive", "negative"])
    parser.add_argument("--whole", action="store_true", help="score whole labels")
    parser.add_argument("--unsure", type=float, default=0.7, help="mark labels of a smaller share")
    parser.add_argument("--model", help="a model file: run it for this command alone")
    args = parser.parse_args()
    lines = [json.loads(line) for line in args.file.read_text(encoding="utf-8").splitlines()]
    texts = [line["text"] for line in lines]
    if not texts:
        parser.error(f"{args.file} has no lines")
    right = known = 0
    with millrace.run(args.model) if args.model else millrace.Client() as client:
        print(f"{'label':<10} {'share':>6}   text")
        for line, (found, share) in zip(lines, label(client, texts, args.labels, args.whole)):
            mark = "?" if share < args.unsure else " "
            print(f"{found:<10} {share:>6.3f} {mark} {line['text'][:70]}")
            known += "label" in line
            right += line.get("label") == found
    if known:
        print(f"{right} of {known} labels are right")


if __name__ == "__main__":
    main()
