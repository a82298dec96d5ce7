#!/usr/bin/env python3
"""Makes the tables of the package from the schemas, so that no field is written down twice.

    client/python/tools/generate.py           writes them
    client/python/tools/generate.py --check   fails and names the files that differ

Written are src/millrace/_job.py (the fields of a job), _results.py (what results consist of),
_states.py (what the answers to questions consist of), _codes.py (an exception for each code) and
_advice.py (what to do about each).
"""
import keyword
import pathlib
import sys
import textwrap

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "src" / "millrace"
SCHEMAS = PACKAGE.parents[3] / "schemas" / "tools"
sys.path.insert(0, str(SCHEMAS))
from generate import SCHEMAS as schemas  # noqa: E402
from generate import error_table, meaning  # noqa: E402

NOTE = "\n\nMade by client/python/tools/generate.py from the schemas: change those.\n"
# The classes of _results.py and _states.py for the maps of the schemas.
RESULTS = {
    "job_counts": "JobCounts", "listed_logprobs": "ListedLogprobs",
    "token_logprobs": "TokenLogprobs", "choice": "Choice", "usage": "Usage",
    "engine_times": "EngineTimes", "effective_settings": "EffectiveSettings",
    "generation_result": "Generation", "partial": "Partial", "result.json": "ResultFields",
}
STATES = {
    "suggested_sampling": "SuggestedSampling", "engine_info": "EngineInfo",
    "tenant_queue": "TenantQueue",
    "keep_limits": "KeepLimits", "stream_state": "StreamState", "cursor_state": "CursorState",
    "job_info": "JobInfo", "batch_state": "BatchState", "status_answer.json": "Status",
    "welcome.json": "Welcome",
}
RECORDS = {**RESULTS, **STATES}
# What these classes do beyond their fields is written by hand, in _record.py.
BASES = {"TokenLogprobs": "LogprobRows", "ListedLogprobs": "ListedRows"}
PLAIN = {"boolean": "bool", "string": "str", "integer": "int", "number": "float",
         "array": "List[Any]", "object": "Dict[str, Any]", "null": "None"}


def target_of(schema):
    return schema.get("$ref", "").rpartition("/")[2] or schema.get("$ref", "")


def quoted(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def type_of(schema, file):
    """The Python type of a schema's values in a job."""
    schema, file = schemas.follow(schema, file)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(x, file) for x in schema["anyOf"]))
    if "const" in schema:
        return f"Literal[{quoted(schema['const'])}]"
    if "enum" in schema:
        return "Literal[" + ", ".join(quoted(word) for word in schema["enum"]) + "]"
    kind = schema.get("x-msgpack", "")
    if kind == "bin":
        return "bytes"
    if kind:
        return "float" if kind.startswith("float") else "int"
    if schema.get("type") == "array":
        return f"Sequence[{type_of(schema.get('items', {}), file)}]"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        value = type_of(schema["additionalProperties"], file)
        return f"Mapping[{'int | str' if value == 'float' else 'str'}, {value}]"
    if schema.get("type") == "object":
        return "Mapping[str, Any]"
    return PLAIN.get(schema.get("type"), "Any")


def comment(text, indent="    "):
    return textwrap.wrap(text, 98, initial_indent=indent + "# ",
                         subsequent_indent=indent + "# ", break_on_hyphens=False)


def job_module():
    lines = [f'"""The fields of a job.{NOTE}"""', "from __future__ import annotations", "",
             "from typing import Any, Literal, Mapping, Sequence, TypedDict", "", "",
             "class Job(TypedDict, total=False):",
             '    """What is asked for; each field that is left out has its default."""', ""]
    for name, field in schemas.files["job.json"]["properties"].items():
        if field.get("x-neutral-only"):
            continue
        assert not keyword.iskeyword(name), name
        lines += comment(meaning(field))
        start = f"    {name}: "
        words = type_of(field, "job.json").split(" | ")
        one = start + " | ".join(words)
        if len(one) <= 98:
            lines.append(one)
        else:
            lines += [start + "(", *textwrap.wrap(" | ".join(words), 88, initial_indent=" " * 8,
                                                  subsequent_indent=" " * 8), "    )"]
    return lines


def optional(python, there):
    return python if there else f"Optional[{python}]"


