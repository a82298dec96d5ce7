"""Which keys JSON values have, and where two of the same meaning differ."""
import json
import re

import pydantic
from http_place import ROOT


def keys(value, path=""):
    """The paths of all keys: of what is in arrays with [] for any place."""
    found = set()
    if isinstance(value, dict):
        for key, part in value.items():
            here = f"{path}.{key}" if path else key
            found |= {here} | keys(part, here)
    elif isinstance(value, list):
        for part in value:
            found |= keys(part, path + "[]")
    return found


def unknown_keys(model, path=""):
    """The paths of the keys that a pydantic model has no fields for."""
    found = set()
    if isinstance(model, pydantic.BaseModel):
        found |= {f"{path}.{key}" if path else key for key in model.model_extra or {}}
        for name in type(model).model_fields:
            found |= unknown_keys(getattr(model, name), f"{path}.{name}" if path else name)
    elif isinstance(model, list):
        for part in model:
            found |= unknown_keys(part, path + "[]")
    return found


def unexplained(peer, ours, theirs):
    """Which keys of ours alone and of the peer alone have no row in http/SHAPES.md. A row of a key
    speaks for all that is in it."""
    known = explained(peer)
    return {f"{whose}: {key}" for whose, found in (("ours", ours), ("theirs", theirs))
            for key in found if not any(re.match(re.escape(one) + r"(\[\])?(\.|$)", key)
                                        for one in known[whose])}


def explained(peer):
    """The keys for which http/SHAPES.md has a reason: those of ours alone, those of the peer alone.
    """
    text = (ROOT / "http" / "SHAPES.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {peer}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    both = {"ours": set(), "theirs": set()}
    for row in re.findall(r"^\| (ours|theirs) \| (.*?) \|", section, re.M):
        both[row[0]] |= {key.strip("` ") for key in row[1].split(",")}
    return both


def events(answer):
    """The events of a stream, without its end."""
    lines = answer.read().decode().splitlines()
    assert lines[-2] == "data: [DONE]" and lines[-1] == ""
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
