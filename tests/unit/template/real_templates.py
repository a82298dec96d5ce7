"""The chat templates of real models, from the sdist of PyPI `llama-cpp-python`, and the reference
that renders them: PyPI `jinja2`, set up as transformers does."""
import datetime
import fcntl
import functools
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
SDIST = "llama-cpp-python==0.3.36"
FOLDER = "vendor/llama.cpp/models/templates/"
COUNT = 70


@functools.cache
def templates():
    """Returns the source of each template by its name. pip downloads the sdist by name (its build
    backend only states the metadata and compiles nothing); of its 77 MB only the templates are
    kept."""
    folder = CACHE / "millrace/templates" / SDIST.replace("==", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if len(list(folder.glob("*.jinja"))) < COUNT:
            _fetch(folder)
    found = {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.jinja"))}
    assert len(found) == COUNT, f"{SDIST} holds {len(found)} templates"
    return found


def _fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        result = subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
             "-d", temporary, SDIST], capture_output=True, text=True)
        assert result.returncode == 0, \
            f"pip could not download {SDIST}: {result.stderr[-2000:]}"
        archive = next(pathlib.Path(temporary).glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            for member in tar:
                if FOLDER in member.name and member.name.endswith(".jinja"):
                    name = pathlib.PurePosixPath(member.name).name
                    (folder / name).write_bytes(tar.extractfile(member).read())


class Generation(jinja2.ext.Extension):
    """transformers' tag around what a model is trained on; it only renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment(now_s):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(now_s, datetime.timezone.utc).strftime(format)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


if __name__ == "__main__":  # downloads ahead of the tests, while the processor is busy otherwise
    templates()
