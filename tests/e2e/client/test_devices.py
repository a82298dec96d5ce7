"""`--devices`: an engine on each of several devices, with engines without a model and with the real
engine on two devices of PoCL. The end of one engine does not end the others."""
import json
import os
import re
import signal
import subprocess

import pytest
from patience import PATIENCE_S
from programs import Broker, completion, program, wait_until
from test_run_deaths import engine_pids

JOBS = [completion(f"j{i}", f"prompt {i}") for i in range(1, 41)]


@pytest.fixture
def two(run):
    """A run with an engine on each of two devices."""
    run.write(JOBS)
    run.env |= {"STUB_DEVICES": "0:0 - first\n0:1 - second", "STUB_DELAY_MS": "150",
                "STUB_ROWS": "4"}
    return run


def device_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().decode().split("\0")
    return words[words.index("--device") + 1]


def test_a_run_on_two_devices_gives_each_line_once(two):
    events = [json.loads(x) for x in two.go("--devices", "all", "--json", expect=0).stdout
              .splitlines()]
    assert sorted(two.results()) == list(range(1, 41))
    assert sorted(two.executions("device")) == ["0:0", "0:1"]
    ready = [x["message"] for x in events if x["event"] == "engine_ready"]
    assert sorted(x.split(": ")[0] for x in ready) == ["run:0:0", "run:0:1"]
    assert events[-1]["engine_starts"] == 2
    assert "Nothing to do" in two.go("--devices", "all", expect=0).stdout
    for other in (("--devices", "0,1"), ()):
        refused = two.go(*other, expect=3)
        assert "--devices was \"all\"" in refused.stderr and "--restart" in refused.stderr


def test_many_engines_are_all_kept_busy(run):
    """A run keeps enough jobs submitted for all its engines: more than one engine could hold."""
    engines, held = 5, 2048
    run.write([completion(f"j{i}", "p") for i in range(engines * held + 1000)])
    run.env |= {"STUB_DEVICES": "\n".join(f"0:{i} - stub" for i in range(engines)),
                "STUB_DELAY_MS": "20000", "STUB_ROWS": str(held)}
    process = run.start("--devices", "all", "--json")
    most = 0
    for line in process.stdout:
        most = max(most, json.loads(line).get("running", 0))
        if most > 9000:
            break
    process.kill()
    process.communicate()
    assert most > 9000


def test_one_engine_of_a_run_dies_and_the_other_goes_on(two):
    process = two.start("--devices", "all", "--json")
    wait_until(lambda: len(two.executions("end")) >= 4, "results")
    pids = engine_pids(two)
    assert len(pids) == 2
    [victim] = [pid for pid in pids if device_of(pid) == "0:1"]
    os.kill(victim, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    died = [x for x in map(json.loads, stdout.splitlines()) if x["event"] == "engine_died"]
    assert len(died) == 1 and "the engine on 0:1 ended with signal 9" in died[0]["message"]
    assert sorted(two.results()) == list(range(1, 41))
    assert sorted(two.executions("device")) == ["0:0", "0:1", "0:1"]


def test_score_has_engines_on_several_devices(two):
    done = subprocess.run([program("millrace"), "score", "--model", "stub", "--engine", two.engine,
                           "--devices", "all"], env={**os.environ, **two.env}, text=True,
                          input="\n".join(f"text {i}" for i in range(20)), capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(x)["line"] for x in done.stdout.splitlines()] == list(range(1, 21))
    assert sorted(two.executions("device")) == ["0:0", "0:1"]


class Service:
    """A supervisor with an engine without a model on each device, and its broker."""

    def __init__(self, broker, *options, **env):
        self.broker = broker
        self.process = subprocess.Popen(
            [program("stub_engine"), "--broker", broker.engines, "--name", "host", *options],
            env={**os.environ, **env}, stderr=subprocess.PIPE, text=True)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.log = ""

    def read(self):
        self.log += self.process.stderr.read() or ""
        return self.log

    def engines(self):
        status = json.loads(self.broker.millrace("status", "--json", expect=0).stdout)
        return sorted(x["name"] for x in status["engines"])

    def pids(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="utf-8") as file:
            return [int(x) for x in file.read().split()]

    def end(self, code):
        self.process.wait(PATIENCE_S)
        assert self.process.returncode == code, self.read()
        return self.read()


@pytest.fixture
def service(broker):
    started = []

    def start(*options, **env):
        started.append(Service(broker, *options, **env))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def counts(broker):
    return json.loads(broker.millrace("status", "--json", expect=0).stdout)["counts"]


def test_the_program_keeps_an_engine_on_each_device_alive(service, broker, tmp_path):
    two = service("--devices", "0:0,0:1")
    wait_until(lambda: two.engines() == ["host:0:0", "host:0:1"], "both engines")
    before = two.pids()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(two.pids()) == 2 and set(two.pids()) != set(before), "the restart")
    assert before[1] in two.pids()
    wait_until(lambda: two.engines() == ["host:0:0", "host:0:1"], "both engines")
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(x + "\n" for x in JOBS))
    broker.millrace("submit", str(jobs), "--wait", "--output", str(tmp_path / "out"), expect=0)
    two.process.send_signal(signal.SIGTERM)
    log = two.end(0)
    assert "the engine on 0:0 ended with signal 9" in log
    for device in ("0:0", "0:1"):
        assert re.search(rf"^\[{device}\] .*joined the broker", log, re.MULTILINE), log
        assert re.search(rf"^\[{device}\] .*left the broker", log, re.MULTILINE), log
    assert two.engines() == []


