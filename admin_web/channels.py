"""Connections to the console: each has so long for its request, and no address has all of them.

waitress ends a connection that is silent. It would wait without end for one that sends a byte now
and then, or that does not fetch its answer, and 200 of those keep everybody else out.
"""

import contextlib
import socket
import time
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask
from waitress.utilities import Error

from admin_web.security import HEADERS, HTTPS_ONLY

#: How long a request's head, and the whole request, may take to arrive.
HEAD_SECONDS, REQUEST_SECONDS = 10.0, 40.0
#: How long somebody may take to fetch an answer, a file of 60 MB at most.
ANSWER_SECONDS = 900.0
#: How often connections are looked at.
LOOK_SECONDS = 2
#: Connections that one address may hold; some are left for others. A proxy is one address.
OF_ONE_ADDRESS = 150


class SlowRequest(Error):
    """A request that did not arrive in time."""

    code = 408
    reason = "Request Timeout"


class TimedRequest(HTTPRequestParser):
    """A request that knows since when it has been arriving."""

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.began_at = time.time()

    def is_late(self, now: float) -> bool:
        """Return whether it should have arrived by now."""
        limit = REQUEST_SECONDS if self.headers_finished else HEAD_SECONDS
        return now - self.began_at > limit

    def give_up(self) -> None:
        """Count as arrived, and as wrong."""
        if not self.headers_finished:
            self.parse_header(b"GET / HTTP/1.0\r\n")
        self.error = SlowRequest("the request did not arrive in time")
        self.completed = True


class RefusedRequest(ErrorTask):
    """Answers what never reaches the application, with the headers that its answers have."""

    response_headers: Any
    channel: Any

    def execute(self) -> None:
        """Write the answer."""
        self.response_headers.extend([*HEADERS.items(), ("Cache-Control", "no-store")])
        if self.channel.server.application.config["SESSION_COOKIE_SECURE"]:
            self.response_headers.append(HTTPS_ONLY)
        super().execute()


class TimedChannel(HTTPChannel):
    """A connection that is ended when its request or its reader takes too long."""

    parser_class = TimedRequest
    error_task_class = RefusedRequest
    # These are there; the types of waitress do not say so, or not what.
    request: TimedRequest | None
    requests: Any
    requests_lock: Any
    server: Any
    socket: socket.socket
    #: Since when there is something that nobody has fetched.
    unread_since: float | None = None

    def end_if_late(self, now: float) -> None:
        """Answer a request that does not arrive, and leave whoever does not fetch an answer."""
        if self._is_left_unread(now):
            self.will_close = True
            # Else nothing would tell the loop that there is something to do for this connection.
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
            return
        with self.requests_lock:
            late = self.request
            if late is None or not late.is_late(now):
                return
            late.give_up()
            self.request = None
            self.requests.append(late)
            if len(self.requests) == 1:
                self.server.add_task(self)

    def _is_left_unread(self, now: float) -> bool:
        if not self.total_outbufs_len:
            self.unread_since = None
            return False
        self.unread_since = self.unread_since or now
        is_stuck = now - self.last_activity > self.adj.channel_timeout
        return is_stuck or now - self.unread_since > ANSWER_SECONDS


class TimedServer(TcpWSGIServer):
    """A server of such connections."""

    channel_class = TimedChannel
    effective_port: int
    active_channels: Any

    def maintenance(self, now: Any) -> None:
        """End what is silent and what is late."""
        super().maintenance(now)
        for channel in self._channels():
            channel.end_if_late(now)

    def accept(self) -> Any:
        """Take a connection, unless its address holds enough of them."""
        taken = super().accept()
        if taken is None:
            return None
        connection, address = taken
        held = sum(channel.addr[0] == address[0] for channel in self._channels())
        if held >= OF_ONE_ADDRESS:
            connection.close()
            return None
        return taken

    def _channels(self) -> list[TimedChannel]:
        return list(self.active_channels.values())
