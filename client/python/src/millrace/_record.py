"""Records: maps of the protocol whose fields are attributes, decoded when they are asked for.

Token ids and logprobs become NumPy arrays where NumPy is installed, else arrays of the standard
library.
"""
import array
import sys
from typing import Any, ClassVar, Dict, Iterator, Mapping, Optional, Tuple

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def _values(code: str, dtype: str, data: Optional[bytes]) -> Any:
    if data is None:
        return None
    if numpy is not None:
        return numpy.frombuffer(data, dtype)
    found = array.array(code)
    assert found.itemsize == 4
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def ids(data: Optional[bytes]) -> Any:
    """Token ids: little-endian uint32 as an array."""
    return _values("I", "<u4", data)


def floats(data: Optional[bytes]) -> Any:
    """Logprobs: little-endian float32 as an array."""
    return _values("f", "<f4", data)


class Record:
    """A map with attributes. `as_dict()` gives the map as it came, `in` tells what was there."""

    _FIELDS: ClassVar[Dict[str, Tuple[Any, Any]]] = {}
    _map: Mapping[str, Any]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._map = fields

    def __getattr__(self, name: str) -> Any:
        field = None if name.startswith("_") else self._FIELDS.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        default, convert = field
        value = self._map.get(name)
        if value is None:
            value = default
        if value is not None and isinstance(convert, list):
            value = [convert[0](item) for item in value]
        elif value is not None and convert is not None:
            value = convert(value)
        self.__dict__[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._map

    def __iter__(self) -> Iterator[str]:
        return iter(self._FIELDS)

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self._FIELDS]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._map == other._map

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self._short(getattr(self, name))}" for name in self._FIELDS
                          if name in self._map)
        return f"{type(self).__name__}({shown})"

    @staticmethod
    def _short(value: Any) -> str:
        text = repr(value)
        return text if len(text) <= 80 else text[:77] + "..."

    def as_dict(self) -> Dict[str, Any]:
        """The map as it came: token ids and logprobs are bytes there."""
        return dict(self._map)


class LogprobRows(Record):
    """Logprobs by position. `top_ids` and `top_logprobs` have a row of `top` for each position."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name in ("top_ids", "top_logprobs"):
            value = self.__dict__[name] = _rows(value, self.top)
        return value


class ListedRows(Record):
    """`logprobs` has a row for each position, with one value for each of `ids`."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name == "logprobs":
            value = self.__dict__[name] = _rows(value, len(self.ids))
        return value


def _rows(values: Any, width: int) -> Any:
    if numpy is not None:
        return values.reshape(-1, width) if width else values.reshape(0, 0)
    return [values[i:i + width] for i in range(0, len(values), width)] if width else []
