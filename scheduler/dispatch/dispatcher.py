"""Finds due PLANNED rows, app by app, and passes them to `run_sender`, which has the steps.

peek (no locks) -> claim (SKIP LOCKED) -> re-check -> route -> commit -> publish
"""

import random
from collections.abc import Mapping, Sequence
from itertools import islice

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.bisection import bisect
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.dispatch.claim import ClaimOutcome, undelivered
from warren.scheduler.dispatch.missed_runs import Pauses
from warren.scheduler.dispatch.route_resolver import Destinations, RouteResolver
from warren.scheduler.dispatch.run_sender import RunSender
from warren.scheduler.dispatch.workload import JobsAside
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import fault_of
from warren.sql.errors import DatabaseUnavailable
from warren.sql.registry import pauses
from warren.sql.runs import due_runs

#: Runs claimed in one transaction at first; doubled each time while there are more. The first runs
#: of a burst leave early, and a long backlog needs few transactions.
INITIAL_BATCH = 50
#: How far back a peek looks between two full sweeps, and the time between sweeps.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000
#: Waits: when nothing is due, when every possible address is full, and when other schedulers hold
#: the runs that were found.
IDLE_SECONDS = 0.5
FULL_SECONDS = 0.05
CONTENDED_SECONDS = (0.005, 0.02)
#: The most jobs that are left out of one peek: SQLite takes 32,766 parameters.
LEFT_OUT_LIMIT = 20_000

log = structlog.get_logger()


