"""Small tasks of lm-evaluation-harness over texts of this machine and sums that are made here."""
import json
import random
import subprocess

YAML = {
    "millrace_sums": """
output_type: multiple_choice
doc_to_text: "{{question}}"
target_delimiter: " "
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
""",
    "millrace_pages": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{page}}"
metric_list:
  - {metric: word_perplexity}
  - {metric: bits_per_byte}
""",
    "millrace_counting": """
output_type: generate_until
doc_to_text: "{{start}}"
doc_to_target: "{{next}}"
generation_kwargs: {until: ["\\n", ","], max_gen_toks: 8, do_sample: false}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
filter_list:
  - name: stripped
    filter:
      - {function: regex, regex_pattern: "(\\\\w+)"}
      - {function: take_first}
""",
}


def sums(count):
    """Sums, each with four answers, of which two are near; every fourth is asked without a context.
    """
    chance = random.Random(7)
    for number in range(count):
        a, b = chance.randint(11, 59), chance.randint(11, 39)
        right = a + b
        choices = [right, right + 1, right - 10, chance.randint(2, 9)]
        chance.shuffle(choices)
        question = "" if number % 4 == 3 else f"21 + 14 = 35\n16 + 35 = 51\n{a} + {b} ="
        yield {"question": question, "choices": [str(choice) for choice in choices],
               "gold": choices.index(right)}


def pages(count):
    """Paragraphs of Perl's manual."""
    text = subprocess.run(["perldoc", "-T", "perlthrtut"], check=True, text=True,
                          capture_output=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}).stdout
    paragraphs = [part for part in text.split("\n\n") if len(part) > 200]
    assert len(paragraphs) > count
    return [{"page": part} for part in paragraphs[:count]]


def countings(count):
    words = "one two three four five six seven eight nine ten eleven twelve".split()
    for i in range(count):
        begin = i % (len(words) - 4)
        yield {"start": ", ".join(words[begin:begin + 4]) + ",", "next": words[begin + 4]}


def write(folder, count):
    """Writes the tasks with their documents, and gives their names."""
    documents = {"millrace_sums": sums(count), "millrace_pages": pages(count),
                 "millrace_counting": countings(min(count, 8))}
    for name, text in YAML.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(one) + "\n" for one in documents[name]))
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
            f"test_split: test\n{text}")
    return list(YAML)
