"""A file that keeps your output and your place in a stream together."""
import fcntl
import json
import os
import time
from contextlib import suppress
from typing import Any, Optional, Tuple, Union

from ._codes import InputChangedError, IoError, OutputInUseError, UsageError
from ._reader import Position
from ._result import Result

COMMIT_S = 1.0
COMMIT_BYTES = 8 * 1024 * 1024


class Output:
    """Appends to a file what you make of results, and remembers the last result with it.

    `path` is the output; `path.position` beside it holds how many of its bytes count and the
    position that they reach to. Both reach the disk together: with the first `write` a second after
    the last time, at the end of the `with`, and at `commit()`. Where results come seldom, `commit`
    what should not wait for the next one. After a crash the output is cut to the bytes that count,
    and `position` is where to go on: no result is lost, and none is there twice.

    >>> with millrace.Output(folder / "answers.jsonl") as out:
    ...     for result in client.results("seas", after=out.position, follow=False):
    ...         out.write({"job": result.job, "text": result.text}, result)
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]") -> None:
        self.path = os.fspath(path)
        self._side = self.path + ".position"
        self.position: Optional[Position] = None
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise IoError(f"cannot open {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise OutputInUseError(f"another program writes {self.path}") from None
        self._buffer = bytearray()
        self._whole = 0  # bytes of the buffer that belong to results that were written
        self._reached: Optional[Position] = None
        try:
            self._size = self._resume()
        except BaseException:
            os.close(self._file)
            raise
        self._committed = time.monotonic()

    def _resume(self) -> int:
        there = os.fstat(self._file).st_size
        try:
            with open(self._side, encoding="utf-8") as file:
                known = json.load(file)
        except FileNotFoundError:
            if there:
                raise InputChangedError(
                    f"{self.path} has {there} bytes, but no position beside it ({self._side})",
                    "name a new file, or remove this one to begin anew") from None
            self._size = 0
            self._write_side()  # before the first bytes, which a kill may leave without a position
            return 0
        except (OSError, ValueError) as error:
            raise IoError(f"cannot read {self._side}: {error}") from None
        size, position = self._known(known)
        if there < size:
            raise InputChangedError(
                f"{self.path} has {there} bytes, and {self._side} tells of {size}",
                "restore the output, or remove both files to begin anew")
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            raise IoError(f"cannot cut {self.path} to the {size} bytes that count: "
                          f"{error.strerror}") from None
        self.position = position
        return size

    def _known(self, known: Any) -> "Tuple[int, Optional[Position]]":
        """What the position file tells: how many bytes count, and the position they reach to."""
        facts = known if isinstance(known, dict) else {}
        size, position = facts.get("bytes"), facts.get("position", "")
        if type(size) is int and size >= 0 and (position is None or isinstance(position, str)):
            try:
                return size, None if position is None else Position.parse(position)
            except UsageError:
                pass  # refused as any other content
        raise IoError(f"{self._side} does not hold what an Output writes: {str(known)[:80]}",
                      f"restore it, or remove it and {self.path} to begin anew")

    def write(self, record: Any, result: Union[Result, Position]) -> None:
        """Appends a record made of this result: bytes, a str, or else an object as a line of JSON.
        Several records of one result are fine if all but the last go through `add`. A job of a map
        that was refused has no place in a stream: what tells of it goes through `add`, too."""
        self._check_open()
        position = result if isinstance(result, Position) else result.position
        if position is None:
            job = result.job if isinstance(result, Result) else ""
            raise UsageError(f"the result of the job {job} has no position for {self.path}: the "
                             "job was refused, and is in no stream",
                             "leave it out, or append what tells of it with add(), which counts "
                             "with the next write")
        self.add(record)
        self._whole = len(self._buffer)
        self._reached = position
        late = time.monotonic() - self._committed >= COMMIT_S
        if late or len(self._buffer) >= COMMIT_BYTES:
            self.commit()

    def add(self, record: Any) -> None:
        """Appends a record without its result: it counts with the next `write`."""
        self._check_open()
        if isinstance(record, str):
            record = record.encode()
        elif not isinstance(record, (bytes, bytearray)):
            record = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        self._buffer += record

    def skip(self, result: Union[Result, Position]) -> None:
        """Moves past a result that gives no output."""
        self.write(b"", result)

    def commit(self) -> None:
        """Brings to disk what was written, and then that it counts."""
        self._check_open()
        self._committed = time.monotonic()
        if self._reached is None:
            return
        data = memoryview(bytes(self._buffer[:self._whole]))
        try:
            os.lseek(self._file, self._size, os.SEEK_SET)  # over what another try may have left
            while data:
                data = data[os.write(self._file, data):]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # the next commit writes over it, and the next Output cuts it
                os.ftruncate(self._file, self._size)
            raise IoError(f"cannot write {self.path}: {error.strerror}") from None
        self._size += self._whole
        del self._buffer[:self._whole]
        self._whole = 0
        self.position, self._reached = self._reached, None
        self._write_side()

    def _check_open(self) -> None:
        if self._file < 0:
            raise UsageError(f"the output {self.path} is closed",
                             "write inside the `with`, or open it again with millrace.Output")

    def _write_side(self) -> None:
        new = self._side + ".new"
        try:
            with open(new, "w", encoding="utf-8") as file:
                position = None if self.position is None else str(self.position)
                json.dump({"bytes": self._size, "position": position}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._side)
            folder = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise IoError(f"cannot write {self._side}: {error.strerror}") from None

    def close(self) -> None:
        if self._file >= 0:
            try:
                self.commit()
            finally:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
