"""The protocol page's short client runs as printed, with a real broker and a stub engine, and what
the help and the pages say of KV presets is the same. `tests/e2e/docs` runs the pages' commands."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve() / "bin"
PROTOCOL = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def example():
    section = PROTOCOL.split("## A client in fifteen lines\n")[1]
    return re.search(r"```python\n(.*?)```", section, re.S).group(1)


def test_the_example_has_at_most_fifteen_lines_of_code():
    code = [line for line in example().split("\n")
            if line.strip() and not line.startswith("import")]
    assert 5 < len(code) <= 15


def test_the_python_example_runs_as_printed(tmp_path):
    with tempfile.TemporaryDirectory(prefix="mr-") as runtime:  # pytest's folders are too long
        run_example(tmp_path, {**os.environ, "XDG_RUNTIME_DIR": runtime})


def trim_the_example_stream(folder, env):
    """A reader that asks for number 1 is told that the stream begins later."""
    jobs = folder / "earlier.jsonl"
    jobs.write_text('{"prompt": "earlier"}\n')
    for words in (("submit", jobs, "--stream", "mine", "--wait"),
                  ("streams", "trim", "mine", "--below", "2")):
        subprocess.run([BIN / "millrace", *words], check=True, capture_output=True, env=env,
                       timeout=PATIENCE_S)


def run_example(folder, env):
    broker = subprocess.Popen([BIN / "millrace-broker", "--ledger", folder / "ledger"],
                              stdout=subprocess.PIPE, text=True, env=env)
    engine = None
    try:
        for line in broker.stdout:
            if line.strip() == "ready":
                break
        engine = subprocess.Popen([BIN / "stub_engine"], env=env)
        trim_the_example_stream(folder, env)
        done = subprocess.run([sys.executable, "-c", example()], capture_output=True, text=True,
                              timeout=PATIENCE_S, env=env)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.strip().split("\n")
        assert "queued" in lines[0]
        assert re.match(r"completed \S", lines[1]), lines
    finally:
        for process in (engine, broker):
            if process is not None:
                process.terminate()
                process.wait(timeout=PATIENCE_S)


def test_the_help_and_the_pages_say_the_same_of_kv_presets():
    told = " ".join(subprocess.run([BIN / "millrace-engine", "--help-all"], capture_output=True,
                                   text=True).stdout.split())
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d.]+) \|", PERFORMANCE, re.M)
    assert [row[0] for row in rows] == ["f16", "q8", "k8v4", "k6v4", "k5v3", "k4v3"]
    exact = int(rows[0][1].replace(",", ""))
    for preset, size, kld in rows[1:]:
        smaller = exact / int(size.replace(",", ""))
        assert f"{preset}: {smaller:.1f}x smaller, KLD {kld}" in told, preset
