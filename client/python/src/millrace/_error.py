"""The base of all exceptions: what is wrong and where, and what to do about it."""
from typing import Any, Dict, Mapping, Optional

from ._advice import ADVICE


class MillraceError(Exception):
    """An error of Millrace. `except millrace.MillraceError` catches all of them.

    `code` is for programs, `message` says what is wrong and where, and `hint` what to do about it.
    `retry_ms` is there where the same may be sent again after so many milliseconds, and `status`
    is the HTTP status in OpenAI's formats.

    >>> import millrace
    >>> error = millrace.error_of({"code": "conflict", "message": "job a has another body"})
    >>> isinstance(error, millrace.errors.ConflictError), error.status
    (True, 409)
    >>> print(error)
    conflict: job a has another body
      give the job another id, or leave the id out
    """

    code = "internal"
    status = 500

    def __init__(self, message: str = "", hint: str = "", *, code: Optional[str] = None,
                 retry_ms: Optional[int] = None, **facts: Any) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message or (type(self).__doc__ or "").split("\n")[0].rstrip(".")
        self.hint = hint or ADVICE.get(self.code, "")
        self.retry_ms = retry_ms
        self.facts: Dict[str, Any] = facts

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")

    def __reduce__(self) -> Any:
        return error_of, (self.as_dict(), self.facts)

    def as_dict(self) -> Dict[str, Any]:
        """The error in the form of the protocol: code, message, hint, and perhaps retry_ms."""
        found: Dict[str, Any] = {"code": self.code, "message": self.message, "hint": self.hint}
        if self.retry_ms is not None:
            found["retry_ms"] = self.retry_ms
        return found


def again(error: BaseException) -> MillraceError:
    """The same error as an exception of its own: one that is raised again and again keeps the
    frames of each time. What is no error of Millrace, and so a defect, becomes the cause of one."""
    if isinstance(error, MillraceError):
        found, cause = error_of(error.as_dict(), error.facts), error.__cause__
    else:
        found, cause = error_of({"code": "internal", "message":
                                 f"the client's own thread has failed: {error!r}"}), error
    if cause is not None:
        found.__cause__ = cause
    return found


def error_of(error: Mapping[str, Any], facts: Optional[Mapping[str, Any]] = None) -> MillraceError:
    """The exception for an error of the protocol; of a code that is not known, `MillraceError`."""
    from ._codes import EXCEPTIONS
    code = str(error.get("code", "internal"))
    return EXCEPTIONS.get(code, MillraceError)(
        str(error.get("message", "")), str(error.get("hint", "")), code=code,
        retry_ms=error.get("retry_ms"), **(facts or {}))
