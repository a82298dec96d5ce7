#!/usr/bin/env python3
"""A pipeline of two stages, joined by a stream. Each part is a program of its own: kill any of
them, and start it again.

    python examples/pipeline.py draft examples/data/topics.txt   # submits jobs of the first stage
    python examples/pipeline.py title                            # a job for each draft, forever
    python examples/pipeline.py collect OUT.jsonl --limit 12     # writes what comes out of both

The parts may run at once, one after the other, or on several machines. The broker keeps what lies
between them: the results of the first stage are the stream `drafts`, those of the second `titles`.
"""
import argparse
import pathlib

import millrace

DRAFT = "Topic: {topic}\n\nTwo sentences for children about this topic:"
TITLE = "Text: The cat sleeps on the warm roof.\nTitle: The Sleeping Cat\n\nText: {draft}\nTitle:"


def draft(client, path):
    """Submits a job for each line. Its id makes this safe to repeat: the broker stores it once."""
    topics = path.read_text(encoding="utf-8").splitlines()
    jobs = ({"id": f"draft/{path.name}/{number:06}", "prompt": DRAFT.format(topic=topic),
             "metadata": {"topic": topic}} for number, topic in enumerate(topics))
    summary = client.submit_many(jobs, stream="drafts", max_tokens=48, temperature=0.8)
    summary.raise_for_error()
    print(f"{summary.stored - summary.known} new drafts, {summary.known} were known", flush=True)


def title(client):
    """The cursor moves over a draft when the next one is asked for: its title's job is stored then.
    A draft that is read again after a kill gives the same id, and so no second job.
    """
    for result in client.results("drafts", cursor="title"):
        if not result.ok:
            print(f"{result.job}: {result.error}", flush=True)
            continue
        text = " ".join(result.text.split())
        client.submit(TITLE.format(draft=text), id=f"title/{result.job}", stream="titles",
                      max_tokens=12, temperature=0, stop=["\n"],
                      metadata={**result.metadata, "draft": text})


def collect(client, path, limit):
    """Writes a line for each title, until the file has so many."""
    with millrace.Output(path) as output:
        done = output.position.number if output.position else 0
        for result in client.results("titles", after=output.position,
                                     limit=max(0, limit - done)):
            error = None if result.ok else str(result.error)
            output.write({**result.metadata, "title": result.text.strip() if result.ok else None,
                          "error": error}, result)


def main():
    parser = argparse.ArgumentParser(description="A pipeline of two stages, joined by a stream.")
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("draft", help="submit topics").add_argument("file", type=pathlib.Path)
    parts.add_parser("title", help="make titles of drafts, until it is stopped")
    last = parts.add_parser("collect", help="write drafts with their titles")
    last.add_argument("output")
    last.add_argument("--limit", type=int, required=True, help="how many lines the file gets")
    args = parser.parse_args()
    with millrace.Client() as client:
        if args.part == "draft":
            draft(client, args.file)
        elif args.part == "title":
            title(client)
        else:
            collect(client, args.output, args.limit)


if __name__ == "__main__":
    main()
