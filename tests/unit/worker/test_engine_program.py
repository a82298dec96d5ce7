"""millrace-engine refuses bad options at its start, with an exit code, an error code and a hint."""
import os
import pathlib
import subprocess

import pytest
from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def model():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
    assert pathlib.Path(path).exists(), f"no model at {path}: run ops/model"
    return path


def run(*arguments, **environment):
    build = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
    program = (build if build.is_absolute() else ROOT / build) / "bin" / "millrace-engine"
    assert program.exists(), f"{program} is missing: build the target millrace-engine"
    return subprocess.run([program, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**os.environ, **environment})


@pytest.mark.parametrize("arguments, exit_code, words", [
    ([], 2, "--model"),
    (["--cores", "0"], 2, "--cores"),
    (["--cores", "some"], 2, "--cores"),
    (["--cores", "100000"], 2, "--cores 100000, but this process may use"),
    (["--max-batch", "0"], 2, "--max-batch"),
    (["--max-batch", "many"], 2, "many"),
    (["--step-tokens", "1"], 2, "--step-tokens 1 is less than --max-batch"),
    (["--kv-memory", "lots"], 2, "lots"),
    (["--math", "sloppy"], 2, "sloppy"),
    (["--math", "int8"], 3, "invalid_value: --math int8 needs an NVIDIA GPU"),
    (["--kv", "q9"], 2, "--kv q9"),
    (["--kv", "r4", "--kv-protect", "ends"], 2, "--kv-protect ends"),
    (["--kv", "q8g128"], 3, "groups of 128 do not divide"),
    (["--kv-center", "nosuch.keys"], 3, "--kv-center "),
    (["--prefix-cache", "disk"], 2, "--prefix-cache disk"),
    (["--device", "nosuch"], 3, "no_device"),
    (["--kv-memory", "1KiB"], 3, "kv_exceeded: --kv-memory of 1 KiB holds no page"),
    (["--prefix-cache", "/proc/foo"], 3, "--prefix-cache /proc/foo: "),
    (["--prefix-cache", "./p", "--prefix-disk", "1KiB"], 3, "--prefix-disk of 1 KiB holds no"),
])
def test_options(model, arguments, exit_code, words):
    ended = run(*(["--model", model] if arguments else []), *arguments)
    assert ended.returncode == exit_code, ended.stderr
    assert words in ended.stderr, ended.stderr


def test_no_model_file(tmp_path):
    ended = run("--model", str(tmp_path / "none.gguf"))
    assert ended.returncode == 3 and "gguf_unreadable" in ended.stderr


def test_not_a_model_file(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("no model at all")
    ended = run("--model", str(path))
    assert ended.returncode == 3 and "gguf_malformed" in ended.stderr


def test_no_opencl_says_how_to_get_one(model):
    ended = run("--model", model, OCL_ICD_VENDORS="/nonexistent")
    assert ended.returncode == 3
    assert "no_device" in ended.stderr and "pocl-opencl-icd" in ended.stderr
