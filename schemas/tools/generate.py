#!/usr/bin/env python3
"""Makes vectors/*.msgpack, docs/messages.md and the project's docs/job-reference.md from the
schemas and the JSON vectors.

    schemas/tools/generate.py           writes them
    schemas/tools/generate.py --check   fails and names the files that differ

Needs the Python package msgpack. This program packs the bytes itself instead of using the C++
codec, so that the two check each other.
"""

import base64
import json
import pathlib
import re
import struct
import sys

import msgpack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import job_reference  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent.parent
PARTS_NEVER_ALONE = ("common", "envelope")


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


class Schemas:
    """All schema files, with references followed."""

    def __init__(self):
        self.files = {p.name: load(p) for p in sorted((FOLDER / "json").glob("*.json"))}

    def follow(self, schema, file):
        """A schema without `$ref`, and the file that its own references are relative to."""
        while "$ref" in schema:
            target, _, pointer = schema["$ref"].partition("#")
            file = target or file
            schema = self.files[file]
            for name in filter(None, pointer.split("/")):
                schema = schema[name]
        return schema, file

    def of_vector(self, name):
        """The schema file of the vector with this name."""
        for kind in ("job", "result"):
            if name.startswith(kind + "-"):
                return kind + ".json"
        return "envelope.json"


def fits(value, schema):
    """Whether a value belongs to this branch of an anyOf, by its JSON type."""
    if "const" in schema:
        return value == schema["const"]
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {
        "string": str, "boolean": bool, "array": list, "object": dict, "null": type(None),
        "integer": int, "number": (int, float),
    }
    kind = schema.get("type")
    if kind is None:
        return True
    if isinstance(value, bool) and kind != "boolean":
        return False
    if not isinstance(value, kinds[kind]):
        return False
    if kind == "array" and value and "items" in schema:
        return fits(value[0], SCHEMAS.follow(schema["items"], "common.json")[0])
    return True


def pack(value, schema, file):
    """Packs a JSON value as the msgpack that its schema describes."""
    schema, file = SCHEMAS.follow(schema, file)
    if "anyOf" in schema:
        branches = [SCHEMAS.follow(b, file) for b in schema["anyOf"]]
        schema, file = next((s, f) for s, f in branches if fits(value, s))
        return pack(value, schema, file)
    kind = schema.get("x-msgpack")
    if kind in ("uint64", "int64"):
        return msgpack.packb(int(value))
    if kind == "bin":
        return msgpack.packb(base64.b64decode(value, validate=True))
    if kind == "float32":
        return b"\xca" + struct.pack(">f", value)
    if kind == "float64":
        return b"\xcb" + struct.pack(">d", value)
    packer = msgpack.Packer()
    if isinstance(value, dict):
        out = packer.pack_map_header(len(value))
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            if file == "envelope.json" and key == "body":
                inner = {"$ref": value["kind"] + ".json"}
            out += packer.pack(key) + pack(item, inner, file)
        return out
    if isinstance(value, list):
        out = packer.pack_array_header(len(value))
        if "prefixItems" in schema:
            pairs = zip(value, schema["prefixItems"], strict=True)
            return out + b"".join(pack(item, inner, file) for item, inner in pairs)
        return out + b"".join(pack(item, schema.get("items", {}), file) for item in value)
    return packer.pack(value)


def type_name(schema, file):
    """The name of a type in the tables of the documentation."""
    if "$ref" in schema:
        target, _, pointer = schema["$ref"].partition("#")
        schema, _ = SCHEMAS.follow(schema, file)
        name = pointer.rsplit("/", 1)[-1] if pointer else target.removesuffix(".json")
        if schema.get("type") == "object":
            return f"map [{name}](#{name})" if name != "strings_by_name" else "map of strings"
        if "enum" in schema:
            return " / ".join(f"`{word}`" for word in schema["enum"])
        if "x-holds" in schema:
            return "bin of " + schema["x-holds"].split()[0]
        return schema.get("x-msgpack", "string")
    if "anyOf" in schema:
        names = [type_name(b, file) for b in schema["anyOf"] if b.get("type") != "null"]
        return " or ".join(dict.fromkeys(names))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " / ".join(f"`{word}`" for word in schema["enum"])
    if "x-holds" in schema:
        return "bin of " + schema["x-holds"].split()[0]
    if "x-msgpack" in schema:
        return schema["x-msgpack"]
    if "prefixItems" in schema:
        return "[" + ", ".join(type_name(item, file) for item in schema["prefixItems"]) + "]"
    if schema.get("type") == "array":
        item = type_name(schema["items"], file)
        return "array of " + ("maps" if item == "map" else item)
    return {"boolean": "bool", "object": "map"}.get(schema.get("type"), schema.get("type", "any"))


