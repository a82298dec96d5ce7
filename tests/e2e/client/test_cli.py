"""The parts of the command line that need neither broker nor engine."""
import json
import subprocess

from programs import program


def millrace(*words, text=None):
    return subprocess.run([program("millrace"), *words], text=True, capture_output=True,
                          input=text, timeout=60, check=False)


def test_help_has_examples_and_version_is_told():
    for words in ((), ("run",), ("submit",), ("results",), ("status",), ("cancel",), ("retry",),
                  ("tokenize",), ("score",), ("errors",)):
        done = millrace(*words, "--help")
        assert done.returncode == 0
        assert "Example" in done.stdout, words
    assert millrace("--version").stdout.startswith("millrace ")


def test_usage_errors_are_exit_code_2():
    for words in ((), ("nonsense",), ("run",), ("run", "--input", "x"), ("results", "--from", "0"),
                  ("errors", "nonsense"), ("errors", "--log-level", "loud")):
        assert millrace(*words).returncode == 2, words


def test_errors_table():
    table = millrace("errors").stdout.splitlines()
    assert len(table) > 40
    one = json.loads(millrace("errors", "kv_exceeded", "--json").stdout)
    assert one["code"] == "kv_exceeded" and one["status"] == 400


def test_tokenize_and_back(model):
    text = "Hello world, héllo \U0001f600!"
    ids = json.loads(millrace("tokenize", "--model", model, text=text + "\n").stdout)
    assert all(isinstance(x, int) for x in ids) and len(ids) > 5
    back = millrace("tokenize", "--model", model, "--decode", "--json", text=json.dumps(ids) + "\n")
    assert json.loads(back.stdout) == text
    bad = millrace("tokenize", "--model", model, "--decode", text="[999999999]\nnope\n")
    assert bad.returncode == 1
    assert "line 1" in bad.stderr and "line 2" in bad.stderr


def test_tokenize_refuses_what_is_no_model(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"not a model")
    done = millrace("tokenize", "--model", str(path), text="x\n")
    assert done.returncode == 3 and "gguf" in done.stderr
