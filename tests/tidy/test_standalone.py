"""Checks that the checkout stands alone and cites only what exists.

The tests copy the tracked files, edits included, to an empty folder. No path in them may lead out
of it, and each file and identifier that a comment or a README names must exist. After each check
follow tests that plant an offence in a small tree and see that the check finds it.
"""
import pathlib
import posixpath
import re

import pytest

from tree import copied, folder_of, planted

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = "tests/tidy/test_standalone.py"  # holds offences as texts


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return copied(ROOT, tmp_path_factory.mktemp("clone"))


# ---- paths that lead out of the checkout

OUTSIDE = [
    (re.compile(r"(?<![\w.~$}/-])/(?:work|home|root|Users|mnt|media|srv|workspace)(?![\w-])"),
     "a path of one machine"),
    (re.compile(r"(?<![\w/.-])(?:shared|notes|prototypes)/\w"), "a folder beside the checkout"),
    (re.compile(r"\bseed 00\d\b|\[(?:engine|queue|performance|kv-fidelity|peers) [A-Z\d]"),
     "a note that is not in the checkout"),
]
# A path with `..` in it, perhaps after a variable for the root.
UPWARDS = re.compile(
    r"(?P<root>\$root|\$\{root\}|\$\{(?:CMAKE|PROJECT)_SOURCE_DIR\}|MILLRACE_SOURCE_DIR \")?/?"
    r"(?P<path>(?<![\w.])(?:[\w.-]+/)*\.\.(?:/[\w.*-]+)*(?![\w.]))")
PARENTS = re.compile(r"__file__\)?(?:\.resolve\(\))?(?:\.parents\[(\d+)\]|((?:\.parent)+))")


def climbs(name, line):
    """Returns whether a path of this line leads above the root."""
    for found in UPWARDS.finditer(line):
        start = "" if found["root"] else folder_of(name)
        if posixpath.normpath(posixpath.join(start, found["path"])).startswith(".."):
            return True
    for found in PARENTS.finditer(line):
        ups = int(found[1]) + 1 if found[1] else found[2].count(".parent")
        if ups > name.count("/") + 1:
            return True
    return False


def ways_out(tree):
    found = []
    for name, text in tree.texts():
        if name == OWN:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            found += [f"{name}:{number}: {what}: {m[0]}" for pattern, what in OUTSIDE
                      for m in [pattern.search(line)] if m]
            if ".." in line or "__file__" in line:
                found += [f"{name}:{number}: leads above the root"] * climbs(name, line)
    return found


def test_nothing_leads_out(clone):
    assert len(clone.files) > 500
    assert not (found := ways_out(clone)), "\n".join(found)


@pytest.mark.parametrize("name, text", [
    ("a/x.py", "open('/home/me/data')"), ("a/x.sh", "ls /srv/results"),
    ("README.md", "`/root/model.gguf`"), ("a/x.hpp", "// as notes/queue.md has it"),
    ("a/x.cpp", "// [engine 3.4]"), ("a/README.md", "see shared/list.md"),
    ("a/x.sh", ". \"$(dirname \"${BASH_SOURCE[0]}\")/../../lib.sh\""),
    ("a/README.md", "[up](../../b.md)"), ("x.md", "[up](../b.md)"),
    ("a/CMakeLists.txt", "set(x ${CMAKE_SOURCE_DIR}/../x.cpp)"), ("a/x.sh", "cp $root/../x ."),
    ("a/x.cpp", "open(MILLRACE_SOURCE_DIR \"/../x\")"), ("a/b/x.py", "x = '../../../data'"),
    ("a/x.py", "R = pathlib.Path(__file__).resolve().parents[2]"),
    ("a/x.py", "R = pathlib.Path(__file__).parent.parent.parent"),
])
def test_a_way_out_is_seen(tmp_path, name, text):
    assert len(ways_out(planted(tmp_path, {name: f"first\n{text}\n"}))) == 1


def test_what_stays_inside_is_no_way_out(tmp_path):
    assert ways_out(planted(tmp_path, {
        "a/b/x.py": "R = pathlib.Path(__file__).resolve().parents[2]\nQ = '../../c'\n",
        "a/x.sh": ". \"$(dirname \"${BASH_SOURCE[0]}\")/../lib.sh\"\nfor i in 1..3\n",
        "x.md": "engine/worker, /etc/OpenCL, [a](a/../b.md), \"A sentence ends ...\"\n"})) == []


