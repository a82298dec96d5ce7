"""The command `millrace` of a wheel that holds the programs, and how these are started."""
import os
import sys
from typing import Dict, Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
LOG_BYTES = 2_000
BIN, LIB = os.path.join(HERE, "bin"), os.path.join(HERE, "lib")


def with_libraries(environment: Mapping[str, str]) -> Dict[str, str]:
    """The environment in which the package's own programs find the libraries beside them."""
    found = dict(environment)
    if os.path.isdir(LIB):
        others = found.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = LIB + (os.pathsep + others if others else "")
    return found


def last_lines(path: str) -> str:
    """The end of a program's log."""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_BYTES))
            return log.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""  # it has not been started


def main() -> None:
    program = os.path.join(BIN, "millrace")
    os.execve(program, [program, *sys.argv[1:]], with_libraries(os.environ))
