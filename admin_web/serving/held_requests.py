"""Connections with a waiting request: without a thread, and outside the server's loop.

A held request is queued again on its connection, as a copy. When the copy's turn comes, the
connection leaves the loop, which would otherwise check all of them in each round. When it is
resumed, it joins the loop again, and the copy is served like any other request.
"""

import copy
import socket
from collections.abc import Callable
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import WSGITask

from warren.admin_web.api.runs.long_polling import HELD, HOLD, HeldRequest


class HoldableRequest(HTTPRequestParser):
    """A request, or the copy of a held one."""

    held: HeldRequest | None = None
    #: The WSGI environment for the application's second call.
    given: dict[str, Any] | None = None
    is_put_aside = False

    def held_copy(self, held: HeldRequest, given: dict[str, Any]) -> "HoldableRequest":
        """Return the copy that is queued while it is held; the body has been read."""
        again = copy.copy(self)
        again.body_rcv = None
        again.held, again.given, again.is_put_aside = held, given | {HELD: held}, True
        return again


class HoldingTask(WSGITask):
    """Calls the application, which may hold the request; then nothing is sent."""

    channel: Any
    request: Any
    _held: HeldRequest | None = None
    _given: dict[str, Any] | None = None

    def get_environment(self) -> dict[str, Any]:
        """Return the WSGI environment, with the function that holds the request."""
        given: dict[str, Any] = self.request.given or super().get_environment()
        self._given = dict(given)
        given[HOLD] = self._hold
        return given

    def execute(self) -> None:
        """Call the application, and queue the request again if it is held."""
        try:
            super().execute()
        except BaseException:
            if self._held is not None:
                self._held.cancel()
            raise
        if self._held is not None:
            assert self._given is not None
            self.channel.queue_next(self.request.held_copy(self._held, self._given))

    def write(self, data: bytes) -> None:
        """Send a part of the answer, unless the request is held."""
        if self._held is None:
            super().write(data)

    def _hold(self, held: HeldRequest) -> None:
        self._held = held


class HoldableChannel(HTTPChannel):
    """A connection that can be put aside and resumed."""

    task_class = HoldingTask
    # Attributes that the types of waitress omit.
    requests: Any
    requests_lock: Any
    server: Any
    socket: socket.socket
    _fileno: int

    @property
    def is_next_held(self) -> bool:
        """Whether the next request is held."""
        return bool(self.requests) and bool(getattr(self.requests[0], "is_put_aside", False))

    def queue_next(self, request: HoldableRequest) -> None:
        """Queue a request right after the one that is being served."""
        with self.requests_lock:
            self.requests.insert(1, request)

    def put_aside(self) -> None:
        """Leave the loop until the request is resumed; called in the loop's thread."""
        held: HeldRequest = self.requests[0].held
        if not self.connected:
            held.cancel()
            return
        self.del_channel()
        held.begin(AsideConnection(self))

    def rejoin(self) -> None:
        """Join the loop and serve the request; called in the loop's thread."""
        self._fileno = self.socket.fileno()
        self.add_channel()
        self.requests[0].is_put_aside = False
        self.server.add_task(self)


class AsideConnection:
    """A connection that was put aside, for the thread that watches it."""

    def __init__(self, channel: HoldableChannel) -> None:
        self._channel = channel
        self._in_loop: Callable[[Callable[[], None]], None] = channel.server.trigger.pull_trigger

    def fileno(self) -> int:
        """Return its socket."""
        return self._channel.socket.fileno()

    def has_left(self) -> bool:
        """Return whether the client has closed it."""
        try:
            return not self._channel.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def resume(self) -> None:
        """Serve its request soon."""
        self._in_loop(self._channel.rejoin)

    def drop(self) -> None:
        """Close it soon."""
        self._in_loop(self._channel.handle_close)
