"""Damages the cache of the driver PoCL as full disks and power cuts do. PoCL trusts the files that
it finds there, and ends the process or fails a call at every start. The engine empties its own
cache folder once and starts again; if the user chose the folder, the error only names it."""
import os
import re
import shutil

import pytest

from programs import BIN, completion

LINES = [completion("a", "b", max_tokens=4), completion("c", "d", max_tokens=4)]
EMPTIED = "the OpenCL driver's cache was emptied after a start that failed"


def log_of(run):
    return (run.folder / "results.jsonl.millrace" / "engine.log").read_text()


@pytest.fixture(scope="module")
def filled_cache(tmp_path_factory, real_run_in):
    """The cache that a start with an empty one fills; skips the test with other drivers."""
    tmp_path = tmp_path_factory.mktemp("first")
    first = real_run_in(tmp_path)
    first.write(LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("POCL_CACHE_DIR", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        first.go(expect=0)
    assert all(x["error"] is None for x in first.results().values())
    if "Portable Computing Language" not in log_of(first):
        pytest.skip("the device's driver is not PoCL, whose cache this damages")
    assert list((tmp_path / "cache" / "millrace" / "pocl").rglob("*.so")), "the cache is elsewhere"
    assert (tmp_path / "cache" / "millrace").stat().st_mode & 0o777 == 0o700
    return tmp_path / "cache" / "millrace" / "pocl"


class PoclRun:
    """A run whose driver cache is a copy of the filled one."""

    def __init__(self, real_run, filled):
        self.run = real_run
        self.folder = real_run.folder / "cache" / "millrace" / "pocl"
        shutil.copytree(filled, self.folder)
        real_run.env["XDG_CACHE_HOME"] = str(real_run.folder / "cache")
        real_run.write(LINES)

    def files(self, ending):
        return sorted(x for x in self.folder.rglob("*" + ending) if x.is_file())

    def damage(self, ending, how):
        files = self.files(ending)
        assert files
        for path in files:
            how(path)

    def emptied(self):
        return [x for x in log_of(self.run).splitlines() if EMPTIED in x]


@pytest.fixture
def pocl_run(real_run, monkeypatch, filled_cache):
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    return PoclRun(real_run, filled_cache)


def cut_to(part):
    return lambda path: os.truncate(path, int(path.stat().st_size * part))


def zero_the_middle(path):
    raw = path.read_bytes()
    at = 4096
    path.write_bytes(raw[:at] + bytes(len(raw) - at))


DAMAGE = {
    "machine code cut to nothing": (".so", cut_to(0), "signal 6 (ABRT)"),
    "machine code cut in half": (".so", cut_to(0.5), "signal "),
    "machine code of zeros": (".so", zero_the_middle, "signal 11 (SEGV)"),
    "programs cut to nothing": (".bc", cut_to(0), "device_error"),
    "programs cut in half": (".bc", cut_to(0.5), "signal 6 (ABRT)"),
    "programs of text": (".bc", lambda path: path.write_text("damaged"), "signal 6 (ABRT)"),
}
# One for each way in which a start fails; each fills the cache anew, for six seconds.
SHORT = ("machine code of zeros", "programs cut to nothing", "programs cut in half")


@pytest.mark.parametrize("ending, how, reason", [
    pytest.param(*case, id=name, marks=() if name in SHORT else pytest.mark.long)
    for name, case in DAMAGE.items()])
def test_a_damaged_cache_is_emptied_and_the_start_made_again(pocl_run, ending, how, reason):
    pocl_run.damage(ending, how)
    files = len(pocl_run.files(""))
    done = pocl_run.run.go(expect=0)
    assert all(x["error"] is None for x in pocl_run.run.results().values())
    assert "is started again" not in done.stderr, "the run must see a single start"
    (line,) = pocl_run.emptied()
    assert f"driver_cache={pocl_run.folder} " in line
    assert int(re.search(r"files=(\d+)", line).group(1)) >= files  # the failed start adds some
    assert f'failed_start="{reason}' in line or f"failed_start={reason}" in line
    assert pocl_run.files(".so"), "the cache must be in use again"
    assert not list(pocl_run.folder.parent.glob("pocl.damaged*"))
    pocl_run.run.go("--restart", expect=0)
    assert not pocl_run.emptied()


@pytest.mark.parametrize("ending", [".so", ".bc"])
def test_missing_files_are_no_damage(pocl_run, ending):
    pocl_run.damage(ending, lambda path: path.unlink())
    pocl_run.run.go(expect=0)
    assert not pocl_run.emptied()


def test_a_start_that_fails_on_another_driver_keeps_the_cache(pocl_run):
    control = pocl_run.run.folder / "fault"
    pocl_run.run.env.update(
        LD_PRELOAD=str(BIN.parent / "tests" / "libfailing_device.so"), FAILING_DEVICE=str(control),
        FAILING_DEVICE_PLATFORM="Another", ASAN_OPTIONS="verify_asan_link_order=0")
    files = pocl_run.files("")
    control.write_text("fails 1\n")
    done = pocl_run.run.go(expect=3)
    assert not control.exists(), "no launch failed"
    assert not pocl_run.emptied() and set(pocl_run.files("")) >= set(files)
    assert "device_error" in done.stderr and "delete" not in done.stderr
    del pocl_run.run.env["FAILING_DEVICE_PLATFORM"]  # on PoCL the same fault empties it
    control.write_text("fails 1\n")
    pocl_run.run.go(expect=0)
    assert len(pocl_run.emptied()) == 1


def test_a_start_that_fails_again_is_an_error(pocl_run):
    pocl_run.damage(".so", cut_to(0))
    pocl_run.run.env["PATH"] = "/nowhere"  # PoCL finds no linker, and aborts
    done = pocl_run.run.go(expect=3)
    assert len(pocl_run.emptied()) == 1
    assert "engine_failed" in done.stderr and "before it could take work" in done.stderr
    assert "the start before this one failed as well" in done.stderr
    assert f"delete {pocl_run.folder}, then update the driver" in done.stderr
    del pocl_run.run.env["PATH"]
    pocl_run.run.go(expect=0)


def test_a_folder_that_the_user_has_chosen_is_only_named(pocl_run, filled_cache):
    chosen = pocl_run.run.folder / "chosen"
    pocl_run.folder.rename(chosen)
    pocl_run.folder = chosen
    pocl_run.run.env["POCL_CACHE_DIR"] = str(chosen)
    pocl_run.damage(".so", lambda path: path.write_text("damaged"))
    done = pocl_run.run.go(expect=3)
    assert "engine_failed" in done.stderr and "before it could take work" in done.stderr
    assert f"delete {chosen}: it is the cache of the OpenCL driver PoCL" in done.stderr
    assert all(x.read_text() == "damaged" for x in pocl_run.files(".so"))
    shutil.rmtree(chosen)
    shutil.copytree(filled_cache, chosen)
    pocl_run.damage(".bc", cut_to(0))
    done = pocl_run.run.go(expect=3)
    assert "device_error" in done.stderr and f"delete {chosen}" in done.stderr
    shutil.rmtree(chosen)
    shutil.copytree(filled_cache, chosen)
    pocl_run.run.go(expect=0)
    assert all(x["error"] is None for x in pocl_run.run.results().values())


def start_after(pocl_run, call, folder_id):
    """Starts an engine without a model, and tells it that the previous start failed."""
    done = call("millrace-engine", "--model", pocl_run.run.folder / "none.gguf",
                XDG_CACHE_HOME=str(pocl_run.run.folder / "cache"),
                MILLRACE_FAILED_START=f"{folder_id} signal 6 (ABRT)")
    assert done.returncode == 3 and "gguf_unreadable" in done.stderr
    return done.stderr


def test_only_one_of_several_failed_starts_empties_the_cache(pocl_run, call):
    before = pocl_run.folder.stat().st_ino
    assert EMPTIED in start_after(pocl_run, call, before)
    (pocl_run.folder / "of-the-first").write_text("compiled since")
    said = start_after(pocl_run, call, before)
    assert EMPTIED not in said and "another process emptied the OpenCL driver's cache" in said
    assert (pocl_run.folder / "of-the-first").exists()


@pytest.mark.parametrize("words", [("fidelity", "--kv", "f16", "--context", "64"), ("calibrate",)])
def test_commands_that_load_a_model_recover_as_well(pocl_run, call, tmp_path, words):
    text = tmp_path / "text"
    text.write_text("hello world " * 60)
    cache = str(pocl_run.run.folder / "cache")
    command, *options = words

    def go():
        done = call("millrace", command, "--model", pocl_run.run.model, "--text", text, *options,
                    XDG_CACHE_HOME=cache)
        assert done.returncode == 0, done.stderr
        return done

    whole = go()
    assert "fault" not in whole.stderr
    pocl_run.damage(".so", cut_to(0))
    again = go()
    assert "millrace: a fault ended this process: signal 6 (ABRT)" in again.stderr
    assert f"it starts again, with {pocl_run.folder}" in again.stderr
    assert again.stdout == whole.stdout


def test_without_its_cache_folder_the_driver_keeps_its_own(real_run, tmp_path, monkeypatch):
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "millrace").write_text("no folder")
    real_run.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    real_run.write(LINES)
    real_run.go(expect=0)
    assert "the OpenCL driver's cache stays where the driver puts it" in log_of(real_run)


def test_a_cache_that_cannot_be_written_is_named(real_run, tmp_path, monkeypatch):
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("no folder")
    real_run.env["XDG_CACHE_HOME"] = str(tmp_path / "file")
    real_run.write(LINES)
    done = real_run.go(expect=3)
    assert "no_device" in done.stderr
    assert f"{tmp_path}/file is not a folder" in done.stderr and "XDG_CACHE_HOME" in done.stderr
