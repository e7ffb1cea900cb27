"""Finds the runs of an app that are due and may be sent, without locks.

Left out are apps and due times that a pause or a downtime held back, and jobs that wait
(`left_out.py`). If more is due than can be sent, priorities say which runs go first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.turns import Turns
from warren.scheduler.dispatch.left_out import JobsLeftOut
from warren.scheduler.dispatch.missed_runs import Pauses
from warren.scheduler.membership.registration import AppSettings
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds.loop import OLD_RUNS
from warren.sql.models.job_tables import Priority
from warren.sql.registry import apps, pauses, presence
from warren.sql.runs import due_runs

#: How far back a peek looks between two full sweeps, and the time between sweeps.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000
#: For how many seconds priorities are used before they are read again.
READ_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Peeked:
    """Runs that may be sent, in turn; `waiting` has those of each class, if there are more."""

    run_ids: Sequence[int] = ()
    turns: Turns | None = None
    waiting: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The jobs of an app that are not of normal priority."""

    high: Collection[int] = ()
    low: Collection[int] = ()


_ALL_NORMAL = _Ranked()


class Peeks:
    """Peeks at what is due for one scheduler; used by its dispatcher's thread.

    Args:
        uptime: knows the downtimes whose runs are too late to send.
        settings: say which apps have priorities.

    """

    def __init__(
        self,
        context: NodeContext,
        left_out: JobsLeftOut,
        uptime: SendingUptime,
        settings: AppSettings,
    ) -> None:
        self.pauses = Pauses()
        self._context = context
        self._awake = context.wakes.of("dispatcher")
        self._left_out = left_out
        self._uptime = uptime
        self._settings = settings
        self._since_ms = 0
        self._swept_at = 0
        self._ranked: dict[int, _Ranked] = {}
        self._schedulers = 1
        self._read_at = float("-inf")
        self._turns: dict[int, Turns] = {}

    def since_ms(self, now_ms: int) -> int:
        """Return the earliest due time that the next peek looks at."""
        is_swept = 0 <= now_ms - self._swept_at < SWEEP_MS
        return self._since_ms if is_swept and not self._awake.has(OLD_RUNS) else 0

    def next_due(self, session: Session, now_ms: int) -> dict[int, int]:
        """Read the pauses; return when the next run of each app that is not paused is due."""
        held = self.pauses.held_apps
        self.pauses = Pauses(pauses.known(session), now_ms)
        # Runs held back by a pause may be long due.
        if self._awake.take(OLD_RUNS) or self.pauses.held_apps != held:
            self._swept_at = 0
        since_ms = self.since_ms(now_ms)
        due = due_runs.next_due(session, since_ms=since_ms)
        due = {app_id: at for app_id, at in due.items() if app_id not in self.pauses.held_apps}
        if not since_ms:
            self._swept_at = now_ms
            self._since_ms = min([now_ms - LOOK_BACK_MS, *due.values()])
        return due

    def due(
        self, app_id: int, until_ms: int, limit: int, *, of_jobs: Collection[int] = ()
    ) -> Peeked:
        """Return due runs; if there may be more, those whose turn it is by priority."""
        left_out = self._left_out.not_for_limits() if of_jobs else self._left_out.all()

        def peek(jobs: Collection[int], without: Collection[int] = left_out) -> list[int]:
            return self._peek(app_id, until_ms, limit, jobs, without)

        peeked = peek(of_jobs)
        if not self._settings(app_id).has_priorities:
            return Peeked(peeked)
        ranked, turns = self._priorities(app_id)
        if len(peeked) < limit:
            return Peeked(peeked, turns)
        others = {*ranked.high, *ranked.low}
        # If no job of a class is known to wait for the limit, others of the class may.
        unknown = others - {*self._left_out.for_limits}
        high, low = (
            sorted(({*jobs} & {*of_jobs}) or ({*jobs} & unknown)) if of_jobs else [*jobs]
            for jobs in (ranked.high, ranked.low)
        )
        waiting = [
            peek(high) if high else [],
            peek(of_jobs, {*left_out, *others}),
            peek(low) if low else [],
        ]
        return Peeked(turns.shared(waiting, limit), turns, waiting)

    def flows(self, app_id: int, limit: int) -> Peeked:
        """Return an app's due flows, which need no executor."""
        left_out, until_ms = self._left_out.all(), self._context.now_ms()
        return Peeked(
            self._context.database.read(
                lambda session: due_runs.peek_flows(
                    session,
                    app_id,
                    since_ms=self._since_ms,
                    until_ms=until_ms,
                    limit=limit,
                    without_jobs=left_out,
                )
            )
        )

    def seconds_until_next(self, app_id: int, peeked_ms: int, most: float) -> float:
        """Return the seconds until an app's next run is due that does not wait, `most` at most.

        It is 0 if one has become due since the last peek.
        """
        left_out, now_ms = self._left_out.all(), self._context.now_ms()
        due_at = self._context.database.read(
            lambda session: due_runs.next_due_of(
                session,
                app_id,
                after_ms=peeked_ms,
                until_ms=now_ms + round(most * 1000),
                without_jobs=left_out,
            )
        )
        return most if due_at is None else min(most, max(0.0, (due_at - now_ms) / 1000))

    def _peek(
        self,
        app_id: int,
        until_ms: int,
        limit: int,
        of_jobs: Collection[int],
        without_jobs: Collection[int],
    ) -> list[int]:
        return self._context.database.read(
            lambda session: due_runs.peek_due(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                of_jobs=of_jobs,
                without_jobs=without_jobs,
                missed=[*self._uptime.missed, *self.pauses.missed_of(app_id)],
            )
        )

    def _priorities(self, app_id: int) -> tuple[_Ranked, Turns]:
        """Return an app's jobs that are not of normal priority, and whose turn it is."""
        now = self._context.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._ranked, self._schedulers = self._context.database.read(_read_priorities)
            self._read_at = now
        turns = self._turns.setdefault(app_id, Turns())
        turns.sharers = self._schedulers
        return self._ranked.get(app_id, _ALL_NORMAL), turns


def _read_priorities(session: Session) -> tuple[dict[int, _Ranked], int]:
    """Return the jobs that are not of normal priority by app, and how many schedulers there are."""
    by_app: dict[int, dict[str, set[int]]] = {}
    for job_id, app_id, priority in apps.not_normal(session):
        by_app.setdefault(app_id, {}).setdefault(priority, set()).add(job_id)
    ranked = {
        app_id: _Ranked(
            frozenset(jobs.get(Priority.HIGH, ())), frozenset(jobs.get(Priority.LOW, ()))
        )
        for app_id, jobs in by_app.items()
    }
    return ranked, max(1, presence.schedulers_alive(session))
