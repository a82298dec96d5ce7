"""Where the broker is, and the key that it wants."""
import os
import re
import stat
from typing import List, NamedTuple, Optional, Union

import zmq

from ._codes import IoError, NotFoundError, UnauthorizedError, UsageError

IPC = "ipc://"
IPC_PATH_BYTES = 107
KEY_CHARACTERS = 40  # Z85 of 32 bytes
Path = Union[str, "os.PathLike[str]"]


class Key(NamedTuple):
    public: bytes
    secret: bytes
    broker: bytes


def runtime_folder() -> str:
    base = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(base, "millrace") if base else f"/tmp/millrace-{os.geteuid()}"


def default_endpoint() -> str:
    """`$MILLRACE_BROKER`, else the unix socket at which a broker of this user listens."""
    return os.environ.get("MILLRACE_BROKER") or f"{IPC}{runtime_folder()}/clients"


def endpoints_of(text: str) -> List[str]:
    """The endpoints of several brokers on one ledger: "tcp://a:5571,tcp://b:5571". Commas part
    them, but for those inside of the path of a unix socket."""
    return re.split(",(?=tcp://|ipc://|inproc://)", text)


def check_endpoint(endpoint: str) -> None:
    """Refuses a path that is too long, and a folder of local sockets that others may enter."""
    if not endpoint.startswith((IPC, "tcp://", "inproc://")):
        raise UsageError(f"\"{endpoint}\" is not an endpoint",
                         "write tcp://HOST:PORT or ipc:///PATH")
    if not endpoint.startswith(IPC):
        return
    size = len(os.fsencode(endpoint)) - len(IPC)
    if size > IPC_PATH_BYTES:
        raise UsageError(f"the path of {endpoint} has {size} bytes, that of a unix socket at most "
                         f"{IPC_PATH_BYTES}", "name a shorter one")
    folder = runtime_folder()
    if not endpoint.startswith(f"{IPC}{folder}/"):
        return
    try:
        info = os.lstat(folder)
    except FileNotFoundError:
        return  # no broker has started yet
    except OSError as error:
        raise _unusable(folder, f"cannot be examined: {error.strerror}") from None
    if not stat.S_ISDIR(info.st_mode):
        raise _unusable(folder, "is not a folder")
    if info.st_uid != os.geteuid():
        raise _unusable(folder, f"belongs to user {info.st_uid}, not to user {os.geteuid()}")
    if stat.S_IMODE(info.st_mode) & 0o077:
        raise _unusable(folder, "may be entered by other users")


def _unusable(folder: str, why: str) -> IoError:
    return IoError(f"the folder of the local sockets, {folder}, {why}",
                   "remove it, set XDG_RUNTIME_DIR to a folder of this user, or name another "
                   "endpoint")


def key_for(path: Optional[Path], endpoint: str) -> Optional[Key]:
    """The key of a file that `millrace keys new` made; `$MILLRACE_KEY` where none is named."""
    path = path or os.environ.get("MILLRACE_KEY")
    if path:
        return read_key(os.fspath(path))
    for one in endpoints_of(endpoint):
        host = one[len("tcp://"):].rpartition(":")[0]
        if one.startswith("tcp://") and host not in ("127.0.0.1", "localhost", "[::1]"):
            raise UnauthorizedError(
                f"{one} is on another machine, and no key is given",
                "give key=FILE: without a key, whoever listens there would get the prompts")
    return None


def read_key(path: str) -> Key:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist", "make it with `millrace keys`") from None
    except OSError as error:
        raise IoError(f"cannot open {path}: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UsageError(f"{path} is not a file", "name a file of `millrace keys`")
        if info.st_uid not in (os.geteuid(), 0):
            raise UnauthorizedError(f"{path} belongs to another user ({info.st_uid})",
                                    "use a file of your own")
        if info.st_mode & 0o077:
            raise UnauthorizedError(f"{path}: others may read or write it",
                                    f"chmod 600 {path}; if others have used it, make a new key")
        lines = file.read(4096).splitlines()
    found = dict(line.split(b" ", 1) for line in lines
                 if b" " in line and not line.startswith(b"#"))
    try:
        key = Key(found[b"public"], found[b"secret"], found[b"broker"])
        fits = zmq.curve_public(key.secret) == key.public and len(key.broker) == KEY_CHARACTERS
    except (KeyError, ValueError):
        fits = False
    if not fits:
        raise UsageError(f"{path} is not a usable key file of a client",
                         "make one with `millrace keys new`")
    return key


def doorbell_at(endpoint: str, broker: str) -> str:
    """A broker that listens on all interfaces names its doorbell 0.0.0.0: it is on its host."""
    for wild in ("tcp://0.0.0.0:", "tcp://[::]:"):
        if endpoint.startswith(wild) and broker.startswith("tcp://"):
            return broker.rpartition(":")[0] + ":" + endpoint[len(wild):]
    return endpoint
