"""Each code of schemas/base/error_codes.hpp is raised by the product and expected by a test."""
import pathlib
import re

from test_tidy import ROOT, relative, tracked

TABLE = "schemas/base/error_codes.hpp"
PRODUCT = ("schemas/", "broker/", "engine/", "client/")
COMPARED = re.compile(r"[!=]=\s*Code::\w+|\bcase Code::\w+")
# A code that a test's own helper returns does not count as expected.
RETURNED = re.compile(r"\breturn\b[^;]*?;", re.S)


def codes(table):
    found = re.findall(r"^  X\((\w+), \d{3}, ", table, re.M)
    assert len(found) == table.count("\n  X("), "an entry of the table is not understood"
    return found


def never_raised(table, sources):
    text = "\n".join(COMPARED.sub("", x) for x in sources)
    return [c for c in codes(table) if not re.search(rf"\bCode::{c}\b", text)]


def never_expected(table, cpp_tests, python_tests):
    cpp = "\n".join(RETURNED.sub("", x) for x in cpp_tests)
    python = "\n".join(python_tests)
    return [c for c in codes(table)
            if not re.search(rf"\bCode::{c}\b", cpp)
            and not re.search(rf"""["']{c}(["']|: )""", python)]


def texts(suffixes, folders):
    return [p.read_text(encoding="utf-8") for p in tracked(*suffixes)
            if relative(p).startswith(folders) and relative(p) != TABLE
            and p != pathlib.Path(__file__).resolve()]


def test_each_code_is_raised():
    table = (ROOT / TABLE).read_text(encoding="utf-8")
    assert len(codes(table)) > 40
    assert never_raised(table, texts((".cpp", ".hpp"), PRODUCT)) == []


def test_each_code_is_expected_by_a_test():
    table = (ROOT / TABLE).read_text(encoding="utf-8")
    missing = never_expected(table, texts((".cpp", ".hpp"), ("tests/",)),
                             texts((".py",), ("tests/",)))
    assert missing == [], f"no test provokes {missing}"


def test_a_code_without_use_or_test_is_seen():
    table = ('#define CODES(X) \\\n  X(raised, 400, "a") \\\n  X(compared, 400, "b") \\\n'
             '  X(quoted, 400, "c")\n')
    assert codes(table) == ["raised", "compared", "quoted"]
    product = ["return fail(Code::raised, text);\nif (code == Code::compared) {\n"
               "case Code::compared:\n", "{Code::quoted, text}"]
    assert never_raised(table, product) == ["compared"]
    cpp = ["EXPECT_EQ(error.code, Code::raised);\nreturn file ? Code::compared :\n  other;"]
    assert never_expected(table, cpp, ['{"quoted_too": 1}']) == ["compared", "quoted"]
    assert never_expected(table, cpp, ["code == 'quoted'", 'match="compared: why"']) == []
