#!/usr/bin/env python3
"""Makes a dataset from one long prompt and many seeds. Kill it when you like and start it again.

    python examples/synthesize.py questions.jsonl --count 200 --model M.gguf --folder state

The prompts begin alike, so the engine computes their beginning once. A record is written if it is
complete and says something new. Started again, it goes on; with a larger --count it adds records.
Without --model the jobs go to the broker that runs already, which knows what it has stored.
"""
import argparse
import json
import os
import pathlib
import random
import re

import millrace

PROMPT = """Below are exam questions on many subjects. Each has one short and correct answer. The \
questions are clear, they stand alone, and they differ from each other in what they ask and in how \
they begin.

Subject: water
Question: At which temperature does water boil at the level of the sea?
Answer: At 100 degrees Celsius.

Subject: music
Question: How many strings does a violin have?
Answer: It has four strings.

Subject: animals
Question: Why do birds fly south before the winter begins?
Answer: Because they find more food where it is warm.

Subject: history
Question: Who painted the ceiling of the Sistine Chapel in Rome?
Answer: Michelangelo painted it.

Subject: numbers
Question: What is the smallest prime number above ten?
Answer: It is eleven.

Subject: {subject}
Question:"""
SUBJECTS = ("plants", "the moon", "cooking", "the human body", "rivers", "weather", "trains",
            "books", "insects", "metals", "languages", "the sea", "farming", "light", "cities")
SETTINGS = {"max_tokens": 60, "temperature": 0.9, "min_p": 0.05, "stop": ["\n\n", "\nSubject:"]}
ANSWER = re.compile(r"\s*(?P<question>[^\n]+\?)\nAnswer:\s*(?P<answer>[^\n]+[.!])")


class New:
    """Tells what repeats an earlier record: at least half of its runs of three words are known."""

    def __init__(self):
        self.known = set()

    def take(self, text):
        """Whether the text is new. A new one is remembered."""
        words = re.findall(r"\w+", text.lower())
        runs = {tuple(words[i:i + 3]) for i in range(max(1, len(words) - 2))}
        if 2 * len(runs & self.known) >= len(runs):
            return False
        self.known |= runs
        return True


def job(stream, seed):
    """A job is known by its id: to submit it again stores nothing new."""
    subject = random.Random(seed).choice(SUBJECTS)
    return {"id": f"{stream}/{seed:08}", "prompt": PROMPT.format(subject=subject), "seed": seed,
            "metadata": {"subject": subject}}


def record_of(result):
    """The record that a result holds, or None where it failed or is not complete."""
    found = ANSWER.match(result.text) if result.ok else None
    seed = int(result.job.rpartition("/")[2])
    return found and {"seed": seed, **result.metadata, **found.groupdict()}


def synthesize(client, path, count):
    """Gives how many results were read in all since the file began, and how many were written."""
    stream = f"synthesize-{path.name}"
    jobs = (job(stream, seed) for seed in range(count))
    client.submit_many(jobs, stream=stream, **SETTINGS).raise_for_error()
    new, written, cached, prompt = New(), 0, 0, 0
    with millrace.Output(path) as output:  # it cuts off what a kill has left half written
        for line in open(path, encoding="utf-8"):
            new.take(json.loads(line)["question"])
            written += 1
        done = output.position.number if output.position else 0
        for result in client.results(stream, after=output.position, limit=max(0, count - done)):
            record = record_of(result)
            if record and new.take(record["question"]):
                output.write(record, result)
                written += 1
            else:
                output.skip(result)
            done = result.number
            cached += result.usage.cached_tokens
            prompt += result.usage.prompt_tokens
    print(f"{written} records from {done} texts in {path}; of the prompts "
          f"{cached / max(prompt, 1):.0%} of the tokens were computed before")


def main():
    parser = argparse.ArgumentParser(description="Makes a dataset from one prompt and many seeds.")
    parser.add_argument("output", type=pathlib.Path, help="records, one a line")
    parser.add_argument("--count", type=int, default=200, help="how many texts to generate")
    parser.add_argument("--model", help="a model file: run it for this command alone")
    parser.add_argument("--folder", help="with --model: where its jobs and results are kept")
    args = parser.parse_args()
    if args.model and not args.folder:
        args.folder = os.fspath(args.output) + ".state"
    with (millrace.run(args.model, folder=args.folder) if args.model
          else millrace.Client()) as client:
        synthesize(client, args.output, args.count)


if __name__ == "__main__":
    main()
