"""The real engine on a device that breaks while jobs run: the jobs that fail run again, those that
may not have the device's error message, and no other job is lost."""
import json
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "client"))
from programs import BIN, Run, model_path, program  # noqa: E402

LIBRARY = BIN.parent / "tests" / "libfailing_device.so"
JOBS = 12
# Loading launches a few kernels, and each step some: this launch is in the middle of a run, with
# all rows under way.
AT_LAUNCH = 150
# And this one is in the steps before any job.
AT_FIRST_STEPS = 4


class BrokenRun(Run):
    def __init__(self, folder, fault=None, at=AT_LAUNCH, **fields):
        super().__init__(folder)
        assert LIBRARY.exists(), f"{LIBRARY} is missing: build the target failing_device"
        self.control = folder / "fault"
        self.env = {"LD_PRELOAD": str(LIBRARY), "FAILING_DEVICE": str(self.control),
                    "ASAN_OPTIONS": "verify_asan_link_order=0"}
        if fault:
            self.control.write_text(f"{fault} {at}\n")
        self.write([json.dumps({"custom_id": f"c{i}", "url": "/v1/completions", "body": {
            "prompt": f"Count from {i}:", "max_tokens": 60, "ignore_eos": True, **fields}})
            for i in range(1, JOBS + 1)])

    def command(self, *extra):
        return [program("millrace"), "run", "--model", model_path(), "--input", str(self.input),
                "--output", str(self.output), "--json", "--max-batch", "4", *extra]

    def texts(self):
        return {i: record["response"]["body"]["choices"][0]["text"]
                for i, record in self.results().items() if record["error"] is None}

    def deaths(self, done):
        return [x for x in done.stdout.splitlines() if '"event":"engine_died"' in x]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The texts of the same jobs on a device that does not break."""
    run = BrokenRun(tmp_path_factory.mktemp("sound"))
    run.go(expect=0)
    assert len(run.texts()) == JOBS
    return run.texts()


@pytest.mark.parametrize("fault, call, name", [
    ("fails", "clEnqueueNDRangeKernel", "CL_INVALID_KERNEL_ARGS"),
    ("breaks", "clWaitForEvents", "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST")])
def test_a_kernel_that_fails_costs_the_jobs_of_its_step_alone(tmp_path, sound, fault, call, name):
    run = BrokenRun(tmp_path, fault, max_attempts=1)
    done = run.go(expect=1)
    assert not run.control.exists(), "no launch failed"
    failed = [x["error"] for x in run.results().values() if x["error"]]
    assert 1 <= len(failed) <= 4, "the rows of one step"
    for error in failed:
        assert error["code"] == "device_error"
        assert call in error["message"] and name in error["message"]
    assert len(run.texts()) == JOBS - len(failed)
    assert all(sound[i] == text for i, text in run.texts().items())
    assert not run.deaths(done), "the engine must go on"


def test_the_jobs_of_a_step_that_failed_run_again_with_the_same_texts(tmp_path, sound):
    run = BrokenRun(tmp_path, "fails")
    done = run.go(expect=0)
    assert not run.control.exists(), "no launch failed"
    assert run.texts() == sound
    assert not run.deaths(done), "the engine must go on"


@pytest.mark.parametrize("fault, word", [("lost", "CL_DEVICE_NOT_AVAILABLE"),
                                         ("hangs", "has not ended a step for 2 s")])
def test_a_device_that_is_gone_ends_the_engine_and_no_job(tmp_path, sound, fault, word):
    run = BrokenRun(tmp_path, fault)
    done = run.go("--step-limit", "2", expect=0)
    assert not run.control.exists(), "no launch failed"
    assert run.texts() == sound
    assert len(run.deaths(done)) == 1
    assert word in done.stdout + done.stderr


def test_a_device_that_hangs_before_the_first_job_ends_the_engine(tmp_path):
    run = BrokenRun(tmp_path, "hangs", at=AT_FIRST_STEPS)
    done = run.go("--step-limit", "2", expect=3)
    assert not run.control.exists(), "no launch failed"
    assert "has not ended a step for 2 s" in done.stdout + done.stderr


@pytest.mark.parametrize("fault, word", [
    ("fails", "CL_INVALID_KERNEL_ARGS"),
    ("breaks", "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST")])
def test_a_kernel_that_fails_in_a_pipeline_costs_the_jobs_of_its_step_alone(tmp_path, sound, fault,
                                                                            word):
    run = BrokenRun(tmp_path, fault, max_attempts=1)
    run.env["POCL_DEVICES"] = "pthread pthread"
    done = run.go("--pipeline", "0,1", expect=1)
    assert not run.control.exists(), "no launch failed"
    failed = [x["error"] for x in run.results().values() if x["error"]]
    assert 1 <= len(failed) <= 4, "the rows of one step"
    assert all(re.search(word, error["message"]) for error in failed), failed
    assert len(run.texts()) == JOBS - len(failed)
    assert all(sound[i] == text for i, text in run.texts().items())
    assert not run.deaths(done), "the engine must go on"


@pytest.mark.parametrize("fault, word", [("lost", "device 0:[01]: .*CL_DEVICE_NOT_AVAILABLE"),
                                         ("hangs", "has not ended a step for 2 s")])
def test_a_device_of_a_pipeline_that_is_gone_ends_the_engine_and_no_job(tmp_path, sound, fault,
                                                                        word):
    run = BrokenRun(tmp_path, fault)
    run.env["POCL_DEVICES"] = "pthread pthread"
    done = run.go("--pipeline", "0,1", "--step-limit", "2", expect=0)
    assert not run.control.exists(), "no launch failed"
    assert run.texts() == sound
    assert len(run.deaths(done)) == 1
    assert re.search(word, done.stdout + done.stderr)


def test_one_of_two_devices_is_gone_and_the_other_goes_on(tmp_path, sound):
    """The engine of the lost device starts again, and its jobs run on either device meanwhile."""
    run = BrokenRun(tmp_path, "lost")
    run.env["POCL_DEVICES"] = "pthread pthread"
    done = run.go("--devices", "all", expect=0)
    assert not run.control.exists(), "no launch failed"
    assert run.texts() == sound
    [death] = [json.loads(x) for x in run.deaths(done)]
    assert "the engine on 0:" in death["message"] and "CL_DEVICE_NOT_AVAILABLE" in death["message"]
