"""ops/slurm/engine.sbatch, run as Slurm would run it."""
import re
import subprocess

import pytest
from programs import PATIENCE_S, ROOT, wait_until

SCRIPT = ROOT / "ops" / "slurm" / "engine.sbatch"


def run(environment, *words, **more):
    environment = {**environment, "SLURM_JOB_ID": "42", **more}
    environment = {k: v for k, v in environment.items() if v is not None}
    return subprocess.run([SCRIPT, *words], env=environment, text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("gpus, words, divided", [
    ("1", [], False), (None, [], False), ("4", [], True), ("4", ["--pipeline=all"], False),
    ("4", ["--devices", "0,2"], False)])
def test_the_engine_gets_its_options(path, gpus, words, divided):
    environment, said = path
    done = run(environment, "--model", "M.gguf", *words, SLURM_GPUS_ON_NODE=gpus)
    assert done.returncode == 0, done.stderr
    *options, cache = said.read_text().splitlines()
    assert re.fullmatch(r".+-42", options[1]) and options[0] == "--name"
    assert options[2:4] == ["--drain-timeout", "150"]
    assert options[4:] == [*(["--devices", "all"] if divided else []), "--model", "M.gguf", *words]
    assert cache


def test_the_drain_ends_before_the_time_limit(path):
    """By the figures of the script: what is drained must have ended when Slurm kills."""
    text = SCRIPT.read_text()
    warned = int(re.search(r"#SBATCH --signal=B:TERM@(\d+)", text)[1])
    environment, said = path
    run(environment)
    assert warned >= int(said.read_text().splitlines()[3]) + 30
    run(environment, MILLRACE_DRAIN_SECONDS="20")
    assert said.read_text().splitlines()[3] == "20"
    run(environment, "--drain-timeout=9")
    assert said.read_text().splitlines()[2:-1] == ["--drain-timeout=9"], "an option counts more"
    for words in (["--name=mine"], ["--name", "mine"]):
        run(environment, *words)
        assert said.read_text().splitlines()[:-1] == ["--drain-timeout", "150", *words]


def test_what_is_missing_is_said(path):
    environment, _ = path
    assert "this script is for sbatch" in run(environment, SLURM_JOB_ID=None).stderr
    done = run(environment, MILLRACE_ENGINE="/absent/engine")
    assert done.returncode == 1 and "has no /absent/engine" in done.stderr


def test_the_engine_is_the_process_that_is_told(place):
    """A signal to the script reaches the engine, which drains."""
    process = subprocess.Popen(
        [SCRIPT, *place.engine_options("--step-ms", "1500", "--job-steps", "1")],
        env={**place.environment, "SLURM_JOB_ID": "7"}, stderr=subprocess.PIPE, text=True)
    name, = place.until_engines(1)
    assert name.endswith("-7")
    place.submit(1)
    wait_until(lambda: '"leased":1' in place.millrace("status", "--json").replace(" ", ""), "lease")
    process.terminate()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and "left the broker" in said, said
    assert len(place.results()) == 1, "what ran was finished"
