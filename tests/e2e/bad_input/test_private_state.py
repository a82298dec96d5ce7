"""Only the user can read the programs' own files; outputs follow the umask."""
import os
import stat

import pytest

from programs import completion

JOBS = [completion("a", "A common beginning of two jobs. One", max_tokens=4),
        completion("b", "A common beginning of two jobs. Two", max_tokens=4)]


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def assert_private(folder, *names):
    inside = [x for x in folder.rglob("*") if not x.is_socket()]
    assert {x.name for x in inside} >= set(names), inside
    assert mode(folder) == 0o700
    for path in inside:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_run(real_run):
    real_run.write(JOBS)
    prefixes = real_run.folder / "prefixes"
    real_run.go("--prefix-cache", f"{prefixes}/", expect=0)
    assert mode(real_run.output) == 0o644
    assert_private(real_run.folder / "results.jsonl.millrace", "ledger.sqlite", "engine.log",
                   "manifest.json", "checkpoint.json")
    assert_private(prefixes)
    assert any(prefixes.iterdir())
    os.umask(0o027)
    real_run.output.unlink()
    real_run.go("--restart", expect=0)
    assert mode(real_run.output) == 0o640


def test_a_broker_also_in_a_folder_that_is_open(real_broker):
    ledger = real_broker.folder / "ledger"
    assert_private(ledger, "ledger.sqlite", "ledger.sqlite-wal")
    real_broker.kill()
    for path in ledger.iterdir():
        path.unlink()
    ledger.chmod(0o755)
    real_broker.start()
    for path in ledger.iterdir():
        assert mode(path) == 0o600, path
    assert mode(ledger) == 0o755, "a folder that exists keeps its permissions"
    real_broker.kill()
    for path in ledger.iterdir():
        path.chmod(0o644)
    real_broker.start()
    for path in ledger.iterdir():
        assert mode(path) == 0o600, path


def test_outputs_that_a_user_names(real_run, call, tmp_path):
    text = tmp_path / "text"
    text.write_text("hello world " * 60)
    plot, keys = tmp_path / "plot.png", tmp_path / "tiny.keys"
    assert call("millrace", "calibrate", "--model", real_run.model, "--text", text,
                "-o", keys).returncode == 0
    assert call("millrace", "fidelity", "--model", real_run.model, "--text", text, "--kv", "f16",
                "--context", "64", "--plot", plot).returncode == 0
    assert (mode(plot), mode(keys)) == (0o644, 0o644)