# ---- the design page of the first parts, which is not in the checkout

def design_citations(tree):
    return [f"{name}:{number}" for name, text in tree.texts() if name != OWN
            for number, line in enumerate(text.split("\n"), 1) if re.search(r"\bDESIGN\b", line)]


def test_no_page_outside_is_cited(clone):
    assert not (found := design_citations(clone)), "\n".join(found)


def test_a_citation_of_the_design_is_seen(tmp_path):
    tree = planted(tmp_path, {"a.hpp": "// first\n// (DESIGN section 6)\n", "b.md": "A design.\n"})
    assert design_citations(tree) == ["a.hpp:2"]


# ---- files that are cited

SOURCE = r"(?:cpp|hpp|h|cl|py|cmake|sh|md|jinja)"
CITED = re.compile(rf"(?<![\w./<>{{}}$*-])((?:[\w*.-]+/)*[\w*-][\w*.-]*\.{SOURCE})\b(?![\w/])")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
PLACEHOLDER = re.compile(r"(?:.*/)?[A-Z]+\.\w+$")  # NAME.cpp
FOREIGN = {"llama.cpp", "ik_llama.cpp", "ggml-common.h"}  # projects, and a file of theirs
INCLUDED = re.compile(r'^\s*#\s*include\s+<([^>]+)>', re.M)
PROGRAM = re.compile(r"\b(?:millrace_(?:program|test)|add_executable|add_library)\(([\w-]+)")


def foreign_headers(tree):
    return {h for n in tree.named(".cpp", ".hpp") for h in INCLUDED.findall(tree.text(n))}


def file_citations(tree):
    """Returns (name, line, cited path) of comments and Markdown."""
    for name, _ in tree.texts():
        if name.endswith(".md"):
            lines = tree.quoted(name)
        else:
            lines = tree.comments(name)
        for number, line in lines:
            for cited in CITED.findall(line):
                yield name, number, cited


def cited_folders(tree):
    """Returns paths between back quotes that begin with a folder of the tree, except build/."""
    tops = {f.split("/")[0] for f in tree.folders}
    for name in tree.named(".md"):
        near = {f.rpartition("/")[2] for f in tree.folders if folder_of(f) == folder_of(name)}
        for number, text in tree.quoted(name):
            for word in re.findall(r"(?<!\S)([\w.-]+(?:/[\w.*-]*)+)(?![^\s,;:])", text):
                if word.split("/")[0] in tops | near:
                    yield name, number, word


def missing_files(tree):
    foreign, found = foreign_headers(tree) | FOREIGN, []
    for name, number, cited in [*file_citations(tree), *cited_folders(tree)]:
        if cited in foreign or PLACEHOLDER.match(cited):
            continue
        if not tree.resolve(cited, folder_of(name)):
            found.append(f"{name}:{number}: there is no {cited}")
    for name in tree.named(".md"):
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            for link in LINK.findall(line):
                here = posixpath.normpath(posixpath.join(folder_of(name), link))
                if "://" not in link and here not in {*tree.files, *tree.folders}:
                    found.append(f"{name}:{number}: the link leads nowhere: {link}")
    return found


def missing_programs(tree):
    """Returns programs of build/bin and build/tests that a README names and nothing builds."""
    built = {p for n in tree.named("CMakeLists.txt", ".cmake")
             for p in PROGRAM.findall(tree.text(n))}
    return [f"{name}:{number}: nothing builds {program}"
            for name in tree.named(".md") if not name.startswith("bench/results/")
            for number, line in enumerate(tree.text(name).split("\n"), 1)
            for program in re.findall(r"\bbuild/(?:bin|tests)/([\w-]+)", line)
            if program not in built]


def test_cited_files_exist(clone):
    assert len(list(file_citations(clone))) > 500
    assert not (found := missing_files(clone) + missing_programs(clone)), "\n".join(found)


