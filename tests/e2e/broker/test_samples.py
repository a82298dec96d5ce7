"""The short clients in Python of two pages run as printed, against a real broker: with a job that
completes, one that fails, one that is refused, and beside the jobs of others."""
import os
import re
import subprocess
import sys
import tempfile

import pytest
from patience import PATIENCE_S
from wire import PROGRAM, ROOT, Peer, end, job

SAMPLES = ["docs/protocol.md", "schemas/README.md"]


def sample(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.split(r"^## A client in [\w-]+ lines.*$", text, flags=re.MULTILINE)[1]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def runtime(tmp_path):
    with tempfile.TemporaryDirectory(prefix="mr-") as folder:  # pytest's folders are too long
        env = {**os.environ, "XDG_RUNTIME_DIR": folder}
        broker = subprocess.Popen([PROGRAM, "--ledger", tmp_path / "ledger"], env=env,
                                  stdout=subprocess.PIPE, text=True)
        for line in broker.stdout:
            if line == "ready\n":
                break
        yield folder
        broker.kill()
        broker.wait()
        broker.stdout.close()


def start(program, runtime):
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "XDG_RUNTIME_DIR": runtime})


def engine_at(runtime, context):
    engine = Peer(context, f"ipc://{runtime}/millrace/engines", role="engine", instance="e",
                  model="m")
    engine.join()
    return engine


def next_lease(engine):
    engine.say("ready", credit=1)
    return engine.wait("leases")["leases"][0]["lease"]


def with_results_of_others(runtime, context, engine):
    other = Peer(context, f"ipc://{runtime}/millrace/clients", role="client")
    other.join()
    other.ask("submit", jobs=[job("theirs")])
    result = end(next_lease(engine))
    result["result"]["choices"][0]["text"] = "somebody else's"
    engine.ask("ends", ends=[result])


@pytest.mark.parametrize("page", SAMPLES)
def test_a_sample_prints_its_own_result(page, runtime, context):
    engine = engine_at(runtime, context)
    with_results_of_others(runtime, context, engine)
    program = start(sample(page), runtime)
    engine.ask("ends", ends=[end(next_lease(engine))])
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, err
    assert "done" in out.splitlines()[-1] and "somebody else's" not in out


@pytest.mark.parametrize("page", SAMPLES)
def test_a_sample_shows_why_a_job_failed(page, runtime, context):
    engine = engine_at(runtime, context)
    program = start(sample(page), runtime)
    error = {"code": "context_exceeded", "message": "too long"}
    engine.ask("ends", ends=[{"lease": next_lease(engine), "state": "failed", "error": error}])
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, err
    assert "too long" in out.splitlines()[-1]


@pytest.mark.parametrize("page", SAMPLES)
def test_a_sample_shows_why_a_job_is_refused(page, runtime):
    program = start(sample(page).replace('"max_tokens": ', '"n": 0, "max_tokens": '), runtime)
    out, err = program.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    assert "invalid_value" in out


@pytest.mark.parametrize("page", SAMPLES)
def test_a_sample_shows_why_a_message_is_refused(page, runtime):
    program = start(sample(page).replace('"name": "my script"', '"version_min": 9')
                    .replace('name="my script"', "version_min=9"), runtime)
    out, err = program.communicate(timeout=PATIENCE_S)
    assert "unsupported_version" in err and "Traceback" not in err
