"""Standard output that cannot be written: an error, whatever the command, and no result lost
without a word."""
import json
import os
import subprocess

import pytest
from patience import PATIENCE_S
from programs import completion, program

COMMANDS = [["--help"], ["--version"], ["context", "ls"], ["check", "jobs.jsonl"],
            ["completion", "bash"], ["help", "examples"]]


def to_full(words, folder):
    with open("/dev/full", "wb") as full:
        return subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder,
                              env={**os.environ, "XDG_CONFIG_HOME": str(folder)},
                              timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_output_that_is_full_is_an_error(tmp_path, words):
    (tmp_path / "jobs.jsonl").write_text(completion("a", "p") + "\n")
    done = to_full([program("millrace"), *words], tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("cannot write to standard output") == 1


def test_an_answer_that_cannot_be_written_is_an_error(broker, tmp_path):
    broker.engine()
    done = to_full(broker.command("ask", "--json", "why"), tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stderr.splitlines()[-1])["code"] == "io_error"


def test_an_error_of_the_command_is_told_alone(broker, tmp_path):
    done = to_full(broker.command("batches", "close", "none"), tmp_path)
    assert done.returncode == 3 and "standard output" not in done.stderr


def test_results_that_were_not_written_are_not_passed_over(broker, tmp_path):
    """Where to read on is after those that were written."""
    broker.engine()
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(completion(name, "p") + "\n" for name in "abc"))
    broker.millrace("submit", jobs, "--wait", expect=0)
    done = to_full(broker.command("results"), tmp_path)
    assert done.returncode == 3 and "cannot write to standard output" in done.stderr
    assert "--from" not in done.stderr
