"""Long polling without a thread per request: the server holds the connections.

A view that may answer later returns a `Wait`. The server puts the connection aside and frees the
thread. When the tick is over, the time is up, the client has left or the process stops, the server
calls the application again with the same request, and `Wait.later` makes the answer.
"""

import selectors
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import structlog
from flask import Request, request

from warren.admin_web.api.endpoint import Call, Reply
from warren.admin_web.api.rate_limits import ConcurrencyLimits
from warren.admin_web.api.runs.run_answers import Wait
from warren.sql.engine import Database
from warren.sql.listings import ledger

#: The key in the WSGI environment of the function that holds a request, if the server has one.
HOLD = "warren.hold"
#: The key of the held request when the server calls the application again.
HELD = "warren.held"


class ApiRequest(Request):
    """A request that knows whether its server can hold it, and whether it was held."""

    def __init__(self, environ: dict[str, Any], *args: Any, **more: Any) -> None:
        super().__init__(environ, *args, **more)
        self.hold: Callable[[HeldRequest], None] | None = environ.get(HOLD)
        self.held: HeldRequest | None = environ.get(HELD)


class HeldConnection(Protocol):
    """The connection of a held request; no method blocks."""

    def fileno(self) -> int:
        """Return its socket, which becomes readable when the client leaves or sends more."""

    def has_left(self) -> bool:
        """Return whether the client has closed it."""

    def resume(self) -> None:
        """Call the application again."""

    def drop(self) -> None:
        """Close it without an answer."""


class Holder(Protocol):
    """Knows all held requests."""

    def begin(self, held: "HeldRequest", connection: HeldConnection) -> None:
        """Wait on this connection."""

    def end(self, held: "HeldRequest") -> None:
        """Stop waiting."""


@dataclass(eq=False, slots=True, kw_only=True)
class HeldRequest:
    """A waiting request, and its connection once the server has put it aside."""

    polling: Holder
    user_id: int
    wait: Wait
    end_at: float
    poll_at: float

    def begin(self, connection: HeldConnection) -> None:
        """Wait on this connection; the server calls it once it has put it aside."""
        self.polling.begin(self, connection)

    def cancel(self) -> None:
        """Stop holding; the server calls it if it cannot put the connection aside."""
        self.polling.end(self)


