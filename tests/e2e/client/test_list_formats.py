"""-o and -q of lists, and `millrace dlq`."""
import csv
import io
import json

import pytest
from programs import completion


@pytest.fixture
def failing(broker, tmp_path):
    """A broker with three jobs, of which one has failed."""
    broker.engine(STUB_FAIL_ON="wrong")
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("\n".join(completion(f'c"{i}', p) for i, p in enumerate(("a", "wrong", "c"))))
    broker.millrace("submit", str(jobs), "--wait", "--batch", "all", expect=1)
    return broker


def without_rates(rows):
    """A batch's rate falls from one look to the next."""
    return [{key: value for key, value in row.items() if key not in ("jobs_per_second", "eta_s")}
            for row in rows]


def test_every_list_knows_every_format(failing):
    failing.millrace("results", "--cursor", "mine", expect=0)
    for words in (["jobs", "ls"], ["batches", "ls"], ["streams", "ls"], ["cursors", "ls"]):
        lines, same = (
            [json.loads(x) for x in failing.millrace(*words, *option, expect=0).stdout.splitlines()]
            for option in (["-o", "jsonl"], ["--json"]))
        assert without_rates(lines) == without_rates(same)
        whole = json.loads(failing.millrace(*words, "-o", "json", expect=0).stdout)
        assert without_rates(whole) == without_rates(lines) and whole
        rows = list(csv.reader(io.StringIO(failing.millrace(*words, "-o", "csv").stdout)))
        assert len(rows) == len(whole) + 1 and len({len(x) for x in rows}) == 1
        table = failing.millrace(*words, "-o", "table", expect=0).stdout.splitlines()
        assert len(table) == len(rows) and table[0].split() == rows[0]
        column = table[0].index(rows[0][1])
        assert all(x[column - 1] == " " for x in table), "columns are aligned"
        ids = failing.millrace(*words, "-q", expect=0).stdout.splitlines()
        assert len(ids) == len(whole)
    assert failing.millrace("jobs", "ls", "-o", "xml").returncode == 2


def test_empty_lists_are_empty_in_every_format(broker):
    says = {"text": "no job\n", "table": "no job\n", "json": "[]\n", "jsonl": ""}
    for form, text in says.items():
        assert broker.millrace("jobs", "ls", "-o", form, expect=0).stdout == text
    assert broker.millrace("jobs", "ls", "-o", "csv", expect=0).stdout.startswith("JOB,CUSTOM_ID,")
    assert broker.millrace("jobs", "ls", "-q", expect=0).stdout == ""


def test_dead_letters_are_the_failed_jobs(failing):
    (dead,) = failing.millrace("dlq", "ls", "-q", expect=0).stdout.split()
    assert "context_exceeded" in failing.millrace("dlq", "show", dead, expect=0).stdout
    assert "the stub fails it" in failing.millrace("dlq", "ls", "--batch", "all").stdout
    assert failing.millrace("dlq", "retry", dead, expect=0).stdout
    failing.millrace("results", "--batch", "all", expect=0)
    words = failing.millrace("dlq", "--help", expect=0).stdout
    assert all(f"  {verb}" in words for verb in ("ls", "show", "retry", "drop"))
