"""A broker and an engine for one program, such as a notebook: child processes that are watched,
started again when they die, and ended with the program."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Callable, Dict, List, Tuple

from ._codes import (EngineFailedError, IoError, NotFoundError, TimedOutError,
                     UnreachableError)
from ._endpoint import Path
from ._error import MillraceError
from ._link import Link, log
from ._program import BIN, last_lines, with_libraries
from .client import Client

PROGRAMS = "MILLRACE_PROGRAMS"
LOOK_S = 0.05
STOP_S = 60.0
BROKER_S = 2.0  # between two looks whether the broker has failed
LEASE_MS = 5_000  # how long the jobs of an engine that was killed wait for the next one


def find_program(name: str, programs: Path | None = None) -> str:
    """The path of one of Millrace's programs: in `programs`, `$MILLRACE_PROGRAMS`, the package's
    own folder `bin`, or on the `PATH`."""
    folders = [programs] if programs else [os.environ.get(PROGRAMS), BIN]
    for folder in folders:
        path = os.path.join(os.fspath(folder), name) if folder else ""
        if path and os.access(path, os.X_OK):
            return path
    found = None if programs else shutil.which(name)
    if found is None:
        where = f"in {programs}" if programs else f"in ${PROGRAMS} or on the PATH"
        raise NotFoundError(f"the program {name} is not {where}",
                            "build Millrace, and name its folder build/bin (programs=FOLDER)")
    return found


def options_of(options: Dict[str, Any]) -> List[str]:
    """`kv_memory="2GiB"` is --kv-memory 2GiB; True is the option alone."""
    words: List[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


class _Children:
    """The supervisor's process, and what it tells."""

    def __init__(self, command: Dict[str, Any]) -> None:
        own = any(words[0].startswith(BIN) for words in (command["broker"], command["engine"]))
        package = str(FilePath(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millrace._supervise",
             json.dumps({**command, "parent": os.getpid()})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**(with_libraries(os.environ) if own else os.environ), "PYTHONPATH": path})
        self.failure: MillraceError | None = None
        self.deaths = 0
        self._folder = command["logs"]
        self._ending = False
        self._link: Link | None = None
        threading.Thread(target=self._listen, name="millrace-children", daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "died":
                self.deaths += 1
                log.warning("the %s died (%s) and is started again", event["program"],
                            event["code"])
            elif event["event"] == "failed":
                self._fail(EngineFailedError(
                    f"the {event['program']} does not start (it ended with {event['code']}):\n"
                    f"{event['log']}", "correct what its last lines say"))
        code = self.process.wait()
        if self.failure is None and not self._ending:
            self._fail(UnreachableError(
                f"the supervisor of the broker and the engine in {self._folder} has ended "
                f"({code}): nobody starts them again",
                "close this client and call millrace.run again; jobs and results are still there "
                "if you named that folder (folder=FOLDER)"))

    def _fail(self, error: MillraceError) -> None:
        self.failure = error
        if self._link is not None:
            self._link.fail(error)

    def serve(self, link: Link) -> None:
        """The link gets the failure, also one that is there already."""
        self._link = link
        if self.failure is not None:
            link.fail(self.failure)

    def end(self) -> None:
        self._ending = True
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.terminate()  # forks of this program may keep the other end of stdin open
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _end(close: Callable[[], Any], children: _Children, pid: int, folders: List[str]) -> None:
    if os.getpid() != pid:
        return  # a fork of the program: they are not its own
    close()
    children.end()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


class LocalClient(Client):
    """A client with a broker and an engine of its own, which `run` starts. `folder` holds the
    ledger and the logs (`broker.log`, `engine.log`)."""

    folder: str

    def _adopt(self, children: _Children, folder: str, removed: List[str]) -> None:
        self.folder = folder
        self._children = children
        self._finalizer.detach()
        leave = partial(self._leaving.close, self._link)
        end = partial(_end, leave, children, os.getpid(), removed)
        self._finalizer = weakref.finalize(self, end)
        children.serve(self._link)

    def _wait_for_engine(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not self.status().engines:
            if self._children.failure is not None:
                raise self._children.failure
            if time.monotonic() > until:
                raise _late("no engine has joined", timeout_s,
                            os.path.join(self.folder, "engine.log"))
            time.sleep(LOOK_S)

    @property
    def deaths(self) -> int:
        """How often a broker or an engine has died and was started again."""
        return self._children.deaths


def run(model: Path, *, folder: Path | None = None, programs: Path | None = None,
        engine: Path | None = None, timeout_s: float = 600.0, **options: Any) -> LocalClient:
    """Starts a broker and an engine for this program, and gives a client of them.

    `model` is a GGUF file or a model's folder. Options of the engine are given by name:
    `kv="k5v3"`, `kv_memory="2GiB"`, `device="..."`; `devices="all"` starts an engine on each GPU.
    The broker has `timeout_s` to start, and the engine as long to load the model.

    With a `folder` the ledger stays there: `run` on it again finds all jobs and results, and goes
    on with what had not ended. Without one everything is in a temporary folder and goes with the
    program. A broker or an engine that dies is started again; nothing is lost. They end with
    `close()`, with the program, and when the program is killed.

    `programs` is the folder of millrace-broker and millrace-engine (`$MILLRACE_PROGRAMS`, or on the
    `PATH`), and `engine` another program in place of millrace-engine.

    >>> with millrace.run("M.gguf", programs=programs, engine=programs / "stub_engine") as local:
    ...     [result.text for result in local.map(["The sea is"])]
    ["a stub's answer"]
    """
    broker = find_program("millrace-broker", programs)
    engine = os.fspath(engine) if engine else find_program("millrace-engine", programs)
    sockets, folder, removed = _folders(folder)
    clients, engines = f"ipc://{sockets}/clients", f"ipc://{sockets}/engines"
    children = _Children({"logs": folder, "broker": [
        broker, "--ledger", os.path.join(folder, "ledger"), "--listen", clients,
        "--listen-engines", engines, "--listen-doorbell", f"ipc://{sockets}/doorbell",
        "--lease-ms", str(LEASE_MS)],
        "engine": [engine, "--model", os.fspath(model), "--broker", engines, "--die-with-parent",
                   *options_of(options)]})
    client = None
    try:
        client = _client_of(children, clients, folder, timeout_s)
        client._adopt(children, folder, removed)
        client._wait_for_engine(timeout_s)
        return client
    except BaseException as error:
        if client is not None:
            client.close()
        else:
            _end(lambda: None, children, os.getpid(), removed)
        raise children.failure or error


def _folders(folder: Path | None) -> Tuple[str, str, List[str]]:
    """Makes the folders of the sockets and of all else; also those that go with the program."""
    removed: List[str] = []
    try:
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        removed.append(tempfile.mkdtemp(prefix="millrace-", dir=runtime or "/tmp"))
        if folder is None:
            folder = tempfile.mkdtemp(prefix="millrace-")
            removed.append(folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return removed[0], os.fspath(folder), removed
    except OSError as error:
        for made in removed:
            shutil.rmtree(made, ignore_errors=True)
        raise IoError(f"cannot make the folder {error.filename}: {error.strerror}",
                      "name a folder that this user may make (folder=FOLDER); that of the sockets "
                      "is in $XDG_RUNTIME_DIR, or in /tmp where this is not set") from None


def _late(what: str, timeout_s: float, log_path: str) -> TimedOutError:
    return TimedOutError(f"{what} within {timeout_s:g} s; its log ends with:\n"
                         f"{last_lines(log_path)}",
                         "correct what it says, or allow more time (timeout_s)")


def _client_of(children: _Children, endpoint: str, folder: str, timeout_s: float) -> LocalClient:
    """Waits for the broker, which is started again where it dies, as long as it has not failed."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return LocalClient(endpoint, connect_timeout_s=min(BROKER_S, timeout_s))
        except MillraceError as error:
            if children.failure is not None or error.code not in ("unreachable", "timed_out"):
                raise
            if children.process.poll() is not None:
                raise
        if time.monotonic() >= until:
            raise _late("no broker has started", timeout_s, os.path.join(folder, "broker.log"))
