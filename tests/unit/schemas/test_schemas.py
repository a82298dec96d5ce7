"""Compares schemas, vectors and documentation with each other, independently of the C++ codec."""

import base64
import copy
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import msgpack
import pytest
import referencing

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "schemas"
SPEC = importlib.util.spec_from_file_location("generate", FOLDER / "tools" / "generate.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)
SCHEMAS = generate.SCHEMAS

REGISTRY = referencing.Registry().with_resources(
    (name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.files.items())
VECTORS = {p.stem: p for p in sorted((FOLDER / "vectors").glob("*.json"))}
MUST_REFUSE = json.loads(VECTORS.pop("must-refuse").read_text())


def validator(name):
    return jsonschema.Draft202012Validator(
        SCHEMAS.files[SCHEMAS.of_vector(name)], registry=REGISTRY)


def vector(name):
    return json.loads(VECTORS[name].read_text(encoding="utf-8"))


def packed(name):
    return VECTORS[name].with_suffix(".msgpack").read_bytes()


def same(expected, got):
    """Whether a msgpack value equals a JSON value by the rules of schemas/README.md."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and list(expected) == list(got) and all(
            same(v, got[k]) for k, v in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(expected) == len(got) and all(
            same(a, b) for a, b in zip(expected, got))
    if isinstance(got, bytes):
        return base64.b64decode(expected, validate=True) == got
    if isinstance(expected, str) and isinstance(got, int):
        return expected == str(got)
    if isinstance(got, float):
        return math.isclose(expected, got, rel_tol=1e-7)
    return type(expected) is type(got) and expected == got


def test_schemas_are_those_of_the_field_tables(tmp_path):
    build = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
    subprocess.run([build / "bin" / "print_schemas", tmp_path], check=True)
    printed = {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()}
    stored = {p.name: p.read_text(encoding="utf-8") for p in (FOLDER / "json").iterdir()}
    assert printed == stored, "run build/bin/print_schemas schemas/json, then generate.py"


def test_schemas_are_valid():
    assert len(SCHEMAS.files) == 54
    for name, schema in SCHEMAS.files.items():
        assert schema["$id"] == name
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_kind_has_a_schema_and_a_vector():
    kinds = SCHEMAS.files["envelope.json"]["properties"]["kind"]["enum"]
    assert len(kinds) == 50
    parts = {"common.json", "envelope.json", "job.json", "result.json"}
    assert {k + ".json" for k in kinds} | parts == set(SCHEMAS.files)
    assert set(kinds) <= set(VECTORS)
    for kind in kinds:
        assert vector(kind)["kind"] == kind


@pytest.mark.parametrize("name", VECTORS)
def test_vector_matches_schema_and_bytes(name):
    value = vector(name)
    validator(name).validate(value)
    unpacked = msgpack.unpackb(packed(name), strict_map_key=True)
    assert same(value, unpacked)


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_use_documented_fields_only(name):
    def walk(value, schema, file):
        schema, file = SCHEMAS.follow(schema, file)
        if "anyOf" in schema:
            return walk(value, next(b for b in schema["anyOf"] if generate.fits(value, b)), file)
        if isinstance(value, list):
            inner = schema.get("prefixItems") or [schema["items"]] * len(value)
            for item, one in zip(value, inner, strict=True):
                walk(item, one, file)
        if isinstance(value, dict) and "properties" in schema:
            free = schema.get("additionalProperties") == {}
            assert free or set(value) <= set(schema["properties"])
            for key, item in value.items():
                if free and key not in schema["properties"]:
                    continue  # any JSON
                inner = schema["properties"][key]
                if key == "body" and file == "envelope.json":
                    inner = {"$ref": value["kind"] + ".json"}
                walk(item, inner, file)
        return None

    file = SCHEMAS.of_vector(name)
    walk(vector(name), SCHEMAS.files[file], file)


def any_json(path):
    """Whether any JSON may stand there: inside tools, variables, and other fields of messages."""
    return ((path[:1] == ("tools",) and len(path) > 2)
            or (path[:1] == ("chat_template_kwargs",) and len(path) > 1)
            or (path[:1] == ("messages",) and len(path) > 2
                and path[2] not in ("role", "content")))


def places(value, path=()):
    if any_json(path):
        return
    yield path
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, item in items:
        yield from places(item, path + (key,))


@pytest.mark.parametrize("name", VECTORS)
def test_a_wrong_type_anywhere_fails_the_schema(name):
    check = validator(name)
    count = 0
    for path in places(vector(name)):
        broken = copy.deepcopy(vector(name))
        wrong = {"wrong": [{}]}
        if not path:
            assert not check.is_valid([])
            continue
        target = broken
        for key in path[:-1]:
            target = target[key]
        # A map of strings and a body accept any map; nothing accepts a list of lists.
        target[path[-1]] = [[[wrong]]]
        assert not check.is_valid(broken), path
        count += 1
    assert count > 0


@pytest.mark.parametrize("name", VECTORS)
def test_a_required_field_left_out_fails_the_schema(name):
    check = validator(name)

    def walk(value, schema, file, path):
        schema, file = SCHEMAS.follow(schema, file)
        if isinstance(value, dict):
            for key in schema.get("required", []):
                broken = copy.deepcopy(vector(name))
                target = broken
                for step in path:
                    target = target[step]
                del target[key]
                assert not check.is_valid(broken), (path, key)
            for key, item in value.items():
                inner = schema.get("properties", {}).get(key, {})
                if key == "body" and file == "envelope.json":
                    inner = {"$ref": value["kind"] + ".json"}
                walk(item, inner, file, path + (key,))
        if isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                walk(item, schema["items"], file, path + (index,))

    file = SCHEMAS.of_vector(name)
    walk(vector(name), SCHEMAS.files[file], file, ())


@pytest.mark.parametrize("change", [
    {"temperature": -1}, {"temperature": 101}, {"temperature": "1"}, {"top_p": 0}, {"top_p": 2},
    {"n": 0}, {"n": 129}, {"n": 1.5}, {"stop": ""}, {"stop": ["a", ""]}, {"priority": 5},
    {"presence_penalty": 3}, {"repetition_penalty": 0},
    {"typical_p": 0}, {"xtc_threshold": 0.6}, {"logit_bias": {"5": 101}}, {"logit_bias": [[1]]},
    {"presence_penalty_scope": "prompt"}, {"dry_penalty_last_n": 0}, {"bad_words": [""]},
    {"response_format": {"type": "json_object"}}, {"echo": True},
    {"stream": True}, {"stream": ""}, {"tokens": "AAAA"}, {"messages": []}, {"task": "embed"},
    {"metadata": {"a": 1}}, {"seed": "-1"}, {"top_logprobs": 129}, {"max_attempts": 0},
    {"model": ""}, {"id": "x" * 257},
])
def test_job_schema_refuses(change):
    check = validator("job-minimal")
    job = vector("job-minimal")
    assert check.is_valid(job)
    assert not check.is_valid(job | change)


@pytest.mark.parametrize("change", [
    {"stop": None}, {"presence_penalty": 0}, {"presence_penalty": 0.0}, {"logit_bias": {}},
    {"logit_bias": {"5": -100}}, {"logit_bias": [[5, 1]]}, {"bad_word_ids": [[1, 2]]},
    {"response_format": {"type": "text"}}, {"stream": False}, {"user": "u"}, {"unknown": 1},
    {"tools": []}, {"best_of": 1}, {"logprobs": True}, {"logprobs": 3}, {"suffix": ""},
])
def test_job_schema_accepts(change):
    assert validator("job-minimal").is_valid(vector("job-minimal") | change)


def test_the_schema_has_the_brokers_limit_of_kv_policies():
    limits = (FOLDER / "base" / "limits.hpp").read_text(encoding="utf-8")
    limit = int(re.search(r"kv_policies_per_engine = (\d+);", limits)[1])
    hello = vector("hello")
    hello["body"]["kv_policies"] = ["f16"] * limit
    assert validator("hello").is_valid(hello)
    hello["body"]["kv_policies"].append("f16")
    assert not validator("hello").is_valid(hello)


def test_must_refuse_names_known_codes():
    known = SCHEMAS.files["common.json"]["$defs"]["error_code"]["x-known"]
    assert len(MUST_REFUSE) > 30
    for entry in MUST_REFUSE:
        assert entry["code"] in known
        base64.b64decode(entry["bytes"], validate=True)


def test_generated_files_are_up_to_date():
    done = subprocess.run([sys.executable, FOLDER / "tools" / "generate.py", "--check"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_readme_lists_every_error_code():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert listed == generate.error_table()


def test_readme_links_exist():
    for page in (FOLDER / "README.md", FOLDER / "base" / "README.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), link
