"""A line that kills the real engine each time fails for good, and all other lines complete."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "client"))
from programs import Run, model_path, program  # noqa: E402


def test_a_line_that_kills_the_engine_with_the_model(tmp_path):
    run = Run(tmp_path)
    run.command = lambda *extra: [
        program("millrace"), "run", "--model", model_path(), "--input", str(run.input), "--output",
        str(run.output), "--json", *extra]
    run.env = {"MILLRACE_TEST_ABORT_ON": "poison"}
    run.write([json.dumps({"custom_id": f"c{i}", "url": "/v1/completions", "body": {
        "prompt": "poison" if i == 7 else f"Count to {i}:", "max_tokens": 8}})
        for i in range(1, 13)])
    done = run.go(expect=1)
    results = run.results()
    assert sorted(results) == list(range(1, 13))
    assert results[7]["error"]["code"] == "engine_died"
    assert all(results[i]["error"] is None for i in results if i != 7)
    deaths = [x for x in done.stdout.splitlines() if '"event":"engine_died"' in x]
    assert 1 <= len(deaths) <= 5  # with 12, 6, 3, 1 and 1 suspects
