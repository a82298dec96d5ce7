"""Packs and unpacks the frames of the protocol."""
from typing import Any, Dict, Iterable, Mapping, Tuple

import msgpack  # type: ignore[import-untyped]

from ._codes import InvalidValueError, MalformedFrameError

VERSION = 1


def _plain(value: Any) -> Any:
    """What msgpack does not know: numbers and arrays of NumPy, and mappings of other kinds."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, range)) or hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in msgpack")


def pack(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=_plain)
        return packed
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValueError(f"it cannot be sent: {error}",
                                "use str, numbers, bool, None, lists and dicts") from None


def envelope(kind: str, number: int, body: bytes) -> bytes:
    """The frame of a message whose body is packed already."""
    packer = msgpack.Packer()
    head = (packer.pack_map_header(4), *map(packer.pack, ("v", VERSION, "kind", kind, "id", number,
                                                          "body")))
    return b"".join((*head, body))


def submit_body(jobs: Iterable[bytes]) -> bytes:
    """The body of a `submit` of jobs that are packed already."""
    found = list(jobs)
    packer = msgpack.Packer()
    return b"".join((packer.pack_map_header(1), packer.pack("jobs"),
                     packer.pack_array_header(len(found)), *found))


def unpack(frame: bytes) -> Tuple[str, int, Dict[str, Any]]:
    """The kind, the id and the body of a message."""
    try:
        message = msgpack.unpackb(frame)
        return str(message["kind"]), int(message.get("id") or 0), message.get("body") or {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedFrameError(f"the broker sent what is no message: {error}") from None
