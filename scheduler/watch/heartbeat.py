"""Calls a URL once a minute while the cluster does its work, so that its silence can be noticed.

Only the scheduler that watches calls it. The call has a thread of its own, so a server that hangs
delays nothing else.
"""

import http.client
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog

#: Seconds between two calls, between two looks whether one is due, and how long one may take.
EVERY_SECONDS, POLL_SECONDS, CALL_SECONDS = 60.0, 1.0, 5.0
#: The roles without which nothing runs, and how old their last good round may be.
ROLES = ("planner", "dispatcher", "callbacks")
FRESH_SECONDS = 30.0
_GOOD = range(200, 400)

log = structlog.get_logger()


class HeartbeatCaller:
    """The role that calls.

    Args:
        url: where; http or https.
        is_alive: whether this scheduler watches and its roles advance.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        url: str,
        *,
        is_alive: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._is_alive = is_alive
        self._clock = clock
        self._next_at = float("-inf")

    def run_round(self, _now_ms: int) -> float:
        """Call the URL if it is time; return the seconds until the next look.

        A call that failed is not repeated before its next minute: whoever listens allows for that.
        """
        if self._clock() < self._next_at or not self._is_alive():
            return POLL_SECONDS
        self._next_at = self._clock() + EVERY_SECONDS
        try:
            _get(self._url)
        except (OSError, http.client.HTTPException) as error:
            log.warning("heartbeat_url_failed", error=str(error) or type(error).__name__)
        return POLL_SECONDS


def _get(url: str) -> None:
    """Get a URL and check its status; redirects count as good and are not followed."""
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=CALL_SECONDS)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"User-Agent": "warren"})
        status = connection.getresponse().status
    finally:
        connection.close()
    if status not in _GOOD:
        raise OSError(f"it answered {status}")
