"""The sockets of one connection, to a broker or the next one: a DEALER for questions, a SUB for
doorbells, and the monitor that tells when a connection comes, breaks or is refused. Used by one
thread.

TCP itself finds out that a broker's machine is gone. ZeroMQ's own heartbeats stay off: libzmq 4.3.4
ends the broker at one that arrives from a client that has gone meanwhile."""
from typing import Iterable, List, NamedTuple, Optional, Tuple

import zmq
from zmq.utils.monitor import parse_monitor_message

from ._codes import UnauthorizedError
from ._endpoint import Key, check_endpoint, doorbell_at, endpoints_of

PROBE_S, PROBES = 3, 3  # a machine that acknowledges nothing for four times as long is gone
RECONNECT_MOST_MS = 1_000
GOODBYE_MS = 200
FRAMES_AT_ONCE = 256


class Happened(NamedTuple):
    frames: List[bytes]
    bells: List[Tuple[str, int]]  # a stream and its highest number
    connected: bool
    lost: bool
    woken: bool
    refused: Optional[UnauthorizedError]


class Sockets:
    def __init__(self, endpoint: str, key: Optional[Key], wake: int) -> None:
        self._endpoints, self._key, self._wake = endpoints_of(endpoint), key, wake
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._poller.register(wake, zmq.POLLIN)
        self._dealer: Optional[zmq.Socket[bytes]] = None
        self._monitor: Optional[zmq.Socket[bytes]] = None
        self._bell: Optional[zmq.Socket[bytes]] = None
        self._prefix = ""

    @property
    def _endpoint(self) -> str:
        return self._endpoints[0]

    def turn(self) -> None:
        """The next connection is to the next broker."""
        self._endpoints.append(self._endpoints.pop(0))

    def _open(self, kind: int) -> "zmq.Socket[bytes]":
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.linger = 0
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, PROBE_S)
        socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, PROBE_S)
        socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, PROBES)
        socket.setsockopt(zmq.TCP_MAXRT, PROBE_S * (PROBES + 1) * 1000)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
        if "[" in self._endpoint:
            socket.setsockopt(zmq.IPV6, 1)
        if self._key:
            socket.curve_publickey = self._key.public
            socket.curve_secretkey = self._key.secret
            socket.curve_serverkey = self._key.broker
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _drop(self, socket: "Optional[zmq.Socket[bytes]]") -> None:
        if socket is not None:
            self._poller.unregister(socket)
            socket.close(linger=0)

    def connect(self) -> None:
        """Drops the last connection with everything queued on it, and opens another."""
        if self._dealer is not None:
            self._dealer.disable_monitor()
        for socket in (self._monitor, self._bell, self._dealer):
            self._drop(socket)
        self._monitor = self._bell = None
        check_endpoint(self._endpoint)
        self._dealer = self._open(zmq.DEALER)
        self._monitor = self._dealer.get_monitor_socket()
        self._poller.register(self._monitor, zmq.POLLIN)
        self._dealer.connect(self._endpoint)

    def connect_doorbell(self, endpoint: str, prefix: str, streams: Iterable[str]) -> None:
        self._drop(self._bell)
        self._bell = self._open(zmq.SUB)
        self._prefix = prefix
        for stream in streams:
            self.subscribe(stream)
        self._bell.connect(doorbell_at(endpoint, self._endpoint))

    def subscribe(self, stream: str) -> None:
        if self._bell is not None:
            self._bell.setsockopt(zmq.SUBSCRIBE, (self._prefix + stream).encode())

    def unsubscribe(self, stream: str) -> None:
        if self._bell is not None:
            self._bell.setsockopt(zmq.UNSUBSCRIBE, (self._prefix + stream).encode())

    def send(self, frame: bytes) -> bool:
        """False: the queue is full."""
        assert self._dealer is not None
        try:
            self._dealer.send(frame, zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def wait(self, timeout_ms: int) -> Happened:
        ready = dict(self._poller.poll(timeout_ms))
        connected, lost, refused = False, False, None
        if self._monitor in ready:
            connected, lost, refused = self._events()
        return Happened(self._frames() if self._dealer in ready else [],
                        self._bells() if self._bell in ready else [], connected, lost,
                        self._wake in ready, refused)

    def _frames(self) -> List[bytes]:
        assert self._dealer is not None
        found: List[bytes] = []
        try:
            while len(found) < FRAMES_AT_ONCE:
                found.append(self._dealer.recv_multipart(zmq.DONTWAIT)[0])
        except zmq.Again:
            pass
        return found

    def _bells(self) -> List[Tuple[str, int]]:
        assert self._bell is not None
        found = {}
        try:
            for _ in range(FRAMES_AT_ONCE):
                topic, _epoch, high = self._bell.recv_multipart(zmq.DONTWAIT)[:3]
                name = topic.decode(errors="replace")
                if name.startswith(self._prefix):
                    found[name[len(self._prefix):]] = int(high)
        except (zmq.Again, ValueError):
            pass
        return list(found.items())

    def _events(self) -> Tuple[bool, bool, Optional[UnauthorizedError]]:
        assert self._monitor is not None
        connected = lost = False
        refused = None
        try:
            while True:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.DONTWAIT))
                connected = connected or event["event"] == zmq.EVENT_CONNECTED
                lost = lost or event["event"] == zmq.EVENT_DISCONNECTED
                refused = refused or self._refusal(event["event"], event["value"])
        except zmq.Again:
            pass
        return connected, lost, refused

    def _refusal(self, event: int, value: int) -> Optional[UnauthorizedError]:
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return UnauthorizedError(
                f"the broker at {self._endpoint} refused the key",
                "ask its administrator to allow the key's public half (`millrace keys allow`)")
        mismatch = value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and mismatch:
            return UnauthorizedError(
                f"the broker at {self._endpoint} and this side do not agree on keys: one uses them "
                "and the other does not",
                "give key=FILE for a broker with keys, and none for one without")
        return None

    def close(self, farewell: Optional[bytes] = None) -> None:
        if self._dealer is not None:
            self._dealer.disable_monitor()
            if farewell is not None and self.send(farewell):
                self._poller.unregister(self._dealer)
                self._dealer.close(linger=GOODBYE_MS)
                self._dealer = None
        for socket in (self._monitor, self._bell, self._dealer):
            self._drop(socket)
        self._context.term()
