"""examples/prompts.sh: a table in the order of the prompts, with the errors of those that fail."""
import os
import subprocess

from client_place import BIN, model_path


def run(folder, prompts, examples):
    (folder / "prompts.txt").write_text(prompts)
    return subprocess.run(
        [examples / "prompts.sh", folder / "prompts.txt", folder / "table.tsv", model_path(),
         "--max-batch", "8", "--kv-memory", "256MiB"], text=True, capture_output=True,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})


def test_a_table_is_written_and_a_second_run_computes_nothing(examples, tmp_path):
    prompts = (examples / "data/prompts.txt").read_text()
    prompts = "\n" + prompts + "x " * 9000 + "\nSay \"yes\" and\ta tab."  # without an end of line
    done = run(tmp_path, prompts, examples)
    assert done.returncode == 1, done.stderr  # one job has failed
    rows = [line.split("\t") for line in (tmp_path / "table.tsv").read_text().splitlines()]
    assert [row[0].replace("\\t", "\t") for row in rows] == prompts.split("\n")[1:]
    assert all(len(row) == 3 for row in rows)
    assert "error: " in rows[4][1] and "context" in rows[4][1] and rows[4][2] == "0"
    assert all(row[1] and "error" not in row[1] and 0 < int(row[2]) <= 48
               for row in rows[:4] + rows[5:])
    assert "think" in rows[2][1]

    results = (tmp_path / "table.tsv.results.jsonl").read_bytes()
    table = (tmp_path / "table.tsv").read_bytes()
    again = run(tmp_path, prompts, examples)
    assert again.returncode == 1, again.stderr
    assert (tmp_path / "table.tsv.results.jsonl").read_bytes() == results
    assert (tmp_path / "table.tsv").read_bytes() == table


def test_what_is_wrong_is_told(examples, tmp_path):
    done = subprocess.run([examples / "prompts.sh", "a"], text=True, capture_output=True)
    assert done.returncode == 2 and done.stderr.startswith("usage: prompts.sh")
