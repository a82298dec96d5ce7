"""Runs a broker and engines, starts those that die again, and ends all of them when standard input
ends, at SIGTERM, and when the parent, which the program names, is no longer its own: so they live
as long as the program that started this one, however it ends. A process that the program has
forked may hold the other end of standard input for much longer.

    python -m millrace._supervise '{"broker": [...], "engine": [...], "logs": DIR, "parent": PID}'

Each line of standard output is an event in JSON: {"event": "ready"}, {"event": "died", "program":
"engine", "code": -9}, {"event": "failed", "program": "broker", "code": 3, "log": "its last lines"}.
"""
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from ._program import last_lines

LOOK_S = 0.2
PAUSE_S = 0.2  # before a program is started again; doubles up to the next
PAUSE_MOST_S = 10.0
STEADY_S = 30.0  # a program that ran so long begins with the first pause
STOP_S = 15.0
NEVER_AGAIN = (2, 3)  # exit codes: the options are wrong, or it refuses to start
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def tell(**event: Any) -> None:
    try:
        os.write(1, (json.dumps(event) + "\n").encode())
    except OSError:
        pass  # nobody listens: standard input ends, too


class Program:
    def __init__(self, name: str, command: List[str], logs: str) -> None:
        self.name, self.command = name, command
        self.log = os.path.join(logs, name + ".log")
        self.process: Optional[subprocess.Popen[bytes]] = None
        self._pause_s, self._started, self._again = PAUSE_S, 0.0, 0.0

    def start(self) -> None:
        self._started = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=die_with_parent if sys.platform == "linux" else None)

    def look(self) -> bool:
        """False: it has failed for good."""
        now = time.monotonic()
        if self.process is None:
            if now >= self._again:
                self.start()
            return True
        code = self.process.poll()
        if code is None:
            return True
        self.process = None
        if code in NEVER_AGAIN:
            tell(event="failed", program=self.name, code=code, log=last_lines(self.log))
            return False
        tell(event="died", program=self.name, code=code)
        if now - self._started > STEADY_S:
            self._pause_s = PAUSE_S
        self._again = now + self._pause_s
        self._pause_s = min(self._pause_s * 2, PAUSE_MOST_S)
        return True

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def main() -> None:
    told: Dict[str, Any] = json.loads(sys.argv[1])
    programs = [Program(name, told[name], told["logs"]) for name in ("broker", "engine")
                if told.get(name)]
    signals: List[int] = []  # looked at below, so that none comes amid a start or a stop
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    try:
        for program in programs:
            program.start()
        tell(event="ready")
        while all([program.look() for program in programs]):
            if signals or os.getppid() != told["parent"]:
                break
            if select.select([0], [], [], LOOK_S)[0] and not os.read(0, 4096):
                break
    finally:
        for program in reversed(programs):
            program.stop()


if __name__ == "__main__":
    main()
