"""Compares the engine with the official classes on a tiny random model of each architecture.

The model's file is written from a seed (models.py, write_gguf.py), and its float64 logits stand in
golden/, where make_golden.py put them.
"""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from models import COLUMNS, MODELS, TOKENS, VOCABULARY  # noqa: E402
from quantized import Quantized  # noqa: E402
from variants import VARIANTS  # noqa: E402
import write_gguf  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", HERE.parents[1] / "build"))

# Models that the engine reads. Each file, and the model whose logits it has.
FILES = {name: (name, model) for name, model in MODELS.items()} | VARIANTS

# The KV policy of the comparison, and the largest difference of a logit under it. Logits have a
# standard deviation of 1.2 to 3. llama.cpp with F32 keys and values is 2e-6 to 1e-5 away.
KV_POLICY, MOST = "f32", 1e-4

# llama.cpp's distance from the golden logits by model, as llama_cpp.py measured it, and the names
# of its figures with F16 keys and values. By default it takes flash attention.
LLAMA_CPP = json.loads((HERE / "golden/llama_cpp.json").read_text())
PLAIN_F16, DEFAULT_F16 = "f16", "f16, flash attention"


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A function that writes a file once and returns its path."""
    folder = tmp_path_factory.mktemp("families")

    def path(name):
        wanted = folder / f"{name}.gguf"
        return wanted if wanted.exists() else write_gguf.write(FILES[name][1], wanted)
    return path


def prompt(name):
    return MODELS[FILES[name][0]].prompt()


def golden(name):
    model = FILES[name][0] if name in FILES else name
    return np.load(HERE / "golden" / f"{model}.npy").astype(np.float64)


def run_probe(name, model, given, folder, *options, kv=KV_POLICY):
    tokens = folder / "tokens.json"
    tokens.write_text(json.dumps(given))
    program = BUILD / "bin" / name
    assert program.exists(), f"{program} is missing: build the tests"
    return subprocess.run([program, "--model", model, "--tokens", tokens, "--kv", kv, *options],
                          capture_output=True, text=True)


def engine_logits(model, tokens, folder, kv=KV_POLICY, variant="", math="exact"):
    """The engine's logits [position, vocabulary] in each schedule, by its name."""
    output = folder / "logits"
    done = run_probe("families_probe", model, tokens, folder, "--output", output,
                     "--variant", variant, "--math", math, kv=kv)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["vocabulary"] == VOCABULARY
    shape = len(said["schedules"]), len(tokens), VOCABULARY
    return dict(zip(said["schedules"], np.fromfile(output, "<f4").reshape(shape), strict=True))


def test_golden_logits_belong_to_the_models():
    made = json.loads((HERE / "golden/made.json").read_text())
    assert made.keys() == LLAMA_CPP.keys() == MODELS.keys()
    for name, model in MODELS.items():
        assert made[name]["weights"] == LLAMA_CPP[name]["weights"] == model.digest(), \
            f"{name} has changed: make its golden logits anew (tests/families/README.md)"
        assert golden(name).shape == (TOKENS, len(range(VOCABULARY)[COLUMNS]))
        assert golden(name).std() > 1


@pytest.mark.parametrize("name", FILES)
def test_exact_logits_are_those_of_the_official_class(name, files, tmp_path):
    got = engine_logits(files(name), prompt(name), tmp_path)
    assert len(got) >= 4
    worst = {schedule: np.abs(logits[:, COLUMNS] - golden(name)).max()
             for schedule, logits in got.items()}
    assert max(worst.values()) <= MOST, worst
    # Golden logits see a part of the vocabulary, and schedules must not differ anywhere.
    for schedule, logits in got.items():
        assert np.array_equal(logits, got["whole"]), f"{schedule} has other bits"


@pytest.mark.parametrize("name", ["gemma4", "gemma4-moe"])
def test_every_family_of_devices_computes_its_operations(name, files, tmp_path):
    """These models have operations that no other has."""
    for variant in "cpu", "generic":
        got = engine_logits(files(name), prompt(name), tmp_path, variant=variant)
        for schedule, logits in got.items():
            assert np.abs(logits[:, COLUMNS] - golden(name)).max() <= MOST, (variant, schedule)
            assert np.array_equal(logits, got["whole"]), (variant, schedule)


# Models whose layers have operations of their own, and the launches that their layers take.
WHOLE = {"gemma4": 8, "lfm2": 1, "lfm2moe": 2, "qwen35": 1, "qwen35moe": 1, "qwen3next": 1,
         "granitehybrid": 1, "falcon-h1": 1}


@pytest.mark.parametrize("name, kv", [(name, "f16") for name in WHOLE] + [("gemma4", "q8g32")])
def test_launches_of_whole_layers_have_the_bits_of_their_parts(name, kv, tmp_path):
    """The generic kernels run layers in parts."""
    path = Quantized(MODELS[name], "Q8_0").write(tmp_path / "model.gguf")
    said = subprocess.run([BUILD / "bin/millrace-engine", "--model", path, "--print-program"],
                          capture_output=True, text=True).stderr
    assert f"whole_launches={WHOLE[name]} in_parts=0" in said, said
    whole, parts = (engine_logits(path, prompt(name), tmp_path, kv, variant, "fast")
                    for variant in ("cpu", "generic"))
    for schedule, logits in whole.items():
        assert np.array_equal(logits, parts["whole"]), schedule