@pytest.mark.parametrize("files, found", [
    ({"a/x.cpp": "int i;  // as in job_codec.cpp\n"}, "job_codec.cpp"),
    ({"a/x.cl": "// See matmul/none.cl.\n"}, "matmul/none.cl"),
    ({"a/x.py": '"""Runs\nnobody.py first."""\n'}, "nobody.py"),
    ({"a/x.py": "# see nobody.py\n"}, "nobody.py"),
    ({"x.cmake": "# Like gone.cmake.\n"}, "gone.cmake"),
    ({"a/README.md": "`gone.*`, `b.cpp`\n", "b.py": ""}, "b.cpp"),
    ({"a/README.md": "`a/parts/`\n"}, "a/parts/"),
    ({"a/README.md": "[text](b.md)\n"}, "b.md"),
    ({"a/README.md": "`build/bin/none --help`\n"}, "none"),
    ({"a/README.md": "```\nbuild/bin/none\n```\n"}, "none"),
])
def test_a_missing_file_is_seen(tmp_path, files, found):
    tree = planted(tmp_path, files)
    problems = missing_files(tree) + missing_programs(tree)
    assert len(problems) == 1 and problems[0].endswith(found), problems


def test_files_that_exist_are_found(tmp_path):
    tree = planted(tmp_path, {
        "a/b/one.hpp": "// one.cpp, b/one.cpp, *.cpp, NAME.cpp and CLI/CLI.hpp; see llama.cpp.\n",
        "a/b/one.cpp": "#include <CLI/CLI.hpp>\nauto text = \"// none.cpp\";\n",
        "a/README.md": "`one.cpp`, `b/one.*`, `a/b/`, [b](b/), `build/bin/tool -x`, `q8/r4`\n",
        "CMakeLists.txt": "millrace_program(tool a/b/one.cpp)\n"})
    assert missing_files(tree) + missing_programs(tree) == []


# ---- identifiers that are cited

OF_KERNELS = re.compile(r"\b(?:mr_|MR_|Mr(?=[A-Z]))\w+|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
IDENTIFIER = re.compile(r"(?<![\w./-])[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)(?![\w/-]|\.\w)")
NOT_OURS = {"POCL_AFFINITY": "a variable of PoCL", "sched_yield": "a call of Linux"}


def words_of_code(tree):
    text = "\n".join(tree.code(n) if n.endswith((".cpp", ".hpp", ".h", ".cl")) else t
                     for n, t in tree.texts()
                     if not n.endswith((".md", ".json", ".jsonl")) and n != OWN)
    # Names composed of pieces, name##_K or name + "_K", are known by their ends.
    ends = set(re.findall(r'(?:##|")(_\w+)', text))
    return set(re.findall(r"\w+", text)), ends


def missing_identifiers(tree):
    words, ends = words_of_code(tree)

    def known(word):
        plain = re.sub(r"_\d+$", "", word)  # such as mr_pairs_576, which exists for each size
        return word in words or plain in words or word in NOT_OURS or any(
            word.endswith(end) and word.removesuffix(end) in words for end in ends)

    cited = [(name, number, word) for name in tree.named(".cl", ".h")
             for number, line in tree.comments(name) for word in OF_KERNELS.findall(line)]
    cited += [(name, number, word) for name in tree.named(".md")
              if not name.startswith("bench/results/")
              for number, text in tree.quoted(name) if "..." not in text
              for word in IDENTIFIER.findall(text) if not re.search(r"[a-z]_[A-Z]+$", word)]
    return [f"{name}:{number}: nothing is called {word}" for name, number, word in cited
            if not known(word)]


def test_cited_identifiers_exist(clone):
    assert not (found := missing_identifiers(clone)), "\n".join(found)


def test_a_missing_identifier_is_seen(tmp_path):
    tree = planted(tmp_path, {
        "kernels/a.cl": "// mr_sum_zero, mr_pairs_576, K_ROWS, V_ROWS, MrGone\n"
                        "float mr_pairs(float x);  // OUT_SIZE\nint V_ROWS, OUT;\n"
                        "#define X name##_SIZE\n",
        "README.md": "`old_name`, `OldName::x`, `mr_pairs(x)`, `mr_a.cl`, `lib_FOLDER`\n"})
    assert [x.rpartition(" ")[2] for x in missing_identifiers(tree)] == [
        "mr_sum_zero", "K_ROWS", "MrGone", "old_name", "OldName"]
