"""Adds up the reports of ctest, GoogleTest and pytest and prints one line: N passed, N failed.

A C++ test program that died before writing its report counts as one failure. Exits 1 if anything
failed or nothing ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def suite_counts(path):
    """(tests, failed) of one JUnit file, skipped ones left out."""
    root = ElementTree.parse(path).getroot()
    cases = list(root.iter("testcase"))
    failed = sum(c.find("failure") is not None or c.find("error") is not None for c in cases)
    skipped = sum(c.find("skipped") is not None or c.get("status") == "notrun" for c in cases)
    return len(cases) - skipped, failed


def main():
    reports = pathlib.Path(sys.argv[1])
    total = failed = programs_failed = 0
    for path in sorted((reports / "gtest").glob("*.xml")):
        n, bad = suite_counts(path)
        total, failed = total + n, failed + bad
    gtest_failed = failed
    ctest = reports / "ctest.xml"
    if ctest.exists():
        _, programs_failed = suite_counts(ctest)
        written = {p.stem for p in (reports / "gtest").glob("*.xml")}
        for case in ElementTree.parse(ctest).getroot().iter("testcase"):
            # Not a GoogleTest program, or one that died: it counts by itself.
            if case.get("name") not in written and case.get("status") != "notrun":
                total += 1
                failed += case.find("failure") is not None
    if programs_failed and not failed and not gtest_failed:
        failed += programs_failed  # a program that failed after its last test, e.g. on exit
        total += programs_failed
    pytest = reports / "pytest.xml"
    if pytest.exists():
        n, bad = suite_counts(pytest)
        total, failed = total + n, failed + bad
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
