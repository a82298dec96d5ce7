"""Prints a few results of the demo to read, from an OpenAI batch output file."""
import json
import sys

WANTED = ["library-01", "library-11", "haiku-rain", "plain-lighthouse", "plain-capitals",
          "plain-proverb"]


def main():
    results = {}
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            results[record["custom_id"]] = record
    for name in WANTED:
        record = results.get(name)
        if record is None or record["response"] is None:
            continue
        for choice in record["response"]["body"]["choices"]:
            text = choice["message"]["content"] if "message" in choice else choice["text"]
            print(f"\n[{name}, {choice['finish_reason']}] {text.strip()}")


if __name__ == "__main__":
    main()
