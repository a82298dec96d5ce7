"""Compares vocabularies of the model `llama` with PyPI `sentencepiece`, and Gemma 4's with PyPI
`tokenizers`."""
import functools
import pathlib
import random
import sys

import pytest
from tokenizers import Tokenizer, models, normalizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sentencepiece_reference as sp  # noqa: E402
import tokenizer_reference as reference  # noqa: E402
from gguf_metadata import read_metadata  # noqa: E402
from random_text import SEED, random_strings  # noqa: E402

FILES = ["llama-spm", "phi-3", "baichuan"]


def check(path, texts, wanted):
    answers = reference.probe(path, [{"text": t} for t in texts])
    for text, want, answer in zip(texts, wanted, answers):
        assert answer["tokens"] == want, f"seed {SEED}: {ascii(text)}"
        assert answer["stream"] == answer["text"]
        # The vocabularies do not tell U+2581 from a space.
        assert answer["text"] == text.replace("\u2581", " "), ascii(text)


def words(count):
    """Returns text that pieces of real vocabularies are made of."""
    rng = random.Random(SEED)
    syllables = ["the", " of", " re", "tion", "ing", " ", "  ", "\n", "▁", "é", "ä", " и", "ов",
                 "的", "は", "0", "12", ".", ",", "ly", "con", " St", "ER", "_", "://", "   ", "<s>",
                 "</s>", "<unk>", "<0x41>", "\t"]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 40))) for _ in range(count)]


def check_file(name, count):
    path = reference.vocabulary_file(name)
    processor = sp.processor_of(path)
    texts = random_strings(count, rules=True) + words(count)
    check(path, texts, processor.encode(texts))


@pytest.mark.parametrize("name", FILES)
def test_files_equal_sentencepiece(name):
    check_file(name, 1500)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_files_equal_sentencepiece_on_more_strings(name):
    check_file(name, 20000)


@pytest.mark.parametrize("seed", range(25))
def test_random_vocabularies_equal_sentencepiece(seed, tmp_path):
    rng = random.Random(seed)
    tokens, scores, kinds, space_prefix = vocabulary = sp.random_vocabulary(rng)
    path = tmp_path / "vocabulary.gguf"
    sp.write_vocabulary(path, *vocabulary)
    texts = ["".join(rng.choices("aabbé漢  ▁x", k=rng.randint(0, 90))) for _ in range(200)]
    wanted = sp.processor(tokens, scores, kinds, space_prefix).encode(texts)
    answers = reference.probe(path, [{"text": t} for t in texts])
    for text, want, answer in zip(texts, wanted, answers):
        assert answer["tokens"] == want, (vocabulary, text)
        assert answer["stream"] == answer["text"]


def test_a_continuation_keeps_its_space():
    path = reference.vocabulary_file("llama-spm")
    whole, = reference.probe(path, [{"text": "Hello world", "special": True}])
    bos, hello, world = whole["tokens"]
    assert bos == 1
    rest, again, literal = reference.probe(
        path, [{"tokens": [hello, world], "continues": True}, {"tokens": [hello, world]},
               {"text": "a<s>b", "parse": True}])
    assert rest["text"] == rest["stream"] == " Hello world"
    assert again["text"] == again["stream"] == "Hello world"
    # Text after a control token begins with a space of its own, which decoding drops, too.
    assert literal["text"] == literal["stream"] == "a<s>b"
    assert len(literal["tokens"]) == 3


def test_bytes_become_characters_in_the_stream():
    path = reference.vocabulary_file("llama-spm")
    text = "a🦙b\U0001fae0"
    answer, = reference.probe(path, [{"text": text}])
    assert answer["text"] == answer["stream"] == text
    assert len(answer["tokens"]) > 8  # the animals have no tokens


@functools.cache
def gemma4():
    fields = read_metadata(reference.vocabulary_file("gemma-4"))
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                                     unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return tokenizer


def check_gemma4(count):
    texts = random_strings(count, rules=True) + words(count)
    texts += ["\n" * n + "x" + " " * n for n in range(70)]
    # Its tag </s> and others are user-defined tokens, which `tokenizers` does not know here.
    texts = [t for t in texts if "</s>" not in t]
    wanted = [e.ids for e in gemma4().encode_batch(texts, add_special_tokens=False)]
    check(reference.vocabulary_file("gemma-4"), texts, wanted)


def test_gemma_4_equals_tokenizers():
    check_gemma4(1500)


@pytest.mark.long
def test_gemma_4_equals_tokenizers_on_more_strings():
    check_gemma4(20000)
