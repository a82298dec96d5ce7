"""Holds KV policies on hybrids and Gemma 4 to the gates of kv_models.py.

The truth is the engine's own logits with keys and values in f32, which test_families.py holds to
1e-4 of the official classes': no row of f16 here is as close. What the codecs are expected to cost
stands in golden/kv_policies.json, where `bench/fidelity/policies.py --save-expected` put it.
"""
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from kv_models import EXPECTED, KV_MODELS, POLICIES, ROOM, distance, write_contexts  # noqa: E402
import fidelity  # noqa: E402
import write_gguf  # noqa: E402

GIVEN = json.loads(EXPECTED.read_text())
# Delta nets, and shared caches under heads of two sizes: those of packed codes and of real files.
TESTED = ["qwen35", "gemma4", "gemma4-large"]


class Measured:
    """A model's file and tokens, and its logits with exact keys and values."""

    def __init__(self, name, folder):
        self.path = write_gguf.write(KV_MODELS[name].model, folder / f"{name}.gguf")
        self.contexts = write_contexts(name, folder)
        self.truth = self.logits("f32")[0]

    def logits(self, policy):
        return fidelity.engine_logits(self.path, self.contexts, "exact", "--kv", policy)

    def kld(self, policy):
        return distance(self.truth, self.logits(policy)[0])[0]


@pytest.fixture(scope="module", params=TESTED)
def measured(request, tmp_path_factory):
    return request.param, Measured(request.param, tmp_path_factory.mktemp(request.param))


def test_expected_costs_belong_to_the_models():
    assert GIVEN.keys() == KV_MODELS.keys()
    for name, made in KV_MODELS.items():
        assert GIVEN[name].keys() == {"weights", *POLICIES}
        assert GIVEN[name]["weights"] == made.model.digest(), \
            f"{name} has changed: run bench/fidelity/policies.py --save-expected"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_costs_what_its_codecs_cost(policy, measured):
    name, model = measured
    expected = GIVEN[name][policy]
    # Less than expected is as wrong as more: then something was not stored in the codecs.
    assert expected / ROOM <= model.kld(policy) <= expected * ROOM


def test_halves_cost_far_less_than_any_policy(measured):
    name, model = measured
    assert 0 < model.kld("f16") < min(GIVEN[name][policy] for policy in POLICIES) / 10


def test_the_gate_tells_policies_apart(measured):
    """One bit of the values less is beyond the gate of k8v4."""
    name, model = measured
    assert model.kld("q8g64/r3") > ROOM * GIVEN[name]["k8v4"]
