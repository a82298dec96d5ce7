"""Compares the tokenizer with PyPI `tokenizers` on real vocabularies of byte-level BPE, and with
the ids that llama.cpp's vocabulary files expect."""
import pathlib
import random
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_reference as reference  # noqa: E402
from pre_tokenizer_oracles import unsure_punctuation  # noqa: E402
from random_text import SEED, random_strings  # noqa: E402

VOCABULARIES = ["smollm", "gpt-2", "llama-bpe", "qwen2", "deepseek-llm"]
MORE = ["command-r", "deepseek-coder", "falcon", "mpt", "qwen35", "refact", "starcoder"]


def bytes_without_a_token(tokenizer):
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    moved = [byte for byte in range(256) if byte not in plain]
    written = {**{byte: chr(byte) for byte in plain},
               **{byte: chr(0x100 + i) for i, byte in enumerate(moved)}}
    return {byte for byte, text in written.items() if tokenizer.token_to_id(text) is None}


def check_random_unicode(name, count):
    path = reference.model_path() if name == "smollm" else reference.vocabulary_file(name)
    tokenizer, _ = reference.reference_tokenizer(path)
    texts = random_strings(count)
    if name == "falcon":
        texts = [t for t in texts if not unsure_punctuation() & set(t)]
    wanted = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    answers = reference.probe(path, [{"text": t} for t in texts])
    wrong = [(t, w, a["tokens"]) for t, w, a in zip(texts, wanted, answers) if w != a["tokens"]]
    assert not wrong, f"seed {SEED}: {len(wrong)} of {len(texts)} differ, first {wrong[0]!a}"
    lacking = bytes_without_a_token(tokenizer)
    assert len(lacking) < 40
    for text, answer in zip(texts, answers):
        assert answer["stream"] == answer["text"]
        if not lacking & set(text.encode()):  # the tokenizer drops only these bytes
            assert answer["text"] == text, ascii(text)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_random_unicode_equals_the_reference(name):
    check_random_unicode(name, 2000)


@pytest.mark.long
@pytest.mark.parametrize("name", VOCABULARIES + MORE)
def test_more_random_unicode_equals_the_reference(name):
    check_random_unicode(name, 20000)


def test_bytes_without_a_token_are_dropped_before_merging():
    """SmolLM2's vocabulary has no token for these bytes; their neighbours merge."""
    path = reference.model_path()
    tokenizer, _ = reference.reference_tokenizer(path)
    lacking = "\x04\x06\x13\x14\x16\x1d"
    texts = [*lacking, *(f"!{c}!" for c in lacking), *(f"a{c}b" for c in lacking),
             "x\U00040000y", "x\U00080000y", "\x04" * 60 + "!" * 60]
    answers = reference.probe(path, [{"text": t} for t in texts])
    assert [a["tokens"] for a in answers] == [e.ids for e in tokenizer.encode_batch(
        texts, add_special_tokens=False)]
    assert [a["text"] for a in answers[:6]] == [""] * 6
    together = tokenizer.encode("!!", add_special_tokens=False).ids
    assert len(together) == 1
    assert [a["tokens"] for a in answers[6:12]] == [together] * 6
    # If a character's lead byte has no token, its other bytes stay.
    assert [a["text"] for a in answers[18:20]] == ["x\ufffd\ufffd\ufffdy"] * 2


def test_special_tokens_equal_the_reference():
    path = reference.model_path()
    tokenizer, special = reference.reference_tokenizer(path)
    tokenizer.add_special_tokens(special)
    rng = random.Random(SEED)
    parts = [str(t.content) for t in special]
    parts += ["<|im_start|", "<", "|>", " ", "system\n", "Hello", "1", "\n"]
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 20))) for _ in range(500)]
    wanted = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    answers = reference.probe(path, [{"text": t, "parse": True} for t in texts])
    assert [a["tokens"] for a in answers] == wanted
    assert [a["text"] for a in answers] == texts
    plain = reference.probe(path, [{"text": t, "parse": False} for t in texts])
    # Without parse_special there are no control tokens.
    assert not any(i < len(special) for a in plain for i in a["tokens"])


def test_special_tokens_beside_plain_spans_equal_the_reference():
    path = reference.model_path()
    tokenizer, special = reference.reference_tokenizer(path)
    ids = {str(t.content): i for i, t in enumerate(special)}
    rng = random.Random(SEED)
    parts = [*ids, "<|im_", "end|>", "<", "|>", " ", "system\n", "Hello", "1", "\n", "é"]
    requests, wanted, counted = [], [], 0
    for _ in range(1000):
        runs = [("".join(rng.choices(parts, k=rng.randint(1, 4))), rng.random() < 0.5)
                for _ in range(rng.randint(1, 6))]
        requests.append(reference.with_plain_spans(runs))
        wanted.append(reference.ids_beside_plain_text(tokenizer, ids, runs))
        counted += sum(i < len(special) for i in wanted[-1])
    answers = reference.probe(path, requests)
    assert [a["tokens"] for a in answers] == wanted
    assert [a["text"] for a in answers] == [r["text"] for r in requests]
    assert counted > 500


def test_golden_prompts():
    golden = reference.golden()
    prompts = [g for g in golden if "rendered" in g]
    assert len(prompts) >= 8
    path = reference.model_path()
    answers = reference.probe(path, [{"text": g["rendered"], "parse": True} for g in prompts])
    for g, answer in zip(prompts, answers):
        assert answer["tokens"] == g["prompt"], g["name"]
        assert answer["text"] == g["rendered"]
    decoded = reference.probe(path, [{"tokens": g["tokens"]} for g in prompts])
    for g, answer in zip(prompts, decoded):
        assert answer["text"] == answer["stream"] == g["text"], g["name"]


@pytest.mark.parametrize("name", reference.PAIRS)
def test_expected_ids_of_the_vocabulary_files(name):
    path = reference.vocabulary_file(name)
    inputs = path.with_name(path.name + ".inp").read_text(encoding="utf-8")
    inputs = inputs.split("\n__ggml_vocab_test__\n")
    outputs = path.with_name(path.name + ".out").read_text(encoding="utf-8")
    outputs = outputs.split("\n")
    if len(outputs) == len(inputs) + 1:  # the file ends with a line end
        assert outputs.pop() == ""
    assert len(inputs) == len(outputs) >= 40
    wanted = [[int(x) for x in line.split()] for line in outputs]
    assert any(len(ids) > 100 for ids in wanted)
    answers = reference.probe(path, [{"text": t} for t in inputs])
    for text, want, answer in zip(inputs, wanted, answers):
        assert answer["tokens"] == want, ascii(text)
        assert answer["text"] == text


def test_word_piece_is_refused_by_name():
    result = subprocess.run([reference.probe_program(), reference.vocabulary_file("bert-bge")],
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert "'bert'" in result.stderr and "gpt2" in result.stderr
