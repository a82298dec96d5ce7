"""What the examples have in common: they parse on Python 3.9, tell their use, name real files."""
import ast
import re
import tempfile

import pytest
from client_place import ROOT, model_path

PROGRAMS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_it_parses_on_python_3_9_and_tells_its_use(path):
    text = path.read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text, feature_version=(3, 9)))
    assert f"python examples/{path.name} " in told
    for name in re.findall(r"examples/[\w./]+", told):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", [p for p in PROGRAMS if "import lm_eval" not in p.read_text()],
                         ids=lambda path: path.name)
def test_its_help_names_each_option_of_its_docstring(path, fleet):
    told = fleet.told(path.name, "--help")
    options = set(re.findall(r" (--[a-z]+)", ast.get_docstring(ast.parse(path.read_text()))))
    if path.name == "pipeline.py":
        told += fleet.told(path.name, "collect", "--help")
    assert not [option for option in options if option not in told], told


def test_with_a_model_they_need_no_broker(fleet, examples, tmp_path):
    """They run the model by themselves, and go on with what its folder keeps."""
    words = ("synthesize.py", tmp_path / "a.jsonl", "--model", model_path(), "--count")
    with tempfile.TemporaryDirectory(prefix="mr-") as runtime:  # pytest's folders are too long
        alone = {**fleet.env, "XDG_RUNTIME_DIR": runtime}
        told = fleet.told("label.py", examples / "data/reviews.jsonl", "--model", model_path(),
                          env=alone)
        first, again = (fleet.told(*words, count, env=alone) for count in (4, 5))
    assert "labels are right" in told
    assert "from 4 texts" in first and "from 5 texts" in again
    assert (tmp_path / "a.jsonl.state" / "ledger").exists()
