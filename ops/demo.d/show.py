"""Prints a few prompts of the demo and their results, from the job file and the result file."""
import json
import sys
import textwrap

WANTED = ["library-01", "library-11", "haiku-rain", "plain-lighthouse", "plain-capitals",
          "plain-proverb"]


def records(path):
    """The lines that are JSON objects, by custom_id. Two of the job file are wrong on purpose."""
    found = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            found[record["custom_id"]] = record
    return found


def show(mark, text):
    print(textwrap.fill(" ".join(text.split()), 96, initial_indent=mark, subsequent_indent="   "))


def prompt_of(job):
    body = job["body"]
    return body["messages"][-1]["content"] if "messages" in body else body["prompt"]


def main():
    jobs, results = records(sys.argv[1]), records(sys.argv[2])
    for name in WANTED:
        if name not in results or results[name]["error"]:
            continue
        print(f"\n[{name}]")
        show(" > ", prompt_of(jobs[name]))
        for choice in results[name]["response"]["body"]["choices"]:
            text = choice["message"]["content"] if "message" in choice else choice["text"]
            show(" < ", f"{text} [{choice['finish_reason']}]")


if __name__ == "__main__":
    main()
