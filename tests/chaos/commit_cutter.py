"""A proxy between brokers and PostgreSQL that cuts a connection in its next COMMIT."""
import threading

from cutting_proxy import CuttingProxy

COMMIT = b"COMMIT\0"


class CommitCutter(CuttingProxy):
    """`cut_commit` says where: "request" keeps the COMMIT from the server, "answer" lets the server
    have it and keeps the answer from the broker."""

    def __init__(self, target):
        self.next = None
        self.commits_cut = 0
        self.was_cut = threading.Event()
        super().__init__(target)

    def cut_commit(self, where):
        self.was_cut.clear()
        self.next = where

    def cuts_at(self, source, data):
        # The server's answer to a COMMIT has the same bytes: it names the command.
        at = data.find(COMMIT) if self.next and source in self.near else -1
        if at < 0:
            return False
        if self.next == "answer":
            self.send(self.other_end[source], data)
        else:
            self.send(self.other_end[source], data[:at])
        self.next = None
        self.commits_cut += 1
        self.was_cut.set()
        return True
