"""Tokenizers of folders: the ids are those of PyPI `tokenizers`, which reads the same file, and the
ends, the template and the sampling are those that the folder's files name."""
import json
import random
import subprocess
import sys

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from folders import BUILD, MODELS, HERE, probe, refusal, write_folder

sys.path.insert(0, str(HERE.parent / "tokenizer"))
import pre_tokenizer_oracles as oracles  # noqa: E402

TEXTS = ["", " ", "Hello, world! It's 12345 o'clock.", "  two  spaces\n\n\tand lines ",
         "naïve café, ÀÉ, 東京, привет", "this thing, in", "a<s>b", "🙂 emoji\u200d"]
# Falcon's tokenizer cuts by classes of its own; chameleon's, too.
OTHERS = {"falcon", "chameleon"}


def write(tmp_path, tokenizer, config=None, generation=None):
    """A folder with a tokenizer: the library's, or the dictionary of a tokenizer.json."""
    folder = write_folder.write(MODELS["llama"], tmp_path / "folder")
    text = tokenizer if isinstance(tokenizer, dict) else json.loads(tokenizer.to_str())
    write_folder.write_json(folder / "tokenizer.json", text)
    write_folder.write_json(folder / "tokenizer_config.json", {} if config is None else config)
    if generation is not None:
        write_folder.write_json(folder / "generation_config.json", generation)
    return folder


def tokens_of(folder, texts, **options):
    lines = "".join(json.dumps({"text": text} | options) + "\n" for text in texts)
    made = subprocess.run([BUILD / "bin/tokenize_probe", folder], input=lines, text=True,
                          capture_output=True)
    assert made.returncode == 0, made.stderr
    return [json.loads(line)["tokens"] for line in made.stdout.splitlines()]


def byte_level(pre_tokenizer, ignore_merges=False):
    """A byte-level vocabulary, trained on a few words so that it has merges."""
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=310, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"], show_progress=False)
    made.train_from_iterator(["this thing 123 in the o'clock café HELLO Hello 12345"] * 4, trainer)
    return made


@pytest.mark.parametrize("name", [name for name in oracles.ROWS if name not in OTHERS])
def test_pre_tokenizers_are_recognized(name, tmp_path):
    whole, names = oracles.ROWS[name][1:]
    tokenizer = byte_level(oracles.pre_tokenizer(name), whole)
    folder = write(tmp_path, tokenizer)
    keys = probe(folder, tmp_path)[0]["keys"]
    chosen = keys["tokenizer.ggml.pre"]
    assert name == "bailing" or chosen in names.split()
    source = random.Random(3)
    texts = TEXTS + ["".join(source.choices("aZé1 \n'!-", k=40)) for _ in range(50)]
    wanted = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokens_of(folder, texts, parse=True) == wanted


def spm(prefix, missing=()):
    """SentencePiece's BPE as the library converts it: a merge for every two pieces that are one."""
    special = ["<unk>", "<s>", "</s>"]
    pieces = ["▁", "t", "h", "i", "n", "g", "s", "▁t", "th", "in", "▁th", "ing", "is", "▁this",
              "thing", "▁thing", "▁▁", "ng", "1", "2", "é"]
    vocabulary = {text: i for i, text in enumerate(
        special + [f"<0x{byte:02X}>" for byte in range(256)] + pieces)}
    order = pieces[7:18]
    merges = [(text[:at], text[at:]) for text in order for at in range(1, len(text))
              if text[:at] in pieces and text[at:] in pieces and text not in missing]
    made = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>",
                                           byte_fallback=True, fuse_unk=True))
    steps = [normalizers.Prepend("▁")] if prefix else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    made.add_special_tokens(special)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return made


SPM_TEXTS = ["this thing", " things in  this", "insight", "12é", "naïve 東", "thingthis"]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("missing", [(), ("thing",)])
def test_sentencepiece(prefix, missing, tmp_path):
    tokenizer = spm(prefix, missing)
    folder = write(tmp_path, tokenizer, {"bos_token": "<s>", "eos_token": "</s>"})
    keys = probe(folder, tmp_path)[0]["keys"]
    assert keys["tokenizer.ggml.model"] == ("gemma4" if missing else "llama")
    assert keys["tokenizer.ggml.add_space_prefix"] is prefix
    assert keys["tokenizer.ggml.add_bos_token"] is True
    assert keys["tokenizer.ggml.bos_token_id"] == 1 and keys["tokenizer.ggml.eos_token_id"] == 2
    wanted = [tokenizer.encode(text).ids for text in SPM_TEXTS]
    assert tokens_of(folder, SPM_TEXTS, special=True) == wanted


