"""Tests ops/lib/coverage_report.py with summaries in the form that gcovr writes."""
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]


def coverage(tmp_path, files):
    """The exit status, the printed lines, and the failures of the report, of files as
    {name: (lines that ran, lines)}."""
    summary, report = tmp_path / "coverage.json", tmp_path / "pytest.xml"
    summary.write_text(json.dumps({"files": [
        {"filename": name, "line_covered": ran, "line_total": lines}
        for name, (ran, lines) in files.items()]}))
    done = subprocess.run([sys.executable, ROOT / "ops/lib/coverage_report.py", summary, report],
                          capture_output=True, text=True)
    assert done.stderr == ""
    cases = ElementTree.parse(report).getroot().iter("testcase")
    failures = {case.get("name"): case.find("failure").get("message") for case in cases
                if case.find("failure") is not None}
    return done.returncode, done.stdout.splitlines(), failures


def test_a_part_at_the_mark_passes_and_its_poorest_files_are_named(tmp_path):
    files = {"broker/core/a.cpp": (100, 100), "broker/core/b.cpp": (90, 100),
             "schemas/c.cpp": (19, 20), "client/link/d.cpp": (10, 10)}
    assert coverage(tmp_path, files) == (0, [
        "broker: 95.0 % of 200 lines",
        "    broker/core/b.cpp: 10 of 100 lines did not run",
        "schemas: 95.0 % of 20 lines",
        "client library: 100.0 % of 10 lines"], {})


def test_a_part_below_the_mark_fails_alone(tmp_path):
    files = {"broker/core/a.cpp": (1000, 1000), "schemas/c.cpp": (20, 20),
             "client/link/d.cpp": (10, 10), "client/run/e.cpp": (94, 100)}
    status, _, failures = coverage(tmp_path, files)
    assert status == 1
    assert failures == {"client library": "client library: 94.5 % of 110 lines, "
                                          "and 95 % are required"}


def test_commands_are_no_part_of_the_client_library(tmp_path):
    files = {"broker/a.cpp": (1, 1), "schemas/c.cpp": (1, 1), "client/link/d.cpp": (1, 1),
             "client/commands/run.cpp": (0, 1000)}
    assert coverage(tmp_path, files)[0] == 0


def test_a_part_of_which_nothing_was_counted_fails(tmp_path):
    files = {"broker/a.cpp": (1, 1), "client/link/d.cpp": (1, 1)}
    assert list(coverage(tmp_path, files)[2]) == ["schemas"]


def test_a_share_that_only_rounds_to_the_mark_fails(tmp_path):
    files = {"broker/a.cpp": (94999, 100000), "schemas/c.cpp": (1, 1), "client/link/d.cpp": (1, 1)}
    status, lines, failures = coverage(tmp_path, files)
    assert status == 1 and list(failures) == ["broker"]
    assert "broker: 94.9 % of 100000 lines" in lines
