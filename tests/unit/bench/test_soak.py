"""Runs the soak for some seconds on the test model. What it looks for must not be there."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))


def test_mixed_jobs_with_cancels_leave_nothing_behind():
    done = subprocess.run(
        [BUILD / "bin/soak", "--model", os.environ["MILLRACE_MODEL"], "--seconds", "2", "--slice",
         "1", "--jobs", "100", "--short", "--max-batch", "16", "--kv-memory", "64MiB"],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == "no error and no growth"
    form = r"(\d+) jobs, +(\d+) cancelled, +(\d+) probes"
    counts = [re.search(form, line) for line in lines[:-1]]
    assert sum(int(count[2]) for count in counts) > 0, lines
    assert int(counts[-1][3]) > 8, "no probe came twice"


def test_a_model_that_is_not_there_is_an_error():
    done = subprocess.run([BUILD / "bin/soak", "--model", "/nowhere.gguf"], capture_output=True,
                          text=True)
    assert done.returncode == 1 and "cannot open the model file" in done.stderr
