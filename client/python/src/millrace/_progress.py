"""Progress through tqdm, where it is installed."""
from typing import Any, Iterable, Optional, Union

from ._codes import UsageError


class Progress:
    """`wanted` is False, True, or a function that makes a bar as `tqdm.tqdm` does."""

    def __init__(self, wanted: Union[bool, Any], items: Any, unit: str) -> None:
        self._bar: Any = None
        self._failed = self._tokens = 0
        if wanted:
            make = _tqdm() if wanted is True else wanted
            self._bar = make(total=_length(items), unit=unit)

    def result(self, result: Any) -> None:
        """One more result of a map."""
        if self._bar is None:
            return
        self._failed += not result.ok
        self._tokens += result.usage.completion_tokens
        self._bar.set_postfix(failed=self._failed, tokens=self._tokens, refresh=False)
        self._bar.update(1)

    def receipt(self, receipt: Any) -> None:
        """One more answer to a submitted job."""
        if self._bar is not None:
            self._failed += not receipt.ok
            self._bar.set_postfix(refused=self._failed, refresh=False)
            self._bar.update(1)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError("progress=True needs tqdm, which is not installed",
                         "pip install tqdm, or leave progress out") from None
    return tqdm


def _length(items: "Iterable[Any]") -> Optional[int]:
    return len(items) if hasattr(items, "__len__") else None  # type: ignore[arg-type]
