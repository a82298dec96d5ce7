"""ops/slurm/engine.sbatch under a real Slurm: it works, and drains before its time is up."""
import pytest
from programs import ROOT, wait_until
from slurm_cluster import Slurm, missing

SCRIPT = ROOT / "ops" / "slurm" / "engine.sbatch"
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture
def slurm(place, tmp_path):
    (tmp_path / "slurm").mkdir()
    one = Slurm(tmp_path / "slurm")
    try:
        one.start()
        yield one
    finally:
        one.stop()


def submit(slurm, place, tmp_path, options=(), engine=()):
    told = slurm.ask(
        "sbatch", "--parsable", "--cpus-per-task=1", f"--output={tmp_path}/%x-%j.log",
        f"--export=ALL,PATH={place.environment['PATH']}", *options, str(SCRIPT),
        *place.engine_options(*engine), cwd=tmp_path)
    assert told.strip().isdigit(), told
    return told.strip()


def test_an_engine_is_a_job(slurm, place, tmp_path):
    job = submit(slurm, place, tmp_path)
    name, = place.until_engines(1)
    assert name.endswith(f"-{job}")
    place.submit(20, "--wait")
    assert len(place.results()) == 20
    # A second one waits for the GPU until the first has gone.
    other = submit(slurm, place, tmp_path)
    wait_until(lambda: slurm.state(other)[0] == "PENDING", "the other job")
    slurm.ask("scancel", "--batch", "--signal=TERM", job)
    wait_until(lambda: slurm.state(job) == ("COMPLETED", "0:0"), "its end")
    wait_until(lambda: [x.endswith(f"-{other}") for x in place.engines()] == [True], "the other")
    assert "left the broker" in (tmp_path / f"millrace-engine-{job}.log").read_text()


def test_an_engine_drains_before_its_time_is_up(slurm, place, tmp_path):
    """Slurm knows minutes and looks about every half minute, so this takes some."""
    job = submit(slurm, place, tmp_path, ["--time=1", "--signal=B:TERM@55"],
                 ["--step-ms", "2000", "--rows", "1", "--drain-timeout", "20"])
    place.until_engines(1)
    place.submit(500)
    wait_until(lambda: slurm.state(job)[0] not in ("RUNNING", "COMPLETING"), "its end", seconds=300)
    assert slurm.state(job) == ("COMPLETED", "0:0"), "and not TIMEOUT"
    done = len(place.results())
    assert done > 0
    place.until_engines(0)
    # What it could not finish it has given back: the next engine does all of it, once.
    submit(slurm, place, tmp_path)
    wait_until(lambda: len(place.results()) == 500, "the rest")
    assert sorted(int(x["custom_id"]) for x in place.results()) == list(range(500))
