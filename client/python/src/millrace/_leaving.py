"""Maps that were left before their end, and take their jobs back while the program goes on."""
import logging
import os
from concurrent.futures import Future, wait
from typing import Any, Set

from ._codes import NotFoundError
from ._error import MillraceError
from ._flow import Flow, aside
from ._link import Link

log = logging.getLogger("millrace")
LEAVE_S = 2.0  # time that they get when the session ends


class Leaving:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._ending: "Set[Future[Any]]" = set()
        self._told = False

    def begin(self, stream: str, flow: Flow) -> None:
        """Nobody waits for the flow, except `close`, and for a short time."""
        if os.getpid() != self._pid:
            return  # the jobs belong to the process from before the fork

        def done(ended: "Future[Any]") -> None:
            self._ending.discard(ended)
            try:
                ended.result()
            except NotFoundError:
                pass  # no job of the map has ended, so there is no such stream
            except MillraceError as error:
                if not self._told:  # where a key may not remove streams, all maps end like this
                    log.warning("the stream %s of a map that has ended may stay on the broker, "
                                "with its jobs and results: %s", stream, error)
                self._told = True

        ended = aside(flow)
        self._ending.add(ended)
        ended.add_done_callback(done)

    def close(self, link: Link) -> None:
        """Ends the session."""
        here = os.getpid() == self._pid and not link.is_this_thread()
        try:
            if here and link._ready:  # else no answer comes while this waits
                wait(list(self._ending), LEAVE_S)
        finally:
            link.close()
