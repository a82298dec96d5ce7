"""The worked examples of `millrace help examples` do what they say, one after the other, with the
real model; and `millrace help` prints the help of a command."""
import json
import os
import re
import signal
import subprocess
import tempfile

from patience import PATIENCE_S
from programs import BIN, ROOT, millrace


def model():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        told = subprocess.run([ROOT / "ops" / "model"], check=True, text=True, capture_output=True)
        path = told.stdout.strip().splitlines()[-1]
    return path


def commands_of_examples():
    text = millrace("help", "examples").stdout
    assert not [line for line in text.splitlines() if len(line) > 100]
    # With the spaces before them, as a person pastes them.
    return "".join(line + "\n" for line in text.splitlines() if line.startswith("  "))


def test_the_examples_run_in_their_order(tmp_path):
    os.symlink(model(), tmp_path / "M.gguf")
    with tempfile.TemporaryDirectory(prefix="mr-") as runtime:  # pytest's folders are too long
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": runtime}
        env.pop("MILLRACE_BROKER", None)
        shell = subprocess.Popen(["bash", "-euo", "pipefail"], cwd=tmp_path, env=env, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            told = shell.communicate(commands_of_examples(), timeout=4 * PATIENCE_S)[0]
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        log = tmp_path / "broker.log"
        assert shell.returncode == 0, told + (log.read_text() if log.exists() else "")
    for name in ("results", "answers", "mine", "again"):
        lines = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert sorted(line["custom_id"] for line in lines) == ["a", "b"], name
    assert (tmp_path / "keys").is_dir() and "ready" in (tmp_path / "broker.log").read_text()
    assert re.search(r"^kv_exceeded +400", told, re.MULTILINE)


def test_help_prints_the_help_of_a_command():
    assert millrace("help").stdout == millrace("--help").stdout
    assert millrace("help", "status").stdout == millrace("status", "--help").stdout
    assert millrace("help", "jobs", "ls").stdout == millrace("jobs", "ls", "--help").stdout


def test_help_of_what_does_not_exist_names_what_was_meant():
    done = millrace("help", "stauts")
    assert done.returncode == 2 and "did you mean status or stats?" in done.stderr
    assert "did you mean examples?" in millrace("help", "example").stderr
