"""examples/notebook.ipynb: its cells run as a program, and with --long in a kernel of Jupyter."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from client_place import BIN, PACKAGE, model_path
from own_python import own_python

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def notebook(examples):
    return json.loads((examples / "notebook.ipynb").read_text(encoding="utf-8"))


@pytest.fixture
def environment():
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "MILLRACE_PROGRAMS": str(BIN),
            "MILLRACE_MODEL": model_path()}


def check(told):
    """What the cells must have printed with the test model."""
    assert "SmolLM2-135M-Instruct.Q4_1 with a context of 8192 tokens" in told
    answers = [re.search(f"^{question} -> (.*)$", told, re.M)[1] for question in (
        r"What color is the sky\?", r"How many days are in a week\?", r"What is 2 \+ 2\?")]
    assert "blue" in answers[0] and "7" in answers[1] and "4" in answers[2]
    assert "True | invalid_value: temperature" in told
    assert "Paris" in told and "the mean probability of a token: 0." in told
    assert "\n---\n" in told


def test_it_is_stored_without_outputs(notebook):
    assert notebook["nbformat"] == 4
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) > 5
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None]


def test_its_cells_run_as_a_program(notebook, environment):
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any(cell.endswith("\nperplexities") for cell in cells)  # the kernel shows its value
    program = "\n".join(cells) + "\nlikely, unlikely = perplexities.values()\n" \
        "assert 3 * likely < unlikely, perplexities\n"
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    check(done.stdout)
    assert "3/3" in done.stderr  # the bar of the answers


@pytest.mark.long
def test_it_runs_in_a_kernel(examples, environment, tmp_path):
    copy = tmp_path / "notebook.ipynb"
    shutil.copy(examples / "notebook.ipynb", copy)
    jupyter = own_python(HERE / "notebook").with_name("jupyter")
    done = subprocess.run([jupyter, "execute", "--inplace", copy], env=environment, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    cells = [cell for cell in json.loads(copy.read_text())["cells"]
             if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [one for cell in cells for one in cell["outputs"]]
    check("".join("".join(one["text"]) for one in outputs if one.get("name") == "stdout"))
    [shown] = [one for one in outputs if one["output_type"] == "execute_result"]
    assert "Rain falls from the clouds." in "".join(shown["data"]["text/plain"])
