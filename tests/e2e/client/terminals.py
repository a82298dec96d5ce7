"""Commands that write to a terminal, and what they draw there."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from patience import PATIENCE_S


def start_on_terminal(command, columns=80, env=None, whole=False):
    """Starts a command whose standard error is a terminal, or all of its streams. Returns the
    process and the descriptor of the terminal's other end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 20, columns, 0, 0))
    process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stderr=slave,
                               stdin=slave if whole else subprocess.DEVNULL,
                               stdout=slave if whole else subprocess.DEVNULL)
    os.close(slave)
    return process, master


def read_until(master, wanted):
    """Reads what is shown up to the end of these bytes, and leaves unread what follows them."""
    shown, until = b"", time.monotonic() + PATIENCE_S
    while not shown.endswith(wanted):
        left_s = max(0, until - time.monotonic())
        assert select.select([master], [], [], left_s)[0], f"{wanted} is not in {shown}"
        shown += os.read(master, 1)
    return shown


def lines_on_terminal(command, columns, env=None):
    """Runs a command to its end. Returns the lines that it draws, one over the other, on its
    standard error."""
    process, master = start_on_terminal(command, columns, env)
    shown = b""
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:
        pass  # the program has closed its end
    os.close(master)
    assert process.wait(PATIENCE_S) == 0
    return shown.decode().replace("\x1b[K", "").split("\r")