def meaning(prop):
    limits = prop.get("x-limits")
    return prop["description"] + (f" ({limits})" if limits else "")


def default_of(schema, name, file="job.json"):
    prop = schema["properties"][name]
    if name in schema.get("required", []):
        return "**required**"
    if "default" not in prop:
        return "absent"
    shown = json.dumps(prop["default"])
    if "int64" in type_name(prop, file):
        shown = shown.strip('"')
    return "empty" if shown == '""' else f"`{shown}`"


def table(schema, file):
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, prop in schema["properties"].items():
        if prop.get("x-neutral-only"):
            continue
        lines.append(f"| `{name}` | {type_name(prop, file)} | {default_of(schema, name, file)} | "
                     f"{meaning(prop)} |")
    return lines


def example(name, value):
    return ["", f"Example, `vectors/{name}.json`:", "", "```json",
            json.dumps(value, indent=1, ensure_ascii=False), "```"]


def documentation(vectors):
    lines = ["# Messages, jobs and results, field by field", "",
             "`schemas/tools/generate.py` makes this page from `schemas/json` and "
             "`schemas/vectors`.",
             "JSON stands for msgpack here: 64-bit integers are strings, `bin` is base64.", ""]
    kinds = SCHEMAS.files["envelope.json"]["properties"]["kind"]["enum"]
    for kind in ["envelope", "job", "result", *kinds]:
        schema = SCHEMAS.files[kind + ".json"]
        lines += [f"## {kind}", ""]
        if "x-direction" in schema:
            lines += [f"*{schema['x-direction']}*", ""]
        lines += [schema["description"], ""]
        lines += table(schema, kind + ".json") if schema["properties"] else []
        if kind == "job":
            lines += ["", "These fields are known and not supported. They may have values that "
                      "change nothing:", "", "| field | accepted |", "|---|---|"]
            for name, prop in schema["properties"].items():
                if prop.get("x-neutral-only"):
                    meaning = prop["description"].removeprefix("accepted: ")
                    lines.append(f"| `{name}` | {meaning} |")
        for name, value in vectors.items():
            if name == kind or name.startswith(kind + "-"):
                lines += example(name, value)
        lines.append("")
    lines += ["## Parts", ""]
    for name, part in SCHEMAS.files["common.json"]["$defs"].items():
        if "properties" in part:
            lines += [f"### {name}", "", *table(part, "common.json"), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def error_table():
    """The rows of base/error_codes.hpp, which a test compares with README.md: the code, its HTTP
    status, what is wrong, and what to do."""
    text = (FOLDER / "base" / "error_codes.hpp").read_text(encoding="utf-8")
    text = re.sub(r"\s*\\\n\s*", " ", text).replace('" "', "")
    return re.findall(r'X\((\w+), (\d+), "([^"]*)", "([^"]*)"\)', text)


def products():
    vectors = {p.stem: load(p) for p in sorted((FOLDER / "vectors").glob("*.json"))}
    vectors.pop("must-refuse")
    for name, value in vectors.items():
        file = SCHEMAS.of_vector(name)
        yield FOLDER / "vectors" / (name + ".msgpack"), pack(value, SCHEMAS.files[file], file)
    yield FOLDER / "docs" / "messages.md", documentation(vectors).encode()
    reference = job_reference.page(SCHEMAS.files["job.json"], type_name, meaning, default_of)
    yield FOLDER.parent / "docs" / "job-reference.md", reference.encode()


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    different = []
    for path, content in products():
        if path.exists() and path.read_bytes() == content:
            continue
        different.append(str(path.relative_to(FOLDER.parent)))
        if not check:
            path.write_bytes(content)
    if check and different:
        sys.exit("out of date, run schemas/tools/generate.py: " + " ".join(different))


SCHEMAS = Schemas()
if __name__ == "__main__":
    main()
