"""Which jobs of an app go first, and whose turn it is when more is due than can be sent."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.turns import Turns
from warren.sql.engine import Database
from warren.sql.models.job_tables import Priority
from warren.sql.registry import apps, presence

#: For how many seconds priorities are used before they are read again.
READ_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """The jobs of an app that are not of normal priority."""

    high: Collection[int] = ()
    low: Collection[int] = ()


_ALL_NORMAL = Ranked()


@dataclass(frozen=True, slots=True)
class Peeked:
    """Runs that may be sent, in turn; `waiting` has those of each class, if there are more."""

    run_ids: Sequence[int] = ()
    turns: Turns | None = None
    waiting: Sequence[Sequence[int]] = ()


class Priorities:
    """A cache for one thread; `clock` is monotonic seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._jobs: dict[int, Ranked] = {}
        self._schedulers = 1
        self._read_at = float("-inf")
        self._turns: dict[int, Turns] = {}

    def of(self, app_id: int) -> Ranked:
        """Return the jobs of an app that are not of normal priority."""
        if self._clock() - self._read_at >= READ_SECONDS:
            self._jobs, self._schedulers = self._database.read(_read)
            self._read_at = self._clock()
        return self._jobs.get(app_id, _ALL_NORMAL)

    def turns(self, app_id: int) -> Turns:
        """Return whose turn it is among an app's runs."""
        turns = self._turns.setdefault(app_id, Turns())
        turns.sharers = self._schedulers
        return turns


def _read(session: Session) -> tuple[dict[int, Ranked], int]:
    """Return the jobs that are not of normal priority by app, and how many schedulers there are."""
    by_app: dict[int, dict[str, set[int]]] = {}
    for job_id, app_id, priority in apps.not_normal(session):
        by_app.setdefault(app_id, {}).setdefault(priority, set()).add(job_id)
    ranked = {
        app_id: Ranked(
            frozenset(jobs.get(Priority.HIGH, ())), frozenset(jobs.get(Priority.LOW, ()))
        )
        for app_id, jobs in by_app.items()
    }
    return ranked, max(1, presence.schedulers_alive(session))
