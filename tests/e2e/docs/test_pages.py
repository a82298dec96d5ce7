"""The commands of the documentation run as printed, in order, and print what the pages show.

`pages.py` says how a block is marked that cannot run here. The tests of packages run some of those.
"""
import collections
import re
import subprocess
import sys

import pytest
from page_run import PageRun
from pages import MARKS, NOT_RUN, PAGES, ROOT, blocks_of, looks_like, text_of

# How many blocks of each page are not run; a new one has to be counted here.
LEFT_OUT = {
    "README.md": {"long": 1, "network": 1},
    "client/python/README.md": {"network": 1},
    "docs/operations.md": {"gpu": 1, "network": 2, "root": 2},
    "docs/performance.md": {"long": 2},
    "ops/INSTALL.md": {"long": 2, "network": 1, "root": 6},
}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_printed(page, tmp_path):
    run = PageRun(tmp_path, page)
    if not run.blocks:
        pytest.skip("has no commands that run here")
    run.run()
    wrong = [f"{page}:{block.line} prints\n{run.printed(number)}"
             for number, block in enumerate(run.blocks) if block.prints is not None
             and not looks_like(run.moved(block.prints)).fullmatch(run.printed(number).strip())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES)
def test_each_block_that_is_left_out_is_counted(page):
    marks = collections.Counter(block.mark for block in blocks_of(text_of(page))
                                if block.mark in NOT_RUN)
    assert marks == LEFT_OUT.get(page, {})


@pytest.mark.parametrize("page", PAGES)
def test_each_block_says_what_it_is(page):
    """A block without a word would slip out of these tests."""
    nameless = [block.line for block in blocks_of(text_of(page)) if not block.language]
    assert not nameless, f"{page}: lines {nameless}"


@pytest.mark.parametrize("page", PAGES)
def test_the_shell_can_read_each_block(page):
    for block in blocks_of(text_of(page)):
        if block.language == "sh":
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True)
            assert done.returncode == 0, f"{page}:{block.line}: {done.stderr}"


def test_the_pictures_are_those_of_the_figures():
    subprocess.run([sys.executable, ROOT / "docs" / "draw_plots.py", "--check"], check=True)


def test_output_is_compared_loosely():
    shown = looks_like("3 jobs ... in 1.5 s\n  done\n")
    assert shown.fullmatch("17 jobs, of which\n2 failed, in 20 s\ndone")
    assert not shown.fullmatch("17 jobs, of which\n2 failed, in 20 s\nleft")
    assert not looks_like("a, 1 b").fullmatch("a. 1 b")


def test_blocks_are_found():
    text = "```sh exit=2\nfalse\n```\n\n```text\nno\n```\n\n```python\n1\n```\nx\n```text\n2\n```\n"
    first, second, third = blocks_of(text)
    assert (first.status, first.mark, first.prints, first.line) == (2, "", "no\n", 1)
    assert (second.language, second.prints, third.language) == ("python", None, "text")
    assert all(mark in MARKS for mark in NOT_RUN)
    with pytest.raises(AssertionError):
        blocks_of("```sh rot\nfalse\n```\n")
    assert re.fullmatch(r"\d+", str(first.line))
