"""Makes the golden numbers of Gemma 3 270M anew and compares them. ops/test --long runs this in an
environment of its own, because it needs torch (tests/families/requirements.txt).
"""
import json

import numpy as np

import gemma_reference
from test_gemma import model


def test_the_golden_numbers_are_those_of_transformers():
    anew, kept = gemma_reference.golden(model()), json.loads(gemma_reference.GOLDEN.read_text())
    for key in ("model", "text", "tokens", "top"):
        assert anew[key] == kept[key], key
    assert np.abs(np.array(anew["lead"]) - kept["lead"]).max() <= 1e-4  # they are rounded
