"""`millrace run` with a stub engine: what it writes and refuses, and how it resumes."""
import json
import os
import resource
import signal
import subprocess
import sys

import pytest
from patience import PATIENCE_S
from programs import completion, wait_until
from terminals import lines_on_terminal

GOOD = [completion(f"j{i}", f"prompt {i}") for i in range(1, 9)]

BAD_LINES = {
    "nonsense": "invalid_json",
    '{"custom_id": "torn", "url": "/v1/comp': "invalid_json",
    "[1, 2]": "invalid_json",
    b'{"prompt": "\xff\xfe"}': "invalid_utf8",
    '{"prompt": "p", "temperature": NaN}': "invalid_json",
    '{"prompt": "p", "temperature": -Infinity}': "invalid_json",
    '{"prompt": "p", "temperature": 1e999}': "invalid_value",
    '{"prompt": "p", "temperature": "hot"}': "invalid_value",
    '{"prompt": "p", "temperature": -1}': "invalid_value",
    '{"prompt": "p", "max_tokens": -1}': "invalid_value",
    '{"prompt": "p", "max_tokens": 99999999999999999999}': "invalid_value",
    '{"prompt": "p", "n": 128, "max_tokens": 1000000}': "limit_exceeded",
    '{"prompt": "p", "stop": ""}': "invalid_value",
    '{"prompt": "p", "presence_penalty": 3}': "invalid_value",
    '{"prompt": "p", "deadline_us": 1000}': "deadline_passed",
    '{"prompt": "p", "task": "dance"}': "unknown_task",
    '{"tokens": []}': "empty_prompt",
    '{"tokens": [1, -4]}': "invalid_token",
    '{"messages": []}': "empty_prompt",
    '{"custom_id": 7, "prompt": "p"}': "invalid_value",
    '{"prompt": "p", "prompt": "q"}': "invalid_json",
    '{"custom_id": "no-prompt"}': "missing_field",
    '{"url": "/v1/embeddings", "body": {}}': "invalid_value",
    '{"url": "/v1/completions", "method": "GET", "body": {"prompt": "p"}}': "invalid_value",
    "[" * 100_000: "limit_exceeded",
}


def test_each_line_gives_one_output_line_and_a_second_run_does_nothing(run):
    run.write(GOOD)
    done = run.go(expect=0)
    assert "8 of 8 jobs done, 0 failed" in done.stdout
    assert sorted(run.results()) == list(range(1, 9))
    assert all(x["error"] is None and x["response"]["status_code"] == 200
               for x in run.results().values())
    before = run.output.read_bytes(), run.executions()
    again = run.go(expect=0)
    assert "Nothing to do" in again.stdout
    assert (run.output.read_bytes(), run.executions()) == before


def test_bad_lines_are_reported_with_their_number_and_the_rest_completes(run):
    lines = []
    for bad in BAD_LINES:
        lines += [bad, completion("good", "p")]
    run.write(lines)
    done = run.go(expect=1)
    results = run.results()
    assert sorted(results) == list(range(1, len(lines) + 1))
    for i, (bad, code) in enumerate(BAD_LINES.items()):
        error = results[2 * i + 1]["error"]
        assert error is not None, bad[:80]
        assert error["code"] == code, (bad[:80], error)
        assert error["line"] == 2 * i + 1
        assert results[2 * i + 2]["error"] is None
    assert f"{len(BAD_LINES)} failed" in done.stdout
    assert results[1]["custom_id"] is None
    assert len(run.executions()) == len(BAD_LINES), "a bad line must never reach an engine"
    run.go(expect=1)
    assert run.results() == results


def test_blank_lines_crlf_and_a_last_line_without_newline(run):
    run.input.write_bytes(b"\xef\xbb\xbf" + GOOD[0].encode() + b"\r\n\n  \n" + GOOD[1].encode())
    run.go(expect=0)
    assert sorted(run.results()) == [1, 4]


def test_an_empty_input(run):
    run.write([])
    run.go(expect=0)
    assert run.output.read_bytes() == b""


