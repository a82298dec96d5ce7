"""Tests the machine's page, the history and the raw runs of `bench/compare --save`."""
import json
import re
import subprocess
import sys

import pytest

from made import ROOT
from lib import checks, report, results, run, sections
from lib.run import Failed

HERE = {"processor": "Fast CPU (R) 9", "cores": 2, "features": ["avx2"], "memory_gib": 16,
        "commit": "abc1234", "date": "2026-11-23"}


def section(measure, text, *headlines):
    return report.Section(measure, [text], list(headlines))


@pytest.fixture
def folders(tmp_path, monkeypatch):
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setattr(results, "PAGES", pages)
    monkeypatch.setattr(results, "RAW", tmp_path / "raw")
    return pages


def save(*found, everything=None, here=HERE, drawn=None, fastest=0.0):
    return results.save(here, "bench/compare --only x", list(found), everything or {},
                        drawn or (lambda stem: None), fastest)


def test_a_page_has_the_newest_section_of_each_measure_in_order(folders):
    save(section("prefix", "figures A"), section("submits", "figures B"))
    page, _ = save(section("prefix", "figures C"), section("speed", "figures D"),
                   here={**HERE, "commit": "def5678"})
    assert page == folders / "fast-cpu-r-9-2-cores.md"
    text = page.read_text()
    assert text.startswith("# Fast CPU (R) 9, 2 cores\n")
    assert [title for title in sections.TITLES.values() if f"## {title}" in text] == \
        re.findall("^## (.*)$", text, re.MULTILINE)
    assert "figures A" not in text
    assert "`bench/compare --only x` at commit def5678, 2026-11-23." in text
    assert text.index("figures D") < text.index("figures C") < text.index("figures B")
    assert sections.WHY["submits"] in text and "abc1234" in text


def test_a_part_of_the_rows_of_the_queue_keeps_the_others(folders):
    def queue(*rows):
        table = report.table(("what", "ours", "beside", "holds"), rows)
        return report.Section("queue", [table], is_part=True)
    save(queue(("submits", 1, "2 times: RabbitMQ 1", "yes"), ("work", 2, "3 times: River 1", "NO")))
    page, _ = save(queue(("work", 4, "5 times: River 1", "yes")),
                   here={**HERE, "commit": "def5678"})
    assert [line for line in page.read_text().splitlines() if line.startswith("| ")][1:] == [
        "| submits | 1 | 2 times: RabbitMQ 1 | yes; at commit abc1234, 2026-11-23 |",
        "| work | 4 | 5 times: River 1 | yes |"]


def rows(*named):
    made = [{"what": f"{name}: mean KLD", "ours": ours, "required": "<= 1", "holds": True}
            for name, ours in named]
    return report.check_section("families", made, [], is_part=True)


def test_a_part_of_a_measure_keeps_the_other_rows_and_says_when_they_were_measured(folders):
    save(rows(("a, Q8_0", 1), ("a, Q4_0", 2), ("b, Q8_0", 3)), section("kv", "4"))
    failed = report.check_section("families", checks.failed("families", "no torch"), [], True)
    save(failed, here={**HERE, "commit": "0bad"})
    save(rows(("a, Q4_0", 5), ("c, Q8_0", 6)), here={**HERE, "commit": "def5678"})
    page, _ = save(rows(("b, Q8_0", 7)), here={**HERE, "commit": "4242424"})
    lines = results.split(page.read_text())[1][sections.TITLES["families"]].splitlines()
    first = "; at commit abc1234, 2026-11-23", "; at commit def5678, 2026-11-23"
    assert [line for line in lines if line.startswith("| ")][1:] == [
        f"| a, Q8_0: mean KLD | 1 | - | - | <= 1 | yes{first[0]} |",
        f"| a, Q4_0: mean KLD | 5 | - | - | <= 1 | yes{first[1]} |",
        "| b, Q8_0: mean KLD | 7 | - | - | <= 1 | yes |",
        f"| c, Q8_0: mean KLD | 6 | - | - | <= 1 | yes{first[1]} |"]
    assert "`bench/compare --only x` at commit 4242424, 2026-11-23." in lines
    assert page.read_text().rstrip().endswith(sections.WHY["families"])
    save(report.check_section("families", [{"what": "d", "ours": 1, "required": "-",
                                            "holds": None}], []))
    assert page.read_text().count("\n| ") == 2  # a whole measure replaces its section


def test_what_people_wrote_on_a_page_stays(folders):
    page, _ = save(section("speed", "1"))
    page.write_text(page.read_text().replace("16 GiB", "A note. 16 GiB") + "\n## Other\n\nMore.\n")
    save(section("speed", "2"), section("kv", "3"))
    text = page.read_text()
    assert "A note." in text and text.rstrip().endswith("## Other\n\nMore.")