# Gate functions, a shared expert, norms after sublayers and of the mean; in bytes also latents,
# recurrences, gates of heads' outputs and embeddings by layer.
NVIDIA = [(name, "Q8_0", "fast", 0.01)
          for name in ("llama", "gemma3", "gpt-oss", "qwen2moe", "cohere2")] + \
         [(name, "Q8_0", "int8", 0.2) for name in ("gemma3", "qwen2moe", "qwen35", "gemma4")] + \
         [("deepseek2", "F16", "int8", 0.2)]


@pytest.mark.parametrize("name, kind, math, most", NVIDIA)
def test_kernels_of_nvidia_gpus_are_near_and_the_same_in_every_schedule(name, kind, math, most,
                                                                        tmp_path):
    """Their kernels of products, norms and stores where products round, with plain arithmetic in
    place of the matrix unit. The root mean square difference of unrelated logits would be about
    1.8. A few positions of a mixture choose another expert."""
    path = Quantized(MODELS[name], kind).write(tmp_path / "model.gguf")
    exact = engine_logits(path, prompt(name), tmp_path, "f16", "generic")["whole"]
    got = engine_logits(path, prompt(name), tmp_path, "f16", "nvidia", math)
    away = np.sqrt(((got["whole"] - exact) ** 2).mean(axis=1))
    assert 0 < np.median(away) <= most
    for schedule, logits in got.items():
        assert np.array_equal(logits, got["whole"]), schedule


@pytest.mark.parametrize("policy, most", [("q8g32", 0.1), ("k8v4", 0.4)])
@pytest.mark.parametrize("name", ["gemma4", "gemma4-moe"])
def test_layers_of_two_sizes_share_packed_caches(name, policy, most, files, tmp_path):
    """A layer may read the packed keys and values of another, and heads have two sizes. The root
    mean square difference of unrelated logits would be about 1.8."""
    for variant in "cpu", "generic":
        got = engine_logits(files(name), prompt(name), tmp_path, policy, variant)
        off = got["whole"][:, COLUMNS] - golden(name)
        assert MOST < np.sqrt((off ** 2).mean()) <= most, variant
        for schedule, logits in got.items():
            assert np.array_equal(logits, got["whole"]), (variant, schedule)


@pytest.mark.parametrize("name", FILES)
def test_hits_and_pauses_change_nothing(name, files, tmp_path):
    listed = list(range(VOCABULARY)[COLUMNS])
    given = {"tokens": prompt(name), "listed": listed}
    done = run_probe("families_engine_probe", files(name), given, tmp_path,
                     "--prefixes", tmp_path / "prefixes")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["pauses"] > 0 and said["same"], said
    assert said["mix"]["same"] and said["mix"]["cached"] > 0, said["mix"]
    disk = said["disk"]
    assert disk["same"] and disk["pauses"] > 0, disk
    # A restarted engine knows nothing else.
    assert disk["cached"] == disk["from_disk"] == 32, disk
    for hit in said["hits"]:
        assert 0 < hit["cached"] < hit["tokens"], hit
        # Logprobs are logits less the same number for every token.
        off = np.array(hit["logprobs"]) - golden(name)[hit["tokens"] - 1]
        assert np.abs(off - off.mean()).max() <= MOST, hit["tokens"]


@pytest.mark.parametrize("name", ["lfm2", "mamba2"])  # mamba2 has states alone, and no keys
def test_states_are_kept_on_disk(name, files, tmp_path):
    """A second run finds what a first one left in its folder, and its texts are the same."""
    jobs, output = tmp_path / "jobs.jsonl", tmp_path / "out.jsonl"
    job = {"prompt": prompt(name), "max_tokens": 4, "n": 3}
    jobs.write_text(json.dumps(job) + "\n")
    choices, cached = [], []
    for _ in range(2):
        done = subprocess.run([BUILD / "bin/millrace", "run", "--model", files(name),
                               "--input", jobs, "--output", output, "--restart",
                               "--prefix-cache", tmp_path / "pages"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        body = json.loads(output.read_text())["response"]["body"]
        choices.append([choice["token_ids"] for choice in body["choices"]])
        cached.append(body["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert choices[0] == choices[1] and cached == [0, 32], (choices, cached)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mamba2"])  # has no keys
def test_halves_cost_no_more_than_in_llama_cpp(name, files, tmp_path):
    """Compares keys and values in f16 with llama.cpp's distance from what it computes.

    One extreme of 3,072 differences says little, so it is held to the larger one of llama.cpp's two
    ways. Their root mean square must be no larger than the smaller one of both: without flash
    attention all that is left are halves.
    """
    got = engine_logits(files(name), prompt(name), tmp_path, "f16")["whole"]
    off = np.abs(got[:, COLUMNS] - golden(name))
    theirs = LLAMA_CPP[name]
    assert MOST < off.max() or name.startswith("granite"), "keys and values are no halves"
    assert off.max() <= max(theirs[DEFAULT_F16]["max"], theirs[PLAIN_F16]["max"]), theirs
    assert np.sqrt((off ** 2).mean()) <= min(theirs[DEFAULT_F16]["rms"],
                                             theirs[PLAIN_F16]["rms"]), theirs


def test_the_limit_tells_models_apart(files, tmp_path):
    """The same file read with a slightly other rope base is too far away."""
    model = MODELS["qwen2"]
    altered = dataclasses.replace(model, keys={"rope.freq_base": 9e5})
    path = write_gguf.write(altered, tmp_path / "altered.gguf")
    got = engine_logits(path, prompt("qwen2"), tmp_path)["whole"]
    assert np.abs(got[:, COLUMNS] - golden("qwen2")).max() > 3 * MOST
