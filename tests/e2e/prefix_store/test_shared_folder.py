"""Engines that share a folder of prefixes: each is a process that another run has started."""
import concurrent.futures

import pytest

from fleet import BEGINNING, run


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return run(tmp_path_factory.mktemp("without") / "run", "--prefix-cache", "off")


def test_one_computes_and_the_others_read(tmp_path, without):
    folder = tmp_path / "fleet"
    folder.mkdir()
    place = ("--prefix-cache", f"shared:{folder}")
    first = run(tmp_path / "first", *place)
    assert first.choices == without.choices
    assert min(first.cached) == 0, "somebody has to compute it"
    files = sorted(folder.iterdir())
    assert files and all(x.name.endswith(".kv") for x in files)
    assert all(x.stat().st_mode & 0o777 == 0o600 for x in files)

    second = run(tmp_path / "second", *place)
    assert second.choices == without.choices
    assert min(second.cached) > len(BEGINNING) // 10, second.cached
    assert "prefixes are shared in a store" in second.log
    assert "warn" not in second.log, second.log

    for path in files:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    third = run(tmp_path / "third", *place)
    assert third.choices == without.choices
    assert min(third.cached) == 0
    assert "a prefix segment cannot be used and is removed" in third.log, third.log
    assert "the checksum of a page is wrong" in third.log, third.log


def test_two_at_once_keep_the_bound(tmp_path, without):
    """Engines that run together, and have room for less than their jobs begin with."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    limit = 2_000_000
    place = ("--prefix-cache", f"shared:{folder}", "--prefix-disk", str(limit))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda name: run(tmp_path / name, *place), ("one", "other")))
    for ran in both:
        assert ran.choices == without.choices
        assert "cannot be" not in ran.log, ran.log
    assert 0 < sum(x.stat().st_size for x in folder.iterdir()) <= limit


def test_a_folder_that_is_missing_stops_nobody(tmp_path, without):
    ran = run(tmp_path / "run", "--prefix-cache", f"shared:{tmp_path}/absent")
    assert ran.choices == without.choices
    assert "the prefix store cannot be used" in ran.log, ran.log
    assert "make this folder, or mount the file system" in ran.log, ran.log
    assert not (tmp_path / "absent").exists()
