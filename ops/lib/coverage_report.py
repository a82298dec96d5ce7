"""Tells which share of the lines of each part the tests ran, and where it is smallest.

    coverage_report.py SUMMARY REPORT

SUMMARY is what `gcovr --json-summary` wrote. The program prints a line for each part and for each
file below the mark, and writes REPORT in the form of pytest's, one test for each part, so that
count_tests.py counts them. It exits with 1 if a part is below the mark.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

MARK = 95.0  # per cent of lines
PARTS = {
    "broker": ("broker/",),
    "schemas": ("schemas/",),
    "client library": ("client/link/", "client/lines/", "client/run/"),
}


def share(files):
    """The lines that ran and all lines of these files, and the first as a percentage with one
    decimal, rounded down, so that what is printed as the mark has reached it."""
    ran = sum(file["line_covered"] for file in files)
    lines = sum(file["line_total"] for file in files)
    return ran, lines, 1000 * ran // lines / 10 if lines else 0.0


def main():
    summary, report = map(pathlib.Path, sys.argv[1:])
    files = json.loads(summary.read_text())["files"]
    suite = ElementTree.Element("testsuite", name="coverage")
    below = False
    for part, folders in PARTS.items():
        own = [file for file in files if file["filename"].startswith(folders)]
        ran, lines, percent = share(own)
        text = f"{part}: {percent:.1f} % of {lines} lines"
        print(text)
        for file in sorted(own, key=lambda file: file["line_covered"] - file["line_total"]):
            if share([file])[2] < MARK:
                print(f"    {file['filename']}: {file['line_total'] - file['line_covered']} "
                      f"of {file['line_total']} lines did not run")
        case = ElementTree.SubElement(suite, "testcase", classname="coverage", name=part)
        if percent < MARK:
            below = True
            why = f"{text}, and {MARK:.0f} % are required"
            ElementTree.SubElement(case, "failure", message=why)
    ElementTree.ElementTree(suite).write(report)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