@pytest.mark.memory
def test_a_line_of_100_mb_is_refused_without_being_held(run):
    with open(run.input, "wb") as out:
        out.write(GOOD[0].encode() + b"\n" + b'{"prompt": "')
        for _ in range(100):
            out.write(b"x" * 1_000_000)
        out.write(b'"}\n' + GOOD[1].encode() + b"\n")
    # A small process measures: a child of this process would inherit its peak.
    measure = ("import resource, subprocess, sys; "
               "quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}; "
               "code = subprocess.run(sys.argv[1:], **quiet).returncode; "
               "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    measured = subprocess.run([sys.executable, "-c", measure, *run.command()], text=True,
                              env={**os.environ, **run.env}, capture_output=True)
    code, peak_kib = map(int, measured.stdout.split())
    assert code == 1
    assert run.results()[2]["error"]["code"] == "too_large"
    assert sorted(run.results()) == [1, 2, 3]
    assert peak_kib < 90 * 1024, f"{peak_kib} KiB"


def test_duplicated_custom_ids_run_both_with_a_warning(run):
    run.write([completion("same", "a"), completion("same", "b")])
    run.go(expect=0)
    results = run.results()
    assert [results[i]["custom_id"] for i in (1, 2)] == ["same", "same"]
    assert results[1]["response"]["body"]["millrace"]["warnings"] == []
    assert "line 1" in results[2]["response"]["body"]["millrace"]["warnings"][0]


def test_warnings_are_counted_and_the_first_is_named(run):
    """A run must report a typo in a field's name."""
    run.write([completion("a", "p"), completion("b", "p", model="stub"),
               '{"custom_id": "c", "prompt": "p", "temprature": 0, "model": "*"}',
               completion("a", "p"), '{"prompt": "p", "model": "gpt-4"}'])
    done = run.go(expect=0)
    assert "3 lines have warnings" in done.stdout
    assert "  line 3 (c): unknown field 'temprature' was left out\n" in done.stdout
    body = run.results()[5]["response"]["body"]
    assert body["warnings"] == ['the job names model "gpt-4", but "stub" ran']
    assert body["metadata"] == {}
    told = json.loads(run.go("--restart", "--json", expect=0).stdout.splitlines()[-1])
    assert (told["warned"], told["first_warning"]["line"]) == (3, 3)
    assert "temprature" in told["first_warning"]["message"]
    run.write([completion("a", "p")])
    assert "a warning" not in run.go("--restart", expect=0).stdout


def test_a_line_that_asks_for_streaming_is_refused_in_either_form(run):
    run.write([completion("a", "p", stream=True), '{"prompt": "p", "stream": true}',
               '{"prompt": "p", "stream": false}'])
    run.go(expect=1)
    errors = [run.results()[i]["error"] for i in (1, 2)]
    assert errors[0]["code"] == "unsupported_field"
    assert [e["message"] for e in errors] == [errors[0]["message"]] * 2
    assert run.results()[3]["error"] is None


def test_a_line_that_the_broker_refuses_keeps_its_custom_id(run):
    run.write([completion("a", "p"), '{"custom_id": "late", "prompt": "p", "deadline_us": 5}'])
    run.go(expect=1)
    assert [run.results()[i]["custom_id"] for i in (1, 2)] == ["a", "late"]
    assert run.results()[2]["error"]["line"] == 2
    assert not list(run.folder.glob("results.jsonl.millrace/*.ipc"))  # no socket is left


def test_unknown_fields_are_refused_when_strict(run):
    run.write([completion("a", "p", colour="red")])
    run.go("--strict", expect=1)
    assert run.results()[1]["error"]["code"] == "unknown_field"


def test_changed_input_is_refused_and_restart_begins_anew(run):
    run.write(GOOD)
    run.go(expect=0)
    for lines, number in ((GOOD[:3] + [completion("x", "other")] + GOOD[4:], 4), (GOOD[:-1], 8),
                          (GOOD + [GOOD[0]], 9), (GOOD[:2] + [""] + GOOD[2:], 3)):
        run.write(lines)
        refused = run.go(expect=3)
        assert f"line {number}" in refused.stderr and "--restart" in refused.stderr
    run.go("--restart", expect=0)
    assert sorted(run.results()) == [1, 2, 4, 5, 6, 7, 8, 9]


