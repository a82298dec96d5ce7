"""examples/evaluate.py: its figures, and that they are the engine's own bits each time."""
import json
import math
import pathlib
import random

import pytest
from client_place import ROOT, model_path

LICENCE = pathlib.Path("/usr/share/common-licenses/BSD")
WORDS = ("The first sentence of this page is short. The second one says that rain falls from the "
         "clouds, and that rivers take it back to the sea.")


def test_a_shuffled_text_is_less_likely(client, examples):
    import evaluate
    words = WORDS.split()
    random.Random(3).shuffle(words)
    straight, shuffled = (evaluate.perplexity(client, [text])
                          for text in (WORDS, " ".join(words)))
    assert 2 < straight["perplexity"] < 100
    assert 3 * straight["perplexity"] < shuffled["perplexity"]
    bits = math.log2(straight["perplexity"]) * straight["tokens"] / len(WORDS.encode())
    assert math.isclose(straight["bits_per_byte"], bits)


def test_long_texts_are_cut_at_lines(client, examples, monkeypatch):
    import evaluate
    monkeypatch.setattr(evaluate, "PIECE_CHARACTERS", 400)
    text = LICENCE.read_text()
    cut = list(evaluate.pieces(text))
    assert "".join(cut) == text and len(cut) > 3
    assert all(len(piece) <= 400 and piece.endswith("\n") for piece in cut)
    whole = sum(evaluate.perplexity(client, [piece])["tokens"] for piece in cut)
    assert evaluate.perplexity(client, [text])["tokens"] == whole


def test_the_same_figures_come_again_and_another_fingerprint_is_refused(fleet, examples):
    questions = examples / "data/questions.jsonl"
    first = fleet.told("evaluate.py", "choices", questions)
    found = json.loads(first)
    assert found["questions"] == len(questions.read_text().splitlines())
    assert 0.5 < found["accuracy"] <= 1 and 0.5 < found["accuracy_by_length"] <= 1
    again = fleet.told("evaluate.py", "choices", questions, "--fingerprint", found["fingerprint"])
    assert again == first
    refused = fleet.example("evaluate.py", "perplexity", LICENCE, "--fingerprint", "0" * 32)
    assert "fingerprint" in refused.communicate()[1] and refused.returncode != 0


@pytest.mark.long
def test_the_perplexity_is_that_of_the_float64_reference(examples):
    """Of the same weights; the engine's arithmetic is fp32."""
    import sys

    import evaluate
    import millrace
    from client_place import BIN
    sys.path.insert(0, str(ROOT / "tests" / "reference"))
    import reference_llama
    with millrace.run(model_path(), programs=BIN, math="exact", kv="f32",
                      kv_memory="256MiB") as local:
        found = evaluate.perplexity(local, [WORDS])
        ids = list(map(int, local.generate(WORDS, task="score").result.prompt))
    truth = reference_llama.log_softmax(reference_llama.Llama(model_path()).forward(ids))
    total = math.fsum(truth[i - 1, one] for i, one in enumerate(ids) if i)
    assert found["tokens"] == len(ids) - 1
    assert math.isclose(found["perplexity"], math.exp(-total / found["tokens"]), rel_tol=1e-4)
