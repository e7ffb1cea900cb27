"""Counts that many requests share for a few seconds, such as the trouble behind menu entries."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from flask import Flask, g
from flask_babel import lazy_gettext
from sqlalchemy.orm import Session

from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import visitor
from warren.sql.alarms import alarm_listing, incidents
from warren.sql.listings import dashboard
from warren.sql.registry import presence
from warren.sql.runs import due_runs

#: How long a count is used.
FRESH_SECONDS = 5.0
#: The most sets of apps in the cache.
REMEMBERED = 200

Apps = frozenset[int] | None
Counted = TypeVar("Counted")


class CachedCounts(Generic[Counted]):
    """Caches the last count for each set of apps; thread-safe.

    Args:
        count: counts for a set of apps, None = all.
        monotonic: monotonic seconds.

    """

    def __init__(
        self,
        count: Callable[[Session, Apps], Counted],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._monotonic = monotonic
        self._known: dict[Apps, tuple[float, Counted]] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, app_ids: Apps) -> Counted:
        """Return the count for a set of apps; at most FRESH_SECONDS old."""
        # Under the lock, so that only one of many simultaneous requests counts.
        with self._lock:
            now = self._monotonic()
            known = self._known.get(app_ids)
            if known is not None and now - known[0] < FRESH_SECONDS:
                return known[1]
            counted = self._count(session, app_ids)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[app_ids] = now, counted
            return counted


#: The most that is counted of each kind; a higher number is shown with a `+`.
MOST = 999
#: A run that has been due for this long without being sent counts as waiting.
WAITING_MS = 10_000


class Counts(NamedTuple):
    """The numbers, each up to one more than MOST."""

    incidents: int
    waiting: int
    executors: int
    schedulers: int
    alarms: int


class Trouble(NamedTuple):
    """A number as the menu shows it, and what it counts."""

    number: str
    words: str


class TroubleCounts:
    """Counts along indexes, for each set of apps once in a few seconds."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._counts = CachedCounts(self._count)

    def install(self, app: Flask) -> None:
        """Provide `trouble` to an app's templates."""
        app.jinja_env.globals["trouble"] = self.read

    def read(self) -> Mapping[str, Trouble]:
        """Return the trouble of the visitor's apps, by the endpoint of a page; read once a request.

        Pages without trouble are left out.
        """
        if "trouble" not in g:
            app_ids = visitor().app_ids
            counts = self._services.database.read(lambda session: self._counts.of(session, app_ids))
            g.trouble = _in_words(counts)
        trouble: Mapping[str, Trouble] = g.trouble
        return trouble

    def _count(self, session: Session, app_ids: Apps) -> Counts:
        now_ms, most = self._services.now_ms(), MOST + 1
        nodes = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        return Counts(
            incidents=incidents.count_unseen(session, app_ids, now_ms=now_ms, most=most),
            waiting=due_runs.count_due(session, app_ids, until_ms=now_ms - WAITING_MS, most=most),
            executors=dashboard.count_silent(session, app_ids, now_ms=now_ms, most=most),
            schedulers=sum(not presence.state(row, now_ms).is_online for row in nodes),
            alarms=alarm_listing.count_undelivered(session, app_ids, now_ms),
        )


def _in_words(counts: Counts) -> dict[str, Trouble]:
    known = {
        "incidents.index": (counts.incidents, lazy_gettext("Open incidents: %(n)s")),
        "queue.index": (counts.waiting, lazy_gettext("Due runs that are waiting: %(n)s")),
        "executors.index": (counts.executors, lazy_gettext("Executors that are gone: %(n)s")),
        "schedulers.index": (counts.schedulers, lazy_gettext("Schedulers that are gone: %(n)s")),
        "alarms.index": (counts.alarms, lazy_gettext("Alarms that reached nobody: %(n)s")),
    }
    trouble = {}
    for endpoint, (number, words) in known.items():
        if number:
            shown = f"{MOST}+" if number > MOST else str(number)
            trouble[endpoint] = Trouble(shown, str(words) % {"n": shown})
    return trouble