def test_sigterm_finishes_what_runs_on_every_device(service, broker, tmp_path):
    two = service("--devices", "0:0,0:1", "--step-ms", "500", "--job-steps", "4")
    wait_until(lambda: len(two.engines()) == 2, "both engines")
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(x + "\n" for x in JOBS[:8]))
    broker.millrace("submit", str(jobs), "--batch", "b", expect=0)
    wait_until(lambda: counts(broker)["leased"] > 0, "jobs under way")
    two.process.send_signal(signal.SIGTERM)
    two.end(0)
    assert counts(broker)["leased"] == 0 and counts(broker)["failed"] == 0


def test_a_broker_that_drains_ends_all_engines_and_the_program(service, broker, tmp_path):
    two = service("--devices", "0:0,0:1", "--step-ms", "300", "--job-steps", "6")
    wait_until(lambda: len(two.engines()) == 2, "both engines")
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(x + "\n" for x in JOBS[:8]))
    broker.millrace("submit", str(jobs), "--batch", "b", expect=0)
    wait_until(lambda: counts(broker)["leased"] > 0, "jobs under way")
    broker.millrace("drain", "--engines", expect=0)
    two.end(0)


def test_ctrl_c_says_so_by_its_exit_code(service):
    two = service("--devices", "0:0,0:1")
    wait_until(lambda: len(two.engines()) == 2, "both engines")
    two.process.send_signal(signal.SIGINT)
    two.end(130)


def test_engines_die_with_their_supervisor(service):
    two = service("--devices", "0:0,0:1")
    wait_until(lambda: len(two.engines()) == 2, "both engines")
    pids = two.pids()
    two.process.kill()
    two.process.wait()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "their end")


# ---- the real engine on two devices of PoCL

PROMPTS = [completion(f"c{i}", f"Count from {i}:", max_tokens=24, ignore_eos=True)
           for i in range(1, 17)]
TWO_DEVICES = {"POCL_DEVICES": "pthread pthread"}


class RealRun:
    def __init__(self, folder, model, **env):
        self.folder, self.model, self.env = folder, model, {**os.environ, **env}
        self.output = folder / "results.jsonl"
        (folder / "jobs.jsonl").write_text("".join(x + "\n" for x in PROMPTS))

    def go(self, *options, expect=0):
        done = subprocess.run(
            [program("millrace"), "run", "--model", self.model, "--input",
             self.folder / "jobs.jsonl", "--output", self.output, "--json", "--max-batch", "4",
             "--kv-memory", "64MiB", *options], env=self.env, text=True, capture_output=True,
            timeout=PATIENCE_S, check=False)
        assert done.returncode == expect, f"{done.stdout}\n{done.stderr}"
        return done

    def results(self):
        records = [json.loads(x) for x in self.output.read_text().splitlines()]
        return {x["custom_id"]: (x["response"]["body"]["choices"][0]["text"],
                                 x["response"]["body"]["millrace"]["effective"]["fingerprint"])
                for x in records}


def test_two_devices_give_the_bits_of_one(model, tmp_path_factory):
    one = RealRun(tmp_path_factory.mktemp("one"), model)
    one.go()
    pipeline = RealRun(tmp_path_factory.mktemp("pipeline"), model, **TWO_DEVICES)
    pipeline.go("--pipeline", "0=17,1=13")
    assert len(pipeline.results()) == len(PROMPTS) and pipeline.results() == one.results()
    both = RealRun(tmp_path_factory.mktemp("both"), model, **TWO_DEVICES)
    both.go("--devices", "all")
    assert len(both.results()) == len(PROMPTS) and both.results() == one.results()
    log = (both.folder / "results.jsonl.millrace" / "engine.log").read_text()
    # An engine may become ready after the other has done all jobs.
    for device in ("0:0", "0:1"):
        assert re.search(rf"^\[{device}\] .*device opened", log, re.MULTILINE), log


def test_devices_that_are_not_there_are_refused_and_leave_no_trace(model, tmp_path):
    run = RealRun(tmp_path, model, **TWO_DEVICES)
    refused = run.go("--devices", "0,7", expect=3)
    assert "no OpenCL device is \\\"7\\\"" in refused.stdout + refused.stderr
    assert not run.output.exists()
    twice = run.go("--devices", "0,0:0", expect=2)
    assert "--devices names 0:0 twice" in twice.stdout + twice.stderr
