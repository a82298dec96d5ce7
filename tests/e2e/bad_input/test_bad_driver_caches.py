"""PoCL's own cache, where it cannot be written or is damaged: its folder is named and no line
fails."""
import pytest

from programs import completion

LINES = [completion("a", "b"), completion("c", "d")]


@pytest.fixture
def pocl_run(real_run, tmp_path, monkeypatch):
    """With caches of its own; tests of another driver have no use for it."""
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real_run.write(LINES)
    real_run.go(expect=0)
    if not list((tmp_path / "cache").rglob("pocl/**/*.so")):
        pytest.skip("the device's driver is not PoCL")
    return real_run


@pytest.mark.parametrize("damaged", ["*.so", "*.bc"])
def test_a_damaged_cache_is_a_failed_start_that_names_it(pocl_run, tmp_path, damaged):
    folder = tmp_path / "cache" / "pocl" / "kcache"
    for path in folder.rglob("*.so"):
        if damaged == "*.so":
            path.write_text("damaged")
        else:
            path.unlink()
    for path in folder.rglob("*.bc"):
        if damaged == "*.bc":
            path.write_text("damaged")
    done = pocl_run.go("--restart", expect=3)
    assert "engine_failed" in done.stderr and "before it could take work" in done.stderr
    assert "driver_cache" in done.stderr and str(folder) in done.stderr
    if damaged == "*.bc":
        return
    assert f"delete {folder}" in done.stderr  # the engine itself had the last word
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
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
