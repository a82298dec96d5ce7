"""Reference tokenizers for the tests: PyPI `tokenizers` built from a GGUF file's own vocabulary,
and the vocabulary files that llama.cpp ships with the ids it expects."""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

from tokenizers import AddedToken, Tokenizer, models

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
import llama_cpp_sdist  # noqa: E402
import pre_tokenizer_oracles  # noqa: E402
from gguf_metadata import read_metadata  # noqa: E402

ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))

# The vocabularies to take from the sdist: those with expected ids, and others.
PAIRS = ("command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe",
         "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder")
VOCABULARIES = (*PAIRS, "baichuan", "bert-bge")


@functools.cache
def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        result = subprocess.run([ROOT / "ops/model"], capture_output=True, text=True)
        assert result.returncode == 0, f"ops/model failed: {result.stderr}"
        path = result.stdout.strip().split("\n")[-1]
    assert pathlib.Path(path).is_file(), f"no model at {path}: run ops/model"
    return pathlib.Path(path)


def golden():
    files = sorted((ROOT / "tests/reference/golden").glob("*.json"))
    assert files
    return [json.loads(f.read_text(encoding="utf-8")) for f in files]


@functools.cache
def vocabulary_file(name):
    """Returns the path of ggml-vocab-NAME.gguf of the sdist, with its .inp and .out files beside
    it."""
    wanted = tuple(f"ggml-vocab-{v}.gguf" for v in VOCABULARIES)
    file = f"ggml-vocab-{name}.gguf"
    folder = llama_cpp_sdist.folder_with("vocabularies", lambda path: path.name.startswith(wanted),
                                         lambda folder: (folder / file).exists())
    assert (folder / file).exists(), f"{llama_cpp_sdist.NAME} does not hold {file}"
    return folder / file


def reference_tokenizer(path):
    """Returns PyPI `tokenizers`' tokenizer for the GGUF file's vocabulary, and the control tokens,
    which the tokenizer does not know yet."""
    fields = read_metadata(path)
    tokens = fields["tokenizer.ggml.tokens"]
    kinds = fields["tokenizer.ggml.token_type"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    row = pre_tokenizer_oracles.row_of(fields["tokenizer.ggml.pre"])
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                                     ignore_merges=pre_tokenizer_oracles.ROWS[row][1]))
    tokenizer.pre_tokenizer = pre_tokenizer_oracles.pre_tokenizer(row)
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, kinds)
                          if kind == 4])
    special = [t for t, kind in zip(tokens, kinds) if kind == 3]
    return tokenizer, [AddedToken(t, special=True, normalized=False) for t in special]


def with_plain_spans(runs):
    """Returns the request that tokenizes runs of text, each (text, whether it is plain)."""
    spans, at = [], 0
    for text, plain in runs:
        size = len(text.encode())
        if plain and spans and spans[-1][1] == at:
            spans[-1][1] += size
        elif plain:
            spans.append([at, at + size])
        at += size
    return {"text": "".join(text for text, _ in runs), "parse": True, "plain": spans}


def ids_beside_plain_text(tokenizer, special, runs):
    """Returns the ids of runs of text, each (text, whether it is plain): the ids of special tokens
    for their literals in text that is not plain, and of the text between them in one piece.
    `special` maps literals to ids; `tokenizer` knows no special tokens."""
    literal = re.compile("|".join(re.escape(t) for t in sorted(special, key=len, reverse=True)))
    joined = []  # joins adjacent runs of one kind
    for text, plain in runs:
        if joined and joined[-1][1] == plain:
            joined[-1][0] += text
        else:
            joined.append([text, plain])
    ids, piece = [], ""
    for text, plain in joined:
        at = 0
        for found in literal.finditer(text) if not plain else ():
            piece += text[at:found.start()]
            ids += tokenizer.encode(piece, add_special_tokens=False).ids
            ids.append(special[found[0]])
            piece, at = "", found.end()
        piece += text[at:]
    return ids + tokenizer.encode(piece, add_special_tokens=False).ids


def probe_program():
    program = BUILD / "bin/tokenize_probe"
    assert program.exists(), f"{program} is missing: build the tests"
    return program


def _ask_probe(arguments, requests):
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    result = subprocess.run([probe_program(), *arguments], input=lines, capture_output=True,
                            text=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.split("\n") if line]
    assert len(answers) == len(requests)
    return answers


def probe(path, requests):
    """Returns the answers of tokenize_probe, one per request."""
    return _ask_probe([path], requests)


def split_probe(pre, texts):
    """Returns where each word of each text ends, in bytes, by the rules of a pre-tokenizer."""
    return _ask_probe(["--split", pre], texts)


if __name__ == "__main__":  # downloads ahead of the tests, while the processor is busy otherwise
    for vocabulary in VOCABULARIES:
        vocabulary_file(vocabulary)