def test_changed_settings_are_refused(run):
    run.write(GOOD)
    run.go(expect=0)
    for extra in (("--strict",), ("--device", "other")):
        refused = run.go(*extra, expect=3)
        assert extra[0] in refused.stderr and "--restart" in refused.stderr
    refused = run.go("--kv", "q8", expect=3)
    assert "--kv" in refused.stderr and "f16" in refused.stderr
    assert "limit" in run.go("--max-batch", "100000", expect=2).stderr
    run.go("--max-batch", "7", expect=0)  # this setting changes no result


def test_another_engine_fingerprint_is_refused(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "300", "STUB_ROWS": "1"}
    process = run.start()
    wait_until(lambda: run.output.exists() and b"\n" in run.output.read_bytes(), "a result")
    process.kill()
    process.communicate()
    run.env |= {"STUB_FINGERPRINT": "6" * 32}
    assert "fingerprint" in run.go(expect=3).stderr


def test_another_choice_of_auto_names_both_and_can_be_given_by_name(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "300", "STUB_ROWS": "1", "STUB_KV": "k5v3;r5/r3 x30"}
    process = run.start("--kv", "auto", "--max-batch", "16")
    wait_until(lambda: run.output.exists() and b"\n" in run.output.read_bytes(), "a result")
    process.kill()
    process.communicate()
    began = dict(run.env)
    executed = run.executions()
    run.env |= {"STUB_FINGERPRINT": "6" * 32, "STUB_KV": "f16;f16/f16 x30", "STUB_DELAY_MS": "0",
                "STUB_ROWS": "64"}
    refused = run.go("--kv", "auto", "--max-batch", "1", expect=3).stderr
    assert ("--kv auto meant k5v3 (r5/r3 x30) when this run began and means f16 (f16/f16 x30)"
            in refused) and "give --kv k5v3" in refused
    assert run.executions() == executed, "a refused run must not compute anything"
    run.env = {**began, "STUB_DELAY_MS": "0"}
    assert "--kv was" in run.go("--kv", "k4v3", expect=3).stderr
    run.go("--kv", "r5/r3", "--max-batch", "1", expect=0)
    assert sorted(run.results()) == list(range(1, 9))


def test_two_runs_on_one_output(run):
    run.write(GOOD)
    run.env["STUB_DELAY_MS"] = "5000"
    first = run.start()
    wait_until(lambda: run.executions(), "the first run's work")
    assert "another run" in run.go(expect=3).stderr
    first.kill()
    first.communicate()


def test_wrong_paths_are_refused(run):
    run.write(GOOD)
    run.output = run.input
    assert "same file" in run.go(expect=2).stderr
    os.link(run.input, run.folder / "link.jsonl")
    run.output = run.folder / "link.jsonl"
    assert "same file" in run.go(expect=2).stderr
    run.output = run.folder / "no-such" / "out.jsonl"
    assert "does not exist" in run.go(expect=3).stderr
    run.output = run.folder
    assert "not a regular file" in run.go(expect=2).stderr
    run.output = run.folder / "old.txt"
    run.output.write_text("precious\n")
    assert "--restart" in run.go(expect=3).stderr
    assert run.output.read_text() == "precious\n"
    assert not (run.folder / "old.txt.millrace").exists()
    keys = run.output = run.folder / "m.keys"
    keys.write_text("keys")
    assert "would overwrite" in run.go("--kv-center", str(keys), "--restart", expect=2).stderr
    assert keys.read_text() == "keys"
    run.output = ""
    assert "--output is empty" in run.go(expect=2).stderr
    run.output = run.folder / "out.jsonl"
    run.input = run.folder / "absent.jsonl"
    assert "does not exist" in run.go(expect=2).stderr