def test_the_vocabulary_is_filled_up(tmp_path):
    """The model has more rows than the tokenizer has tokens."""
    file = write_folder.tokenizer_json()
    for i in (300, 301):
        del file["model"]["vocab"][f"<w{i}>"]
    file["added_tokens"].append({"id": 301, "content": "<new▁one>", "special": False})
    file["added_tokens"].append({"id": 300, "content": "<|x|>", "special": False})
    keys = probe(write(tmp_path, file), tmp_path)[0]["keys"]
    tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert len(tokens) == len(kinds) == 320
    assert (tokens[301], kinds[301]) == ("<new one>", 4)
    assert (tokens[300], kinds[300]) == ("<|x|>", 3)
    del file["model"]["vocab"]["<w302>"]
    keys = probe(write(tmp_path, file), tmp_path)[0]["keys"]
    assert keys["tokenizer.ggml.tokens"][302] == "[PAD302]"
    assert keys["tokenizer.ggml.token_type"][302] == 5


def test_ends_template_and_sampling(tmp_path):
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": True,
              "chat_template": [{"name": "rag", "template": "R"},
                                {"name": "default", "template": "{{ bos_token }}"}]}
    generation = {"eos_token_id": [317, 300, 301, 302], "temperature": 0.5, "top_k": 20,
                  "top_p": 0.75, "min_p": 0.0, "repetition_penalty": 1.25, "do_sample": True}
    folder = write(tmp_path, write_folder.tokenizer_json(), config, generation)
    keys = probe(folder, tmp_path)[0]["keys"]
    assert keys["tokenizer.chat_template"] == "{{ bos_token }}"
    assert keys["tokenizer.ggml.add_bos_token"] is True
    assert keys["tokenizer.ggml.add_eos_token"] is False
    assert [keys[f"tokenizer.ggml.{x}_token_id"] for x in ("bos", "eos", "eot", "eom")] == [
        316, 317, 300, 301]
    assert keys["millrace.end_token_ids"] == [300, 301, 302]
    sampling = {key.rpartition(".")[2]: value for key, value in keys.items()
                if key.startswith("general.sampling.")}
    assert sampling == {"temp": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0.0,
                        "penalty_repeat": 1.25, "penalty_last_n": -1}
    (folder / "chat_template.jinja").write_text("{# its own file #}")
    keys = probe(folder, tmp_path)[0]["keys"]
    assert keys["tokenizer.chat_template"] == "{# its own file #}"
    assert tokens_of(folder, ["th"], special=True) == [[316, 256]]


def with_step(key, step):
    return write_folder.tokenizer_json() | {key: step}


def with_model(**values):
    file = write_folder.tokenizer_json()
    file["model"] |= values
    return file


SPLIT = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated"},
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}


@pytest.mark.parametrize("file, code, words", [
    (with_model(type="Unigram"), "unsupported_tokenizer", "Unigram"),
    (with_step("pre_tokenizer", SPLIT), "unsupported_tokenizer", "not known: [a-z]+"),
    (with_step("pre_tokenizer", {"type": "Sequence", "pretokenizers": [
        {"type": "BertPreTokenizer"}, {"type": "ByteLevel"}]}), "unsupported_tokenizer",
     "BertPreTokenizer"),
    (with_step("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": True}),
     "unsupported_tokenizer", "add_prefix_space"),
    (with_step("pre_tokenizer", None), "unsupported_tokenizer", "byte_fallback"),
    (with_step("normalizer", {"type": "Lowercase"}), "unsupported_tokenizer", "Lowercase"),
    (with_model(ignore_merges=True), "unsupported_tokenizer", "with ignore_merges"),
    (with_model(merges=[["a b", "c"]]), "unsupported_tokenizer", "merge 0 holds a space"),
    (with_model(merges=[["a"]]), "folder_malformed", "merge 0 is not two tokens"),
    (with_model(merges=None), "folder_malformed", "has no merges"),
    (with_model(vocab=None), "folder_malformed", "has no vocabulary"),
    (with_model(vocab={"a": 0, "b": 0}), "folder_malformed", "have one id"),
    (with_model(vocab={"a": -1}), "folder_malformed", "'a' has no possible id"),
    (with_step("model", None), "folder_malformed", "has no model"),
    (with_step("added_tokens", [{"content": "x"}]), "folder_malformed", "without id"),
])
def test_refusals(file, code, words, tmp_path):
    got, text = refusal(write(tmp_path, file), tmp_path)
    assert got == code and words in text and "tokenizer.json" in text, f"{got}: {text}"
