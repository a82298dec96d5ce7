"""PoCL's own cache, where it cannot be written or is damaged: its folder is named and no line
fails."""
import shutil

import pytest

from programs import completion

LINES = [completion("a", "b"), completion("c", "d")]


@pytest.fixture(scope="module")
def filled_cache(tmp_path_factory, real_run_in):
    """What a start with an empty cache leaves in it; tests of another driver have no use for it."""
    tmp_path = tmp_path_factory.mktemp("first")
    first = real_run_in(tmp_path)
    first.write(LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("POCL_CACHE_DIR", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        first.go(expect=0)
    assert all(x["error"] is None for x in first.results().values())
    if not list((tmp_path / "cache").rglob("pocl/**/*.so")):
        pytest.skip("the device's driver is not PoCL, whose cache this damages")
    return tmp_path / "cache"


@pytest.fixture
def pocl_run(real_run, tmp_path, monkeypatch, filled_cache):
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(filled_cache, tmp_path / "cache")
    real_run.write(LINES)
    return real_run


@pytest.mark.parametrize("damaged", ["*.so", "*.bc"])
def test_a_damaged_cache_is_a_failed_start_that_names_it(pocl_run, tmp_path, filled_cache,
                                                             damaged):
    folder = tmp_path / "cache" / "pocl" / "kcache"
    for path in folder.rglob("*.so"):
        if damaged == "*.so":
            path.write_text("damaged")
        else:
            path.unlink()
    for path in folder.rglob("*.bc"):
        if damaged == "*.bc":
            path.write_text("damaged")
    done = pocl_run.go(expect=3)
    assert "engine_failed" in done.stderr and "before it could take work" in done.stderr
    assert "driver_cache" in done.stderr and str(folder) in done.stderr
    if damaged == "*.bc":
        return
    assert f"delete {folder}" in done.stderr  # the engine itself had the last word
    # That it helps to delete it is the fixture's start without one; no line is lost over it.
    shutil.rmtree(folder)
    shutil.copytree(filled_cache / "pocl" / "kcache", folder)
    pocl_run.go(expect=0)
    assert all(x["error"] is None for x in pocl_run.results().values())


def test_a_cache_that_cannot_be_written_is_named(real_run, tmp_path, monkeypatch):
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("no folder")
    real_run.env["XDG_CACHE_HOME"] = str(tmp_path / "file")
    real_run.write(LINES)
    done = real_run.go(expect=3)
    assert "no_device" in done.stderr
    assert f"{tmp_path}/file is not a folder" in done.stderr and "XDG_CACHE_HOME" in done.stderr
