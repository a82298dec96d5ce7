"""Checks the statements of READMEs and headers about users and includes.

    Used by `a`, `b`.          each includes something of this folder, or this header
    Used by `a` alone.         and no other part does, except tests and benchmarks
    May include `a` and `b`.   the sources of this folder include nothing else of ours

Names are folders or files between back quotes, relative to the root, the folder or its parent.
"""
import pathlib
import posixpath
import re

import pytest

from tree import copied, folder_of, planted

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
USED_BY = re.compile(r"\bUsed by\b|\bused by:? (?=`)")
MAY_INCLUDE = re.compile(r"\bMay include\b|\bmay include:? (?=`)")
SENTENCE_END = re.compile(r"[.;](?=\s|$)|\n\n|$")
APART = ("tests/", "bench/")


def paragraphs(tree, name):
    if name.endswith(".md"):
        return tree.text(name)
    return "\n".join(text.strip() for _, text in tree.comments(name))


def statements(tree, pattern, *suffixes):
    """Returns (file, rest of sentence, names in it) for sentences that begin with the pattern."""
    for name in tree.named(*suffixes):
        text = paragraphs(tree, name)
        for found in pattern.finditer(text):
            rest = re.sub(r"`[^`]*`", lambda m: m[0].replace(".", "\0"), text[found.end():])
            rest = re.sub(r"\([^)]*\)", "", rest)
            rest = rest[:SENTENCE_END.search(rest).start()].replace("\0", ".")
            yield name, rest, re.findall(r"`([^`]+)`", rest)


def place(tree, named, folder):
    """Returns the file or folder that a name means, or None."""
    named = named.rstrip("/")
    for at in (named, posixpath.join(folder_of(folder), named), posixpath.join(folder, named)):
        if at in tree.files or at in tree.folders:
            return at
    return None


def within(name, places):
    return any(name == p or name.startswith(p + "/") for p in places)


def sources(tree):
    return tree.named(".cpp", ".hpp")


def includes(tree, name):
    return OURS.findall(tree.text(name))


def takers(tree, owner):
    """Returns sources that use a header or a kernel's source, or from outside a folder's files."""
    if owner.endswith(".hpp"):
        its_source = owner.removesuffix(".hpp") + ".cpp"
        return {n for n in sources(tree) if n != its_source and owner in includes(tree, n)}
    if owner.endswith(".cl"):
        program_part = '"' + owner.removeprefix("kernels/") + '"'
        return {n for n in sources(tree) if program_part in tree.text(n)}
    return {n for n in sources(tree) if not within(n, [owner])
            and any(within(x, [owner]) for x in includes(tree, n))}


def untrue_users(tree):
    found = []
    for name, rest, named in statements(tree, USED_BY, ".md", ".hpp", ".cl"):
        users = {n: place(tree, n, folder_of(name)) for n in named}
        using = takers(tree, folder_of(name) if name.endswith(".md") else name)
        if not named:
            found.append(f"{name}: \"Used by{rest}\" names nobody between back quotes")
        found += [f"{name}: {user} does not use it" for user, at in users.items()
                  if at is None or not any(within(n, [at]) for n in using)]
        if re.search(r"\b(alone|only)\b", rest):
            found += [f"{name}: {n} uses it, too" for n in sorted(using)
                      if not within(n, filter(None, users.values())) and not n.startswith(APART)]
    return found


def untrue_includes(tree):
    found = []
    for name, rest, named in statements(tree, MAY_INCLUDE, ".md"):
        folder = folder_of(name)
        allowed = {n: place(tree, n, folder) for n in named}
        if not named:
            found.append(f"{name}: \"May include{rest}\" names nothing between back quotes")
        found += [f"{name}: there is no {n}" for n, at in allowed.items() if at is None]
        found += [f"{name}: {source} includes {target}" for source in sources(tree)
                  if within(source, [folder]) for target in includes(tree, source)
                  if not within(target, [folder, *filter(None, allowed.values())])]
    return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return copied(ROOT, tmp_path_factory.mktemp("clone"))


def test_statements_about_users_are_true(clone):
    assert len(list(statements(clone, USED_BY, ".md", ".hpp"))) >= 5
    assert not (found := untrue_users(clone)), "\n".join(found)


def test_folders_include_what_their_readme_says(clone):
    assert len(list(statements(clone, MAY_INCLUDE, ".md"))) >= 10
    assert not (found := untrue_includes(clone)), "\n".join(found)


SMALL = {"a/b/x.hpp": "", "a/b/x.cpp": '#include "a/b/x.hpp"\n#include "base/y.hpp"\n',
         "base/y.hpp": "", "a/c/z.cpp": '#include "a/b/x.hpp"\n', "kernels/k/m.cl": "",
         "a/c/w.cpp": 'auto part = "k/m.cl";\n', "tests/t.cpp": '#include "a/b/x.hpp"\n'}


@pytest.mark.parametrize("name, text, offence", [
    ("a/b/README.md", "Used by `base`.", "base does not use it"),
    ("a/b/README.md", "Used by `c` and\n`nobody.cpp`.", "nobody.cpp does not use it"),
    ("a/b/README.md", "Used by the engine.", "names nobody"),
    ("base/README.md", "Used by `a/c` alone.", "a/c does not use it"),
    ("a/b/x.hpp", "// Used by `a/b/x.cpp` alone.", "a/c/z.cpp uses it, too"),
    ("a/b/x.hpp", "// X; used by `y.hpp`.", "y.hpp does not use it"),
    ("kernels/k/m.cl", "// Used by `a/c/z.cpp`.", "a/c/z.cpp does not use it"),
    ("a/b/README.md", "May include `c`.", "a/b/x.cpp includes base/y.hpp"),
    ("a/b/README.md", "May include `base` and `none`.", "there is no none"),
    ("a/b/README.md", "May include the base.", "names nothing"),
])
def test_an_untrue_statement_is_seen(tmp_path, name, text, offence):
    tree = planted(tmp_path, {**SMALL, name: text + "\n"})
    found = untrue_users(tree) + untrue_includes(tree)
    assert any(offence in x for x in found), found


def test_true_statements_pass(tmp_path):
    tree = planted(tmp_path, {
        **SMALL, "a/b/README.md": "May include: `base`. Used by `c/z.cpp` only; more follows.\n",
        "kernels/k/m.cl": "// Used by `a/c`.\n", "base/README.md": "It is used by anybody.\n"})
    assert untrue_users(tree) + untrue_includes(tree) == []
