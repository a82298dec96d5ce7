"""A TCP proxy that cuts, delays and swallows what passes through it."""
import collections
import contextlib
import select
import socket
import struct
import threading
import time

CHUNK_BYTES = 65536


class CuttingProxy:
    """Listens on a port of its own and forwards to `target`, a port of this machine or the path of
    a Unix socket."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.other_end = {}                  # of each connected socket
        self.near = set()                    # those of who came to the listener
        self.waiting = collections.deque()   # (due, socket, bytes)
        self.delay_s = self.silent_until = 0.0
        self.must_cut = self.must_end = False
        self.cuts = 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def cut(self):
        """Resets all connections."""
        self.must_cut = True

    def swallow(self, seconds):
        """Forwards nothing for so long, and closes nothing, as a dead link does."""
        self.silent_until = time.monotonic() + seconds

    def delay(self, seconds):
        self.delay_s = seconds

    def heal(self):
        self.delay_s = self.silent_until = 0.0

    def close(self):
        self.must_end = True
        self.thread.join()
        self.listener.close()

    def run(self):
        while not self.must_end:
            if self.must_cut:
                self.must_cut = False
                self.drop(list(self.other_end))
            now = time.monotonic()
            if now < self.silent_until:
                time.sleep(0.01)
                continue
            while self.waiting and self.waiting[0][0] <= now:
                _, into, data = self.waiting.popleft()
                self.send(into, data)
            readable, _, _ = select.select([self.listener, *self.other_end], [], [], 0.01)
            for source in readable:
                if source is self.listener:
                    self.accept()
                elif source in self.other_end:
                    self.forward(source)
        self.drop(list(self.other_end))

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = self.connect()
        except OSError:  # nobody listens there now
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            if one.family == socket.AF_INET:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(60)  # of a process that is stopped and reads nothing
            self.other_end[one] = other
        self.near.add(near)

    def connect(self):
        if isinstance(self.target, int):
            return socket.create_connection(("127.0.0.1", self.target))
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self.target))
        return far

    def forward(self, source):
        try:
            data = source.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data or self.cuts_at(source, data):
            self.drop([source])
        elif self.delay_s or self.waiting:
            self.waiting.append((time.monotonic() + self.delay_s, self.other_end[source], data))
        else:
            self.send(self.other_end[source], data)

    def cuts_at(self, source, data):
        """Whether these bytes are the last that their connection carries."""
        return False

    def send(self, into, data):
        if into not in self.other_end:
            return
        try:
            into.sendall(data)
        except OSError:
            self.drop([into])

    def drop(self, sockets):
        for one in sockets:
            other = self.other_end.pop(one, None)
            if other is None:
                continue
            self.other_end.pop(other, None)
            self.near -= {one, other}
            self.cuts += 1
            for end in (one, other):
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()