class Dispatcher:
    """Sends due runs.

    Args:
        destinations: where runs may go.
        resolver: knows the jobs that wait for executors to answer.
        sender: routes and sends runs, one batch per transaction.
        uptime: learns whether this dispatcher can send, and knows which runs it is too late to
        send.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        destinations: Destinations,
        resolver: RouteResolver,
        sender: RunSender,
        uptime: SendingUptime,
    ) -> None:
        self._context = context
        self._ender = ender
        self._destinations = destinations
        self._resolver = resolver
        self._sender = sender
        self._uptime = uptime
        self._no_executor_seconds = context.timeouts.no_executor
        self._max_batch = context.limits.runs
        self._random = random.Random()  # noqa: S311 - spreads load
        self._batches: dict[int, int] = {}
        self._flows_at: dict[int, float] = {}
        self._since_ms = 0
        self._swept_at = 0
        self._aside = JobsAside()
        self._pauses = Pauses()

    def run_round(self, now_ms: int) -> float:
        """Send what is due and return the seconds until the next due run; 0 means there is more."""
        began_at = self._context.monotonic()
        if not self._sender.publisher.is_open:
            self._uptime.note(able=False)
            return IDLE_SECONDS
        if not self._sender.confirmations.wait_for_room(IDLE_SECONDS):
            return 0
        due = self._context.database.read(lambda session: self._look(session, now_ms))
        self._uptime.note(able=not self._pauses.is_everything_held)
        if self._pauses.is_everything_held:
            return IDLE_SECONDS
        self._aside.free(began_at, self._destinations.room_at)
        waits = [
            self._dispatch_app(app_id) for app_id, due_at in sorted(due.items()) if due_at <= now_ms
        ]
        wait_seconds = min(waits, default=IDLE_SECONDS)
        later = [due_at for due_at in due.values() if due_at > now_ms]
        if later:
            until_due = (min(later) - now_ms) / 1000 - (self._context.monotonic() - began_at)
            wait_seconds = min(wait_seconds, max(0.0, until_due))
        return min(wait_seconds, self._resolver.seconds_left())

    def rest(self) -> float:
        """Skip a round in which nothing is due, but record whether runs could be sent."""
        self._uptime.note(able=self._sender.publisher.is_open)
        return IDLE_SECONDS

    def since_ms(self, now_ms: int) -> int:
        """Return the earliest due time that the next peek looks at."""
        is_swept = 0 <= now_ms - self._swept_at < SWEEP_MS
        return self._since_ms if is_swept and not self._context.has_old_runs.is_set() else 0

    def _look(self, session: Session, now_ms: int) -> dict[int, int]:
        """Read the pauses; return when the next run of each app that is not paused is due."""
        held = self._pauses.held_apps
        self._pauses = Pauses(pauses.known(session), now_ms)
        if self._pauses.held_apps != held:
            self._swept_at = 0  # runs held back by a pause may be long due
        if self._context.has_old_runs.is_set():
            self._context.has_old_runs.clear()
            self._swept_at = 0
        since_ms = self.since_ms(now_ms)
        due = due_runs.next_due(session, since_ms=since_ms)
        due = {app_id: at for app_id, at in due.items() if app_id not in self._pauses.held_apps}
        if not since_ms:
            self._swept_at = now_ms
            self._since_ms = min([now_ms - LOOK_BACK_MS, *due.values()])
        return due

    def _dispatch_app(self, app_id: int) -> float:
        """Send one batch for an app; return the seconds until the next try."""
        app = self._context.app_names.name_of(app_id)
        if app is None:
            return IDLE_SECONDS
        self._uptime.note(able=True)
        if not self._uptime.is_valid:
            self._uptime.keep(self._context.now_ms)
        live = self._destinations.live(app)
        batch = self._batches.get(app_id, INITIAL_BATCH)
        room = min(batch, self._destinations.room(app_id, live)) if live else batch
        peeked = self._find(app_id, self._until_ms(app, live), room)
        if not peeked and not (live and room > 0):
            peeked = self._find_flows(app_id, batch)
        self._batches[app_id] = (
            min(2 * batch, self._max_batch) if len(peeked) == batch else INITIAL_BATCH
        )
        contended = self._random.uniform(*CONTENDED_SECONDS)
        if not peeked and live:
            return FULL_SECONDS if not room or self._left_out() else contended
        if not peeked:
            return IDLE_SECONDS
        claims: list[ClaimOutcome] = []

        def send(run_ids: Sequence[int]) -> None:
            facts = self._destinations.facts(app_id, app, live, self._context.now_ms())
            for claim in self._sender.send(run_ids, facts):
                now = self._context.monotonic()
                self._aside.put_full(claim.full_jobs, now, peek_limit=room)
                claims.append(claim)

        bisect(peeked, send, self._put_aside)
        if any(claim.has_moved or claim.undecided for claim in claims):
            return 0
        if any(claim.full_jobs for claim in claims):
            return FULL_SECONDS
        return contended

    def _until_ms(self, app: str, live: Mapping[str, str]) -> int:
        """Return the latest due time of the runs to claim; 0 = none are.

        While no executor is online, it claims those that have waited long enough, to give them up.
        """
        if live:
            return self._context.now_ms()
        if self._destinations.absent_seconds(app) < self._no_executor_seconds:
            return 0
        return self._context.now_ms() - int(self._no_executor_seconds * 1000)

    def _left_out(self) -> set[int]:
        """Return the jobs whose runs cannot be sent now, as many as one query takes."""
        left_out = {*self._aside.job_ids, *self._resolver.held_back()}
        return set(islice(left_out, LEFT_OUT_LIMIT))

    def _find(self, app_id: int, until_ms: int, limit: int) -> Sequence[int]:
        if limit <= 0 or not until_ms:
            return ()
        left_out = self._left_out()
        return self._context.database.read(
            lambda session: due_runs.peek_due(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                without_jobs=left_out,
                missed=[*self._uptime.missed, *self._pauses.missed_of(app_id)],
            )
        )

    def _find_flows(self, app_id: int, limit: int) -> Sequence[int]:
        """Return the due flows of an app whose executors take nothing now: flows need none."""
        now = self._context.monotonic()
        if now - self._flows_at.get(app_id, 0) < IDLE_SECONDS:
            return ()
        self._flows_at[app_id] = now
        left_out, until_ms = self._left_out(), self._context.now_ms()
        return self._context.database.read(
            lambda session: due_runs.peek_flows(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                without_jobs=left_out,
            )
        )

    def _put_aside(self, run_id: int, error: Exception) -> None:
        """End a run that cannot be routed, so that it does not block the others."""
        words = fault_of(error)
        job_id = self._context.database.read(lambda session: due_runs.job_of(session, run_id))
        log.error("run_not_routable", run_id=run_id, job_id=job_id, error=words)
        end = undelivered(run_id, Why.NOT_ROUTABLE(why=words), self._context.now_ms())
        try:
            self._ender.end([end])
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("run_not_ended", run_id=run_id, job_id=job_id)
            if job_id is not None:
                self._aside.put_broken(job_id, self._context.monotonic())