def read_as(schema, file, required):
    """How a record reads a field: its Python type, its default, and what converts it."""
    name = target_of(schema)
    if name == "error":
        return "Optional[MillraceError]", "None", "error_of"
    if name in RECORDS:
        return optional(RECORDS[name], required), "None", RECORDS[name]
    if name in ("token_ids", "logprobs"):
        found = "None" if "default" not in schema else 'b""'
        return "Any", found, "ids" if name == "token_ids" else "floats"
    followed, file = schemas.follow(schema, file)
    if followed.get("type") == "array" and target_of(followed["items"]) in RECORDS:
        item = RECORDS[target_of(followed["items"])]
        return f"List[{item}]", "()", f"[{item}]"
    kind = followed.get("x-msgpack", "")
    default = schema.get("default")
    if kind and isinstance(default, str):
        default = int(default)
    if kind:
        plain = "float" if kind.startswith("float") else "int"
    else:
        plain = PLAIN.get(followed.get("type"), "Any")
    if isinstance(default, (list, dict)):
        return plain, "()" if isinstance(default, list) else "{}", plain.split("[")[0].lower()
    return optional(plain, required or default is not None), quoted(default), "None"


def record_class(name, schema, file):
    base = BASES.get(name, "Record")
    lines = ["", "", f"class {name}({base}):"]
    if "description" in schema:
        lines += textwrap.wrap(f'"""{schema["description"]}"""', 96, initial_indent="    ",
                               subsequent_indent="    ")
        lines.append("")
    table = []
    for field, inner in schema["properties"].items():
        python, default, convert = read_as(inner, file, field in schema.get("required", ()))
        lines.append(f"    {field}: {python}")
        table.append(f'        "{field}": ({default}, {convert}),')
    return [*lines, "    _FIELDS = {", *table, "    }"]


def records_module(what, classes, imports):
    lines = [f'"""{what}{NOTE}"""', "from typing import Any, Dict, List, Optional", "", *imports]
    common = schemas.files["common.json"]["$defs"]
    for part, name in classes.items():
        file = part if part.endswith(".json") else "common.json"
        lines += record_class(name, schemas.files[part] if file == part else common[part], file)
    return lines


def results_module():
    names = ", ".join(sorted(["Record", *BASES.values(), "floats", "ids"]))
    return records_module("What a result consists of.", RESULTS,
                          ["from ._error import MillraceError, error_of",
                           f"from ._record import {names}"])


def states_module():
    return records_module("What the answers to questions consist of.", STATES,
                          ["from ._error import MillraceError, error_of",
                           "from ._record import Record", "from ._results import JobCounts"])


def class_of(code):
    name = "".join(part.capitalize() for part in code.split("_"))
    return name if name.endswith("Error") else name + "Error"


def codes_module():
    lines = [f'"""An exception for each error code.{NOTE}"""',
             "from typing import Dict, Type", "", "from ._error import MillraceError"]
    rows = error_table()
    for code, status, text, _ in rows:
        lines += ["", "", f"class {class_of(code)}(MillraceError):",
                  f'    """{text[0].upper() + text[1:]}."""',
                  f'    code, status = "{code}", {status}']
    return [*lines, "", "", "EXCEPTIONS: Dict[str, Type[MillraceError]] = {",
            "    one.code: one for one in MillraceError.__subclasses__()", "}"]


def advice_module():
    what = "What to do about each error code, where the one who raises it does not say it better."
    lines = [f'"""{what}{NOTE}"""', "from typing import Dict", "", "ADVICE: Dict[str, str] = {"]
    for code, _, _, advice in error_table():
        start = f'    "{code}": '
        if len(start) + len(advice) + 3 <= 98:
            lines.append(f'{start}"{advice}",')
        else:
            lines += [f"{start}(", f'        "{advice}"),']
    return [*lines, "}"]


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    different = []
    for name, make in (("_job.py", job_module), ("_results.py", results_module),
                       ("_states.py", states_module), ("_codes.py", codes_module),
                       ("_advice.py", advice_module)):
        content = "\n".join(make()) + "\n"
        path = PACKAGE / name
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        different.append(name)
        if not check:
            path.write_text(content, encoding="utf-8")
    if check and different:
        sys.exit("out of date, run client/python/tools/generate.py: " + " ".join(different))


if __name__ == "__main__":
    main()
