"""The chat templates of real models, from the sdist of PyPI `llama-cpp-python`, and the reference
that renders them: PyPI `jinja2`, set up as transformers does."""
import datetime
import functools
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import llama_cpp_sdist  # noqa: E402

FOLDER = "vendor/llama.cpp/models/templates/"
COUNT = 70


@functools.cache
def templates():
    """Returns the source of each template by its name."""
    folder = llama_cpp_sdist.folder_with(
        "templates", lambda path: FOLDER in str(path) and path.suffix == ".jinja",
        lambda folder: len(list(folder.glob("*.jinja"))) >= COUNT)
    found = {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.jinja"))}
    assert len(found) == COUNT, f"{llama_cpp_sdist.NAME} holds {len(found)} templates"
    return found


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
