"""Unusable ledgers, outputs, disks and brokers, with the real programs."""
import json
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from patience import PATIENCE_S
from programs import completion, program, wait_until


def endpoints(folder, name):
    return ["--listen", f"ipc://{folder}/{name}c", "--listen-engines", f"ipc://{folder}/{name}e",
            "--listen-doorbell", ""]


def test_a_second_broker_on_one_ledger_or_one_endpoint(real_broker, call):
    folder = real_broker.folder
    same_ledger = call("millrace-broker", "--ledger", folder / "ledger", *endpoints(folder, "x"))
    assert same_ledger.returncode == 3
    assert "ledger_in_use" in same_ledger.stderr and "another ledger" in same_ledger.stderr
    same_endpoint = call("millrace-broker", "--ledger", folder / "other", "--listen",
                         real_broker.clients, "--listen-engines", f"ipc://{folder}/e2",
                         "--listen-doorbell", "")
    assert same_endpoint.returncode == 3
    assert "another process listens there" in same_endpoint.stderr
    real_broker.millrace("status", expect=0)  # the first broker still answers its clients


def test_an_endpoint_left_by_a_killed_broker_is_taken_over(real_broker):
    real_broker.kill()
    real_broker.start()
    real_broker.millrace("status", expect=0)


def make_newer(ledger):
    base = sqlite3.connect(ledger)
    version = base.execute("PRAGMA user_version").fetchone()[0]
    base.execute(f"PRAGMA user_version = {version + 1}")
    base.commit()
    base.close()


def test_a_ledger_of_a_newer_version(real_broker, real_run, call):
    real_broker.broker.send_signal(signal.SIGTERM)
    real_broker.broker.wait(PATIENCE_S)
    make_newer(real_broker.folder / "ledger" / "ledger.sqlite")
    ended = call("millrace-broker", "--ledger", real_broker.folder / "ledger",
                 *endpoints(real_broker.folder, "x"))
    assert ended.returncode == 3 and "ledger_newer" in ended.stderr
    assert "newer" in ended.stderr.split("(")[-1] or "update" in ended.stderr, "what to do"
    real_run.write([completion("a", "hello", max_tokens=2)])
    real_run.model.rename(real_run.folder / "away")
    real_run.go(expect=3)  # leaves a ledger without an engine's mark
    (real_run.folder / "away").rename(real_run.model)
    real_run.go(expect=0)
    done = real_run.output.read_bytes()
    make_newer(real_run.folder / "results.jsonl.millrace" / "ledger.sqlite")
    real_run.output.unlink()  # so that the ledger is needed
    assert "ledger_newer" in real_run.go(expect=3).stderr
    assert done


@pytest.mark.parametrize("words, code, says", [
    (["--ledger", "FILE"], 3, "FILE"), (["--ledger", "/proc/nowhere"], 3, "/proc/nowhere"),
    (["--listen", "nonsense"], 2, "not an endpoint"), (["--config", "/nowhere"], 2, "/nowhere"),
    (["--config", "FILE"], 2, "nonsense"), (["--lease-ms", "5"], 2, "--lease-ms"),
    (["--listen", "tcp://0.0.0.0:5998"], 3, "other machines"), (["stray"], 2, "stray"),
    (["--log-level", "loud"], 2, "loud"),
    (["--ledger", "postgresql://127.0.0.1:9/db"], 3, "check that the server runs"),
    (["--ledger", ""], 2, "no place"),
    (["--ledger", "sqlite://here"], 2, "three slashes"),
    (["--ledger", "redis://host"], 2, "sqlite:///FOLDER"),
])
def test_a_broker_that_cannot_start_says_why(call, tmp_path, words, code, says):
    path = tmp_path / "a-file"
    path.write_text("nonsense = 1\n")
    words = [str(path) if x == "FILE" else x for x in words]
    if "--ledger" not in words:
        words += ["--ledger", str(tmp_path / "ledger")]
    ended = call("millrace-broker", *words)
    assert ended.returncode == code, ended.stderr
    assert (str(path) if says == "FILE" else says) in ended.stderr