class ClientWatch:
    """Watches the sockets of waiting requests. Used from one thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._watched: dict[HeldRequest, HeldConnection] = {}
        #: Clients that already sent their next request; their sockets would stay readable.
        self._eager: set[HeldRequest] = set()

    def left(
        self, waiting: Mapping[HeldRequest, HeldConnection], seconds: float
    ) -> list[HeldRequest]:
        """Return the requests whose clients have left, as soon as one has."""
        fresh = waiting.keys() - self._watched.keys() - self._eager
        if closed := [held for held in fresh if not self._is_watchable(held, waiting[held])]:
            return closed
        heard = [key.data for key, _ in self._selector.select(seconds)]
        left = [held for held in heard if waiting[held].has_left()]
        for held in set(heard) - set(left):
            self.forget(held)
            self._eager.add(held)
        return left

    def _is_watchable(self, held: HeldRequest, connection: HeldConnection) -> bool:
        try:
            self._selector.register(connection, selectors.EVENT_READ, held)
        except (ValueError, OSError):
            return False  # its socket is closed
        self._watched[held] = connection
        return True

    def forget(self, held: HeldRequest) -> None:
        """Stop watching a request; its socket may be closed afterwards."""
        self._eager.discard(held)
        if connection := self._watched.pop(held, None):
            self._selector.unregister(connection)


#: For requests that must be polled one by one: polls a second in total, and each one's pause.
POLLS_PER_SECOND, POLL_PAUSE_SECONDS = 50, 0.5

log = structlog.get_logger()


class LongPolling:
    """Holds a limited number of requests; more are answered at once, not refused.

    Args:
        database: where runs are.
        places: limits how many may wait at a time.
        poll_seconds: seconds between two polls.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        database: Database,
        *,
        places: ConcurrencyLimits,
        poll_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._places = places
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._changed = threading.Condition()
        #: All requests that have a place, and those of them that are not being answered right now.
        self._held: set[HeldRequest] = set()
        self._waiting: dict[HeldRequest, HeldConnection] = {}
        self._is_looking = False
        self._is_stopped = False

    @property
    def count(self) -> int:
        """How many requests are held."""
        return len(self._held)

    def hold(self, user_id: int, wait: Wait) -> bool:
        """Have the server hold this request; return False if it must be answered at once."""
        hold = cast(ApiRequest, request).hold
        if hold is None or self._is_stopped or not self._places.take(user_id):
            return False
        now = self._clock()
        held = HeldRequest(
            polling=self,
            user_id=user_id,
            wait=wait,
            end_at=now + wait.seconds,
            poll_at=self._next_poll(now, wait),
        )
        with self._changed:
            self._held.add(held)
        hold(held)
        return True

    def answer(self, held: HeldRequest, admit: Callable[[], Call]) -> Reply | None:
        """Return the answer to a held request, if it is admitted again; None = it is held again."""
        now = self._clock()
        try:
            reply = held.wait.later(admit(), self._is_stopped or now >= held.end_at)
        except BaseException:
            self.end(held)
            raise
        if reply is not None:
            self.end(held)
            return reply
        held.poll_at = self._next_poll(now, held.wait)
        hold = cast(ApiRequest, request).hold
        assert hold is not None
        hold(held)
        return None

    def begin(self, held: HeldRequest, connection: HeldConnection) -> None:
        """Watch for the end of the tick, and for the client to leave."""
        with self._changed:
            self._waiting[held] = connection
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look, name="waiting requests", daemon=True).start()

    def end(self, held: HeldRequest) -> None:
        """Free the place of a request."""
        with self._changed:
            self._held.discard(held)
            self._changed.notify_all()
        self._places.give_back(held.user_id)

    def stop(self, timeout: float) -> bool:
        """Answer all waiting requests with what is known, and hold no more.

        Return False if some are not answered after `timeout` seconds.
        """
        with self._changed:
            self._is_stopped = True
            return self._changed.wait_for(lambda: not self._held, timeout)

    def _next_poll(self, now: float, wait: Wait) -> float:
        if not wait.is_polled:
            return float("inf")
        with self._changed:
            polled = sum(1 for poll in self._held if poll.wait.is_polled)
        return now + max(POLL_PAUSE_SECONDS, polled / POLLS_PER_SECOND)

    def _look(self) -> None:
        """Watch until no request waits; errors are logged, and watching continues."""
        while True:
            try:
                self._watch()
            except Exception as error:  # noqa: BLE001 - the top of a loop
                log.warning("waiting_runs_not_checked", error=str(error))
                time.sleep(self._poll_seconds)
            else:
                return

    def _watch(self) -> None:
        """Watch until no request waits. Only this thread resumes and drops connections."""
        polled_at = float("-inf")
        with selectors.DefaultSelector() as selector:
            clients = ClientWatch(selector)
            while waiting := self._still_waiting():
                for held in clients.left(waiting, self._poll_seconds):
                    clients.forget(held)
                    self._taken(held).drop()
                    self.end(held)
                if self._clock() - polled_at >= self._poll_seconds:
                    for held in self._ready():
                        clients.forget(held)
                        self._taken(held).resume()
                    polled_at = self._clock()

    def _still_waiting(self) -> dict[HeldRequest, HeldConnection]:
        with self._changed:
            self._is_looking = bool(self._waiting)
            return dict(self._waiting)

    def _taken(self, held: HeldRequest) -> HeldConnection:
        with self._changed:
            return self._waiting.pop(held)

    def _ready(self) -> list[HeldRequest]:
        """Return the requests that can be answered or are to be polled."""
        with self._changed:
            waiting = list(self._waiting)
        over = set() if self._is_stopped else self._over({poll.wait.run_id for poll in waiting})
        now = self._clock()
        return [
            poll
            for poll in waiting
            if self._is_stopped or min(poll.end_at, poll.poll_at) <= now or poll.wait.run_id in over
        ]

    def _over(self, run_ids: set[int]) -> set[int]:
        try:
            return self._database.read(lambda session: ledger.over(session, run_ids))
        except Exception as error:  # noqa: BLE001 - the top of a loop
            log.warning("waiting_runs_not_checked", error=str(error))
            return set()
