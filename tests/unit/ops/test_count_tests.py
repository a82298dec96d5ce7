"""Tests ops/lib/count_tests.py, the last lines of ops/test, with reports in the forms that ctest,
GoogleTest and pytest write."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

PASSED = '<testcase classname="A" name="{}" status="run" result="completed"/>'
FAILED = '<testcase classname="A" name="{}" status="run"><failure message="x"/></testcase>'
SKIPPED = ('<testcase classname="A" name="{}" status="run" result="skipped">'
           '<skipped message="{}"/></testcase>')
DISABLED = '<testcase classname="A" name="DISABLED_X" status="notrun" result="suppressed"/>'
BROKEN_SETUP = '<testcase classname="A" name="{}"><error message="failed on setup"/></testcase>'


def report(path, *cases):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def entry(name, status="run", inside=""):
    return f'<testcase name="{name}" classname="{name}" status="{status}">{inside}</testcase>'


def count(*folders):
    done = subprocess.run([sys.executable, ROOT / "ops/lib/count_tests.py", *folders],
                          capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_tests_of_all_three_add_up(tmp_path):
    report(tmp_path / "ctest.xml", entry("a_test"), entry("gguf_corpus"), entry("off", "disabled"))
    report(tmp_path / "gtest/a_test.xml", PASSED.format("One"), PASSED.format("Two"), DISABLED)
    report(tmp_path / "pytest.xml", PASSED.format("test_x"))
    assert count(tmp_path) == (0, ["4 passed, 0 failed, 0 skipped"])


def test_each_reason_is_printed_once_with_its_count(tmp_path):
    reason = "/a/b_test.cpp:12&#x0A;this machine has no AVX-512 VNNI"
    report(tmp_path / "ctest.xml", entry("a_test"))
    report(tmp_path / "gtest/a_test.xml", PASSED.format("One"), SKIPPED.format("Two", reason),
           SKIPPED.format("Three", reason.replace(":12", ":17")))
    report(tmp_path / "pytest.xml", SKIPPED.format("test_x", "the device&#x0A;is no GPU"))
    assert count(tmp_path) == (0, ["skipped 1: the device is no GPU",
                                   "skipped 2: this machine has no AVX-512 VNNI",
                                   "1 passed, 0 failed, 3 skipped"])


@pytest.mark.parametrize("message", ["", "Skipped", "unconditional skip", "/a/b_test.cpp:12&#x0A;",
                                     "got empty parameter set for (x)"])
def test_a_skip_without_a_reason_is_a_failure(tmp_path, message):
    report(tmp_path / "pytest.xml", PASSED.format("One"), SKIPPED.format("Two", message))
    assert count(tmp_path) == (1, [
        "failed: A.Two is skipped without a reason that names what is missing",
        "1 passed, 1 failed, 0 skipped"])


def test_an_expected_failure_needs_a_reason_too(tmp_path):
    report(tmp_path / "pytest.xml", PASSED.format("One"),
           '<testcase classname="A" name="Two"><skipped type="pytest.xfail" message=""/>'
           '</testcase>')
    assert count(tmp_path)[1][-1] == "1 passed, 1 failed, 0 skipped"


def test_failures_and_broken_setups_count(tmp_path):
    report(tmp_path / "pytest.xml", PASSED.format("One"), FAILED.format("Two"),
           BROKEN_SETUP.format("Three"), PASSED.format("Four"), BROKEN_SETUP.format("Four"))
    assert count(tmp_path) == (1, ["failed: A.Two", "failed: A.Three", "failed: A.Four",
                                   "1 passed, 3 failed, 0 skipped"])


@pytest.mark.parametrize("folder, what", [
    ("fails", "a_test failed outside its tests"),
    ("dies", "a_test"),
    ("absent", "a_test did not run: Unable to find executable"),
    ("stale", "a_test ran no test: its filter matches none"),
])
def test_a_program_fails_where_its_tests_do_not(tmp_path, folder, what):
    inside, status, cases = '<failure message=""/>', "fail", [PASSED.format("One")]
    if folder == "absent":
        inside, status = '<skipped message="Unable to find executable"/>', "notrun"
    if folder == "stale":
        inside, status, cases = "", "run", [DISABLED]
    report(tmp_path / "ctest.xml", entry("a_test", status, inside), entry("other"))
    if folder in ("fails", "stale"):
        report(tmp_path / "gtest/a_test.xml", *cases)
    passed = 2 if folder == "fails" else 1
    assert count(tmp_path) == (1, [f"failed: {what}", f"{passed} passed, 1 failed, 0 skipped"])


def test_a_program_whose_test_fails_counts_once(tmp_path):
    report(tmp_path / "ctest.xml", entry("a_test", "fail", '<failure message=""/>'))
    report(tmp_path / "gtest/a_test.xml", PASSED.format("One"), FAILED.format("Two"))
    assert count(tmp_path) == (1, ["failed: A.Two", "1 passed, 1 failed, 0 skipped"])


def test_folders_add_up_and_one_without_a_report_is_a_failure(tmp_path):
    report(tmp_path / "a/pytest.xml", PASSED.format("One"))
    report(tmp_path / "b/pytest.xml", PASSED.format("One"))
    assert count(tmp_path / "a", tmp_path / "b") == (0, ["2 passed, 0 failed, 0 skipped"])
    assert count(tmp_path / "a", tmp_path / "c") == (
        1, [f"failed: {tmp_path}/c has neither ctest.xml nor pytest.xml",
            "1 passed, 1 failed, 0 skipped"])


def test_nothing_run_is_no_success(tmp_path):
    report(tmp_path / "pytest.xml")
    assert count(tmp_path) == (1, ["0 passed, 0 failed, 0 skipped"])
