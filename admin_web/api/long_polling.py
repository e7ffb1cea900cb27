"""Lets requests wait for ticks to end: one thread polls all of them with one query."""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from flask import request

from admin_web.api.rate_limits import ConcurrencyLimits
from admin_web.api.refusals import at_parameter
from sql.engine import Database
from sql.listings import tick_ends

#: Most seconds that a request waits.
LONGEST_SECONDS = 60

log = structlog.get_logger()


@dataclass
class _Waiter:
    """One waiting request."""

    run_id: int
    is_over: threading.Event = field(default_factory=threading.Event)


class LongPolling:
    """Lets a limited number of requests wait; any further one is answered at once, not refused.

    Args:
        database: where runs are.
        places: limits how many may wait at a time.
        look_seconds: seconds between two polls.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        database: Database,
        *,
        places: ConcurrencyLimits,
        look_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._places = places
        self._look_seconds = look_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._waiters: list[_Waiter] = []
        self._is_looking = False

    def wait(
        self,
        user_id: int,
        run_id: int,
        seconds: float,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait until a run's whole tick is over, for at most this many seconds.

        `is_enough` is asked as often as the ticks are looked at, and ends it too. False when there
        was no place to wait at, or none for this user.
        """
        if seconds <= 0:
            return False
        with self._places.taken(user_id) as is_taken:
            if is_taken:
                self._wait(run_id, seconds, is_enough)
            return is_taken

    def _wait(self, run_id: int, seconds: float, is_enough: Callable[[], bool]) -> None:
        waiter = _Waiter(run_id)
        end_at = self._clock() + seconds
        try:
            self._begin(waiter)
            while not is_enough() and not waiter.is_over.is_set():
                left = end_at - self._clock()
                if left <= 0:
                    break
                waiter.is_over.wait(min(left, max(self._look_seconds, 0.5)))
        finally:
            self._end(waiter)

    def _begin(self, waiter: _Waiter) -> None:
        with self._changed:
            self._waiters.append(waiter)
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look, name="waiting requests", daemon=True).start()

    def _end(self, waiter: _Waiter) -> None:
        with self._changed:
            self._waiters = [one for one in self._waiters if one is not waiter]

    def _look(self) -> None:
        while True:
            with self._changed:
                waiting: dict[int, list[_Waiter]] = defaultdict(list)
                for waiter in self._waiters:
                    waiting[waiter.run_id].append(waiter)
                if not waiting:
                    self._is_looking = False
                    return
            for run_id in self._over(set(waiting)):
                for waiter in waiting[run_id]:
                    waiter.is_over.set()
            time.sleep(self._look_seconds)

    def _over(self, run_ids: set[int]) -> set[int]:
        try:
            return self._database.read(lambda session: tick_ends.over(session, run_ids))
        except Exception as error:  # noqa: BLE001 - the top of a loop
            log.warning("waiting_not_looked_at", error=str(error))
            return set()


def wished_seconds() -> float:
    """Return how long a request is willing to wait: `Prefer: wait=30`; 0 when it is not."""
    for preference in request.headers.get("Prefer", "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() != "wait":
            continue
        text = value.strip().strip('"')
        if not re.fullmatch("[0-9]{1,6}", text) or int(text) > LONGEST_SECONDS:
            raise at_parameter("Prefer", f"expected wait to be 0 to {LONGEST_SECONDS} seconds")
        return float(text)
    return 0.0
