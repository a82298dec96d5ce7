"""The exceptions of Millrace: one class for each error code, all of them `MillraceError`.

>>> from millrace import errors
>>> errors.EXCEPTIONS["unreachable"]
<class 'millrace._codes.UnreachableError'>
>>> errors.UnreachableError.status
503
"""
from ._codes import *  # noqa: F401,F403
from ._codes import EXCEPTIONS
from ._error import MillraceError, error_of

__all__ = ["EXCEPTIONS", "MillraceError", "error_of",
           *(one.__name__ for one in EXCEPTIONS.values())]