def test_a_torn_output_line_is_cut_and_a_lost_one_comes_back_from_the_ledger(run):
    run.write(GOOD)
    run.go(expect=0)
    whole = run.output.read_bytes()
    executed = run.executions()
    for size in (len(whole) - 1, len(whole) - 700, len(whole) // 2, 1, 0):
        run.output.write_bytes(whole[:size])
        run.go(expect=0)
        assert sorted(run.results()) == list(range(1, 9))
    run.output.unlink()
    told = json.loads(run.go("--json", expect=0).stdout.splitlines()[-1])
    assert (told["done_before"], told["completion_tokens"]) == (8, 0)
    assert sorted(run.results()) == list(range(1, 9))
    assert run.executions() == executed, "results in the ledger must not be computed again"


def test_a_lost_ledger_that_is_needed_is_an_error(run):
    run.write(GOOD)
    run.go(expect=0)
    for file in run.folder.glob("results.jsonl.millrace/ledger*"):
        file.unlink()
    run.go(expect=0)  # every line is in the output, so the run does not need the ledger
    run.output.unlink()
    refused = run.go(expect=3).stderr
    assert "epoch_changed" in refused and "ledger" in refused and "--restart" in refused


def test_an_output_that_somebody_edited_is_refused(run):
    run.write(GOOD)
    run.go(expect=0)
    whole = run.output.read_text().splitlines(keepends=True)
    run.output.write_text("".join(whole[:-1]) + "mine\n")
    assert "did not write" in run.go(expect=3).stderr
    run.output.write_text("".join(whole[:-1] + whole[:1]))
    assert "repeats an earlier one" in run.go(expect=3).stderr


def test_progress_and_summary_as_json(run):
    run.write(GOOD + ["bad"])
    events = [json.loads(x) for x in run.go("--json", expect=1).stdout.splitlines()]
    summary = events[-1]
    assert summary["event"] == "summary"
    assert (summary["total"], summary["done"], summary["failed"]) == (9, 9, 1)
    assert summary["completion_tokens"] == 16
    assert summary["errors"] == [{"file": str(run.input), "line": 9, "custom_id": None,
                                  "code": "invalid_json",
                                  "message": summary["errors"][0]["message"]}]


def test_the_progress_line_fits_a_narrow_terminal(run):
    run.write(GOOD * 3)
    run.env |= {"STUB_DELAY_MS": "400", "STUB_ROWS": "4"}
    columns = 42
    lines = lines_on_terminal(run.command(), columns, run.env)
    assert len(lines) > 5 and any("left" in x for x in lines), lines
    progress = [x for x in lines if not x.startswith("millrace: ")]  # without notes
    assert max(map(len, progress)) < columns, lines


def test_a_summary_counts_the_failures_of_before(run):
    run.write(["bad"] + GOOD)
    run.env |= {"STUB_DELAY_MS": "300", "STUB_ROWS": "1"}
    process = run.start()
    wait_until(lambda: run.executions("end"), "a result")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    run.env["STUB_DELAY_MS"] = "0"
    assert "1 failed" in (summary := run.go(expect=1).stdout) and "  1 failed before" in summary
    assert "not null" in run.go(expect=1).stdout


def test_a_reader_of_the_progress_may_leave(run):
    run.env["STUB_DELAY_MS"] = "200"
    run.write(GOOD)
    process = run.start("--json")
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == ""
    assert len(run.results()) == len(GOOD)


def test_a_full_disk_stops_the_run_and_nothing_is_lost(run):
    """Simulates a full disk by a file size limit: writes beyond it fail, and later succeed."""
    run.write([completion(f"j{i}", f"p{i}") for i in range(400)])
    limit = 120_000

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    stopped = subprocess.run(run.command(), env={**os.environ, **run.env}, text=True, check=False,
                             capture_output=True, timeout=PATIENCE_S, preexec_fn=limited)
    assert stopped.returncode == 3, stopped.stderr
    assert "disk_full" in stopped.stderr or "io_error" in stopped.stderr
    run.go(expect=0)
    assert sorted(run.results()) == list(range(1, 401))
