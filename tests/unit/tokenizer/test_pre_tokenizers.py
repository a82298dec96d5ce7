"""Compares the words of every pre-tokenizer with those of PyPI `tokenizers`."""
import functools
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import random_text  # noqa: E402
import tokenizer_reference as reference  # noqa: E402
from pre_tokenizer_oracles import ROWS, pre_tokenizer, unsure_punctuation  # noqa: E402

# Different expressions that find the same words.
SAME = [("bailing", "qwen2")]


@functools.cache
def texts(count):
    unsure = unsure_punctuation()
    return [t for t in random_text.random_strings(count, rules=True) if not unsure & set(t)]


@functools.cache
def oracle_words(name, count):
    """Returns the ends of the words of random strings, in bytes. After ByteLevel a word has as many
    characters as it stands for bytes."""
    oracle = pre_tokenizer(name)
    result = []
    for text in texts(count):
        ends, end = [], 0
        for word, _ in oracle.pre_tokenize_str(text):
            end += len(word)
            ends.append(end)
        result.append(ends)
    return result


def check_row(name, count):
    pre = ROWS[name][2].split()[0]
    wanted = oracle_words(name, count)
    for text, want, got in zip(texts(count), wanted, reference.split_probe(pre, texts(count))):
        assert got == want, f"{pre}, seed {random_text.SEED}: {ascii(text)}"


@pytest.mark.parametrize("name", ROWS)
def test_words_equal_the_oracle(name):
    check_row(name, 1000)


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
def test_words_of_more_strings_equal_the_oracle(name):
    check_row(name, 20000)


def test_the_strings_tell_all_rules_apart():
    """A row with another row's rules would fail: on many of the strings their words differ."""
    distinct = {id(ROWS[name][0]): name for name in ROWS}.values()
    assert len(distinct) >= 24
    for a in distinct:
        for b in distinct:
            if a < b and (a, b) not in SAME:
                differ = sum(x != y for x, y in zip(oracle_words(a, 1000), oracle_words(b, 1000)))
                assert differ >= 20, (a, b, differ)


def test_every_name_is_compared():
    result = subprocess.run([reference.probe_program(), "--names"], capture_output=True, text=True,
                            check=True)
    names = [json.loads(line) for line in result.stdout.splitlines()]
    wanted = {pre: [name, whole] for name, (_, whole, list_) in ROWS.items()
              for pre in list_.split()}
    assert {name: whole for name, _, whole in names} == {n: w for n, (_, w) in wanted.items()}
    # Names that share an oracle share the rules, so that comparing the first name is enough.
    rules = {}
    for name, number, _ in names:
        rules.setdefault(wanted[name][0], set()).add(number)
    assert all(len(numbers) == 1 for numbers in rules.values())
