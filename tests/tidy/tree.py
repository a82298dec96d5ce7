"""A folder of sources as the tidy tests read it: files, comments, targets of citations."""
import ast
import fnmatch
import functools
import io
import pathlib
import posixpath
import re
import shutil
import subprocess
import tokenize

BINARY = (".png", ".msgpack", ".gguf", ".safetensors", ".bin", ".npy")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
SLASHES = re.compile(r"//(.*)")
HASH = re.compile(r"(?:^|\s)#(?!!)(.*)")
FENCED = re.compile(r"^```.*?^```", re.M | re.S)


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = sorted(p.relative_to(self.root).as_posix()
                            for p in self.root.rglob("*") if p.is_file())
        self.folders = {str(f) for name in self.files
                        for f in pathlib.PurePosixPath(name).parents if str(f) != "."}

    @functools.cache
    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def named(self, *suffixes):
        return [n for n in self.files if n.endswith(suffixes)]

    def texts(self):
        """Returns (name, text) of every text file."""
        return [(n, self.text(n)) for n in self.files if not n.endswith(BINARY)]

    def resolve(self, cited, folder):
        """Returns the files and folders that a citation in a file of `folder` can mean: by the path
        from the root or from that folder, or by the end of a path; `*` matches any characters."""
        cited = cited.rstrip("/")
        here = posixpath.normpath(posixpath.join(folder, cited))
        return [n for n in [*self.files, *self.folders]
                if n == here or fnmatch.fnmatch(n, cited) or fnmatch.fnmatch(n, "*/" + cited)]

    @functools.cache
    def comments(self, name):
        """Returns (line number, text) of each line of comment."""
        text = self.text(name)
        if name.endswith((".cpp", ".hpp", ".cl")):
            return _matches(SLASHES, STRING.sub('""', text))
        if name.endswith(".py") or text.startswith("#!/usr/bin/env python"):
            return _python_comments(text)
        if name.endswith((".cmake", ".sh", "CMakeLists.txt")) or text.startswith("#!"):
            return _matches(HASH, text)
        return []

    @functools.cache
    def code(self, name):
        """Returns a C++ or OpenCL C file without its comments."""
        return "\n".join(SLASHES.sub("", STRING.sub(lambda m: m[0].replace("//", "/ /"), line))
                         for line in self.text(name).split("\n"))

    @functools.cache
    def quoted(self, name):
        """Returns (line number, text) of each text between back quotes in a Markdown file, without
        fenced blocks."""
        text = FENCED.sub(lambda m: "\n" * m[0].count("\n"), self.text(name))
        return [(text.count("\n", 0, m.start()) + 1, m[1]) for m in re.finditer(r"`([^`]+)`", text)]


def copied(root, target):
    """Copies the tracked files of a checkout, edits included, to `target`."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True,
                           text=True).stdout.split("\0")
    for name in names:
        if not name or not (root / name).exists():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)
    return Tree(target)


def planted(target, files):
    """Writes a tree of the files {name: text}."""
    for name, text in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")
    return Tree(target)


def folder_of(name):
    return posixpath.dirname(name)


def _matches(pattern, text):
    return [(number, m[1]) for number, line in enumerate(text.split("\n"), 1)
            if (m := pattern.search(line))]


def _python_comments(text):
    out = [(token.start[0], token.string[1:])
           for token in tokenize.generate_tokens(io.StringIO(text).readline)
           if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (
                doc := ast.get_docstring(node, clean=False)):
            first = node.body[0].lineno
            out += [(first + i, line) for i, line in enumerate(doc.split("\n"))]
    return out
