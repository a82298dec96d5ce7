"""Adds up the reports of ctest, GoogleTest and pytest. The last line that it prints is
"N passed, N failed, N skipped".

    count_tests.py FOLDER...

A FOLDER holds ctest.xml, gtest/NAME.xml for each ctest entry NAME that runs a GoogleTest program,
and pytest.xml; a part that did not run has no report. An entry without a report of its own counts
as one test, and so does a program that fails after its last test or dies before it writes its
report.

A skip needs a reason that names what is missing. The program prints each reason with its count, and
counts a skip without a reason as a failure. It does not count disabled and deselected tests. It
exits with 1 if anything failed or nothing ran.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# The reasons that pytest writes if a test gives none, or if its list of parameters is empty.
NO_REASON = re.compile("|Skipped|unconditional skip|got empty parameter set.*")
PLACE = re.compile(r"\S+:\d+\n")  # GoogleTest puts file and line before the reason


def has_failed(case):
    return case.find("failure") is not None or case.find("error") is not None


def skip_reason(case):
    """The reason of a skipped test; None if the test gives none."""
    reason = " ".join(PLACE.sub("", case.find("skipped").get("message", ""), count=1).split())
    return None if NO_REASON.fullmatch(reason) else reason


class Totals:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = collections.Counter()  # by reason

    def add(self, name, case):
        """Adds one test, given as an element of a report."""
        if has_failed(case):
            self.failures.append(name)
        elif case.find("skipped") is None:
            self.passed += 1
        elif reason := skip_reason(case):
            self.skips[reason] += 1
        else:
            self.failures.append(f"{name} is skipped without a reason that names what is missing")

    def add_file(self, path):
        """Adds a report of GoogleTest or pytest. Returns how many tests ran and how many failed."""
        cases = {}
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            # A test that passes and whose cleanup then fails has two elements.
            if case.get("status") != "notrun" and (name not in cases or has_failed(case)):
                cases[name] = case
        for name, case in cases.items():
            self.add(name, case)
        return len(cases), sum(map(has_failed, cases.values()))

    def add_entry(self, case, report):
        """Adds one entry of ctest; `report` is the path of the entry's own report."""
        name, status = case.get("name"), case.get("status")
        if status == "disabled":
            return
        if status == "notrun":  # no such program, or a fixture failed
            why = case.find("skipped")
            self.failures.append(f"{name} did not run: {'' if why is None else why.get('message')}")
        elif not report.exists():
            self.add(name, case)
        else:
            ran, failed = self.add_file(report)
            if not ran:
                self.failures.append(f"{name} ran no test: its filter matches none")
            elif has_failed(case) and not failed:
                self.failures.append(f"{name} failed outside its tests")

    def add_folder(self, folder):
        ctest, pytest = folder / "ctest.xml", folder / "pytest.xml"
        if not ctest.exists() and not pytest.exists():
            self.failures.append(f"{folder} has neither ctest.xml nor pytest.xml")
        if ctest.exists():
            for case in ElementTree.parse(ctest).getroot().iter("testcase"):
                self.add_entry(case, folder / "gtest" / f"{case.get('name')}.xml")
        if pytest.exists():
            self.add_file(pytest)


def main():
    totals = Totals()
    for folder in sys.argv[1:]:
        totals.add_folder(pathlib.Path(folder))
    for failure in totals.failures:
        print(f"failed: {failure}")
    for reason, count in sorted(totals.skips.items()):
        print(f"skipped {count}: {reason}")
    failed, skipped = len(totals.failures), totals.skips.total()
    print(f"{totals.passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