def test_outputs_that_cannot_be_written(stub_run):
    stub_run.write([completion("a", "p")])
    for output, code, words in (
            ("/proc/results.jsonl", 3, "/proc"), ("/dev/full", 2, "regular file"),
            (f"{stub_run.input}/results.jsonl", 3, "does not exist"),
            (f"{stub_run.folder}/none/results.jsonl", 3, "does not exist"),
            (f"{stub_run.folder}/./jobs.jsonl", 2, "same file")):
        stub_run.output = output
        ended = stub_run.go(expect=code)
        assert words in ended.stderr, ended.stderr
        assert len(ended.stderr.splitlines()) <= 2
    assert stub_run.input.read_text().startswith('{"custom_id": "a"')


def test_standard_output_that_is_full_is_an_error_and_one_that_is_gone_ends_it(real_run):
    real_run.input.write_text("a line of text\n" * 20_000)
    command = [program("millrace"), "tokenize", "--model", str(real_run.model),
               str(real_run.input)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)
    assert done.returncode == 3 and "cannot write to standard output" in done.stderr
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.wait(PATIENCE_S) == -signal.SIGPIPE  # silently, as any filter does
    assert process.stderr.read() == ""


def full_after(limit):
    """Simulates a full disk by a file size limit: writes beyond it fail."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return limited


def test_a_run_without_room_from_the_start_and_then_with(real_run):
    real_run.write([completion("a", "hello", max_tokens=2)])
    stopped = subprocess.run(real_run.command(), text=True, check=False, capture_output=True,
                             timeout=PATIENCE_S, preexec_fn=full_after(1000))
    assert stopped.returncode == 3
    assert "millrace: disk_full" in stopped.stderr or "millrace: io_error" in stopped.stderr
    real_run.go(expect=0)
    assert real_run.results()[1]["error"] is None


def test_client_and_engine_wait_for_a_broker_that_is_away(real_broker):
    """A broker that is killed comes back; both say that it was away, and no line is lost."""
    real_broker.real_engine("--max-batch", "2")
    path = real_broker.folder / "jobs.jsonl"
    path.write_text("".join(completion(f"j{i}", "hello", max_tokens=100, ignore_eos=True) + "\n"
                            for i in range(400)))
    waiting = subprocess.Popen(real_broker.command("submit", str(path), "--wait"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    status = ["status", "--json"]
    wait_until(lambda: json.loads(real_broker.millrace(*status).stdout)["counts"]["completed"] >= 2,
               "some results")
    real_broker.kill()
    time.sleep(1.2)
    real_broker.start()
    stdout, stderr = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 0, stderr
    assert sorted(json.loads(x)["custom_id"] for x in stdout.splitlines()) == sorted(
        f"j{i}" for i in range(400))
    assert "trying again" in stderr and "the broker is back" in stderr
    assert "joined a new broker" in real_broker.engine_log()


def test_an_engine_waits_for_a_broker_that_is_not_there_yet(real_run, tmp_path):
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [program("millrace-engine"), "--model", str(real_run.model), "--broker",
             f"ipc://{tmp_path}/nobody"], stdout=log, stderr=log)
    wait_until(lambda: "trying again" in (tmp_path / "log").read_text(), "a word about it")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_an_engine_killed_in_a_run_is_replaced(real_run):
    real_run.write([completion(f"j{i}", "hello", max_tokens=150, ignore_eos=True)
                    for i in range(400)])
    process = real_run.start("--json", "--max-batch", "2")
    wait_until(lambda: real_run.output.exists() and real_run.output.read_bytes().count(b"\n"),
               "a result")
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], text=True,
                              capture_output=True, check=True).stdout.split()
    subprocess.run(["kill", "-9", *children], check=True)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert "engine_died" in stdout
    assert sorted(real_run.results()) == list(range(1, 401))


def test_a_lost_run_folder_is_no_reason_to_overwrite(real_run):
    real_run.write([completion("a", "hello", max_tokens=2)])
    real_run.go(expect=0)
    done = real_run.output.read_bytes()
    shutil.rmtree(real_run.folder / "results.jsonl.millrace")
    refused = real_run.go(expect=3).stderr
    assert "conflict" in refused and "--restart" in refused
    assert real_run.output.read_bytes() == done