def test_a_page_records_the_fastest_memory_seen_and_the_next_run_knows_it(folders):
    assert results.recorded_memory(HERE) == 0
    page, _ = save(section("speed", "1"))
    assert results.MEMORY not in page.read_text() and results.recorded_memory(HERE) == 0
    for fastest, known in ((38.26, 38.3), (31.0, 38.3), (45.0, 45.0)):
        save(section("kv", "2"), here={**HERE, "commit": f"c{fastest}"}, fastest=fastest)
        assert results.recorded_memory(HERE) == known
    head, found = results.split(page.read_text())
    assert head.endswith(
        "\n\nThe fastest memory seen: 45.0 GB/s, at commit c45.0, 2026-11-23.\n\n")
    assert len(found) == 2 and page.read_text().count(results.MEMORY) == 1
    assert head.startswith(results.page_head(HERE))


def test_a_page_whose_memory_has_no_number_is_refused(folders):
    page, _ = save(section("speed", "1"), fastest=40.0)
    page.write_text(page.read_text().replace("40.0 GB/s", "fast"))
    with pytest.raises(Failed, match="cores.md: 'The fastest memory seen: fast, .* delete the "):
        results.recorded_memory(HERE)


def test_the_history_has_a_line_a_run_the_newest_first(folders):
    save(section("speed", "1", "prompt 3.10 and 1.20"), section("kv", "2", "k4v3 2.26 times f16"))
    save(section("submits", "3"))
    lines = (folders / "HISTORY.md").read_text().removeprefix(results.HISTORY_HEAD).splitlines()
    assert lines == [
        "| 2026-11-23 | abc1234 | Fast CPU (R) 9, 2 cores | `bench/compare --only x` | - |",
        "| 2026-11-23 | abc1234 | Fast CPU (R) 9, 2 cores | `bench/compare --only x` | "
        "prompt 3.10 and 1.20; k4v3 2.26 times f16 |"]
    (folders / "HISTORY.md").write_text("something else")
    with pytest.raises(Failed, match="HISTORY.md does not begin with"):
        save(section("submits", "3"))


def test_raw_runs_are_kept_apart_and_none_is_written_over(folders):
    drawn = []
    _, first = save(section("speed", "1"), everything={"speeds": [report.Section("kv", [])]},
                    drawn=lambda stem: drawn.append(stem.name))
    _, second = save(section("speed", "1"))
    assert (first.name, second.name) == ("2026-11-23-abc1234-speed.json",
                                         "2026-11-23-abc1234-speed-2.json")
    assert drawn == ["2026-11-23-abc1234-speed"]
    assert json.loads(first.read_text())["speeds"][0]["measure"] == "kv"


def test_raw_runs_land_where_git_does_not_look():
    ignored = (ROOT / ".gitignore").read_text().split()
    assert "/build/" in ignored and results.BIN.parent / "results" == results.RAW


def test_pages_name_a_command_that_can_be_typed():
    words = ["/somewhere/bench/compare", "--only", "kv", "--save", "--rounds", "5"]
    assert results.command(words) == "bench/compare --only kv --rounds 5"


@pytest.mark.parametrize("words, said", [
    (["--quick", "--save"], "its figures are not saved: omit --quick or --save"),
    (["--only", "speed,nothing"], "--only knows speed, profile,"),
    (["--rounds", "0"], "at least 1"),
    (["--families", "qwen3"], "measures: give that, too")])
def test_a_command_that_makes_no_sense_is_refused(words, said):
    done = subprocess.run([sys.executable, ROOT / "bench/compare", *words], capture_output=True,
                          text=True)
    assert done.returncode == 2 and said in done.stderr


def test_every_measure_has_a_title_and_a_sentence_of_what_limits_it():
    assert set(sections.TITLES) == set(sections.WHY) == {
        "speed", "profile", "queue", *checks.CHECKS}
    assert len(set(sections.TITLES.values())) == len(sections.TITLES)


def test_the_pages_that_stand_have_known_sections_and_no_raw_runs():
    folder = ROOT / "bench/results"
    assert {path.suffix for path in folder.iterdir()} == {".md"}
    assert (folder / "HISTORY.md").read_text().startswith(results.HISTORY_HEAD)
    for page in folder.glob("*-cores.md"):
        head, found = results.split(page.read_text())
        assert results.file_name(head.split("\n")[0]) == page.name
        assert found and results.merged(page.read_text(), {}) == page.read_text()


def test_pages_of_results_make_no_commit_dirty(tmp_path, monkeypatch):
    """--save writes them, and the next run counts as the same commit."""
    def git(*words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path,
                       check=True, capture_output=True)
    page, code = tmp_path / "bench/results/M.md", tmp_path / "code"
    page.parent.mkdir(parents=True)
    git("init")
    for path in (page, code):
        path.write_text("1")
    git("add", ".")
    git("commit", "-m", "x")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    clean = run.commit()
    page.write_text("2")
    (tmp_path / "untracked").write_text("2")
    assert run.commit() == clean and re.fullmatch("[0-9a-f]{7,}", clean)
    code.write_text("2")
    assert run.commit() == clean + "-dirty"
