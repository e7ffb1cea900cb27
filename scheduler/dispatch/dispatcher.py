"""Finds due PLANNED rows, app by app, and passes them to `run_sender`, which has the steps.

peek (no locks) -> claim (SKIP LOCKED) -> re-check -> route -> commit -> publish

If nothing is due, the next runs are claimed shortly before their due time, routed as of that time,
and published then.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from operator import itemgetter

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.bisection import bisect
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.dispatch.claim import ClaimOutcome, undelivered
from warren.scheduler.dispatch.missed_runs import Pauses
from warren.scheduler.dispatch.priorities import Peeked, Priorities
from warren.scheduler.dispatch.route_resolver import Destinations, RouteResolver
from warren.scheduler.dispatch.run_sender import AHEAD_MS, RunSender
from warren.scheduler.dispatch.workload import JobsAside
from warren.scheduler.limits.locks import count_going, is_limited
from warren.scheduler.limits.waits import LimitWaits
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import fault_of
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs import job_rows
from warren.sql.limits import holds
from warren.sql.registry import pauses
from warren.sql.runs import due_runs

#: Runs claimed in one transaction at first; doubled each time while there are more. A transaction
#: takes as much time as the 200 runs in it: in smaller ones, most of a burst would leave later.
INITIAL_BATCH = 200
#: How far back a peek looks between two full sweeps, and the time between sweeps.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000
#: Waits: when nothing is due, when every possible address is full, and when other schedulers hold
#: the runs that were found.
IDLE_SECONDS = 0.5
FULL_SECONDS = 0.05
CONTENDED_SECONDS = (0.005, 0.02)
#: The wait when a few runs filled executors that are busy anyway: the next batch is then larger.
#: Without it, a long storm took 8 % longer.
STOCKED_SECONDS = 0.2
#: The most jobs that are left out of one peek: SQLite takes 32,766 parameters.
LEFT_OUT_LIMIT = 20_000

log = structlog.get_logger()


class Dispatcher:
    """Sends due runs.

    Args:
        destinations: where runs may go.
        resolver: knows the jobs that wait for executors to answer.
        sender: routes and sends runs, one batch per transaction.
        uptime: is told whether this dispatcher can send, and knows which runs are too late to send.

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
        self._limits = LimitWaits(
            context.database,
            has_room=context.has_limits_room,
            underused=context.limits_underused,
            now_ms=context.now_ms,
            clock=context.monotonic,
        )
        self._pauses = Pauses()
        self._priorities = Priorities(context.database, context.monotonic)
        self._has_counted = False

    def run_round(self, now_ms: int) -> float:
        """Send what is due and return the seconds until the next due run; 0 means there is more."""
        began_at = self._context.monotonic()
        if not self._sender.publisher.is_open:
            self._uptime.note(able=False)
            return IDLE_SECONDS
        if not self._sender.confirmations.wait_for_room(IDLE_SECONDS):
            return 0
        if not self._has_counted:
            # Another version may have sent runs without recording the limits they hold.
            self._count_going(now_ms)
            self._has_counted = True
        due = self._context.database.read(lambda session: self._look(session, now_ms))
        self._uptime.note(able=not self._pauses.is_everything_held)
        if self._pauses.is_everything_held:
            return IDLE_SECONDS
        self._aside.free(began_at, self._destinations.room_at)
        self._limits.look()
        # Waiting for a due time would delay runs that are due already.
        ahead_ms = AHEAD_MS if min(due.values(), default=0) > now_ms else 0
        waits = [
            self._dispatch_app(app_id, due_at)
            for app_id, due_at in sorted(due.items(), key=itemgetter(1))
            if due_at <= now_ms + ahead_ms
        ]
        wait_seconds = min(waits, default=IDLE_SECONDS)
        later = [due_at - ahead_ms for due_at in due.values() if due_at > now_ms + ahead_ms]
        if later:
            until_due = (min(later) - now_ms) / 1000 - (self._context.monotonic() - began_at)
            wait_seconds = min(wait_seconds, max(0.0, until_due))
        return min(wait_seconds, self._resolver.seconds_left(), self._limits.seconds_left())

    def _count_going(self, now_ms: int) -> None:
        database = self._context.database
        going = database.read(lambda session: job_rows.for_runs(session, holds.jobs_going(session)))
        if limited := [job for job in going.values() if is_limited(job)]:
            database.write(lambda session: count_going(session, limited, now_ms=now_ms))

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

    def _dispatch_app(self, app_id: int, due_at: int) -> float:
        """Send one batch for an app, not before `due_at`; return the seconds until the next try."""
        app = self._context.app_names.name_of(app_id)
        if app is None:
            return IDLE_SECONDS
        self._uptime.note(able=True)
        if not self._uptime.is_valid:
            self._uptime.keep(self._context.now_ms)
        live = self._destinations.live(app)
        batch = self._batches.get(app_id, INITIAL_BATCH)
        room = min(batch, self._destinations.room(app_id, live)) if live else batch
        until_ms = self._until_ms(app, live, due_at)
        may_peek = room > 0 and until_ms > 0
        waited = self._send_waiting(app_id, app, live, until_ms, room) if may_peek else []
        peeked = self._peek_by_priority(app_id, until_ms, room) if may_peek else Peeked()
        if not peeked.run_ids and not (live and room > 0):
            early_ms = due_at - self._context.now_ms()
            if early_ms > 0:
                return early_ms / 1000  # flows are opened then, not before
            peeked = Peeked(self._find_flows(app_id, batch))
        found = len(peeked.run_ids)
        self._batches[app_id] = min(2 * batch, self._max_batch) if found == batch else INITIAL_BATCH
        claims = self._send(peeked, app_id, app, live, until_ms, peek_limit=room)
        # Jobs that just found a limit full are left out now, so the next peek finds others.
        has_found = any(claim.full_limits for claim in claims)
        is_undecided = any(claim.undecided for claim in (*claims, *waited))
        if has_found or is_undecided or (waited and self._limits.ready(app_id)):
            return 0
        if any(claim.has_moved for claim in claims):
            is_full = found == room < INITIAL_BATCH
            is_stocked = is_full and self._destinations.are_stocked(app_id, live)
            return STOCKED_SECONDS if is_stocked else 0
        if any(claim.full_jobs for claim in (*claims, *waited)):
            return FULL_SECONDS
        return (
            self._random.uniform(*CONTENDED_SECONDS)
            if found
            else self._idle_seconds(app_id, until_ms, is_live=bool(live), has_room=room > 0)
        )

    def _idle_seconds(self, app_id: int, peeked_ms: int, *, is_live: bool, has_room: bool) -> float:
        """Return the seconds until the next try after a peek that found nothing."""
        if is_live and (not has_room or self._held_back()):
            return FULL_SECONDS
        if not is_live:
            return IDLE_SECONDS
        if self._limits.job_ids:
            return self._seconds_until_next(app_id, peeked_ms)
        return self._random.uniform(*CONTENDED_SECONDS)

    def _seconds_until_next(self, app_id: int, peeked_ms: int) -> float:
        """Return the seconds until an app's next run is due, not counting waiting ones.

        It is 0 if one has become due since the last peek.
        """
        left_out, now_ms = self._left_out(), self._context.now_ms()
        due_at = self._context.database.read(
            lambda session: due_runs.next_due_of(
                session,
                app_id,
                after_ms=peeked_ms,
                until_ms=now_ms + round(IDLE_SECONDS * 1000),
                without_jobs=left_out,
            )
        )
        if due_at is None:
            return IDLE_SECONDS
        return min(IDLE_SECONDS, max(0.0, (due_at - now_ms) / 1000))

    def _send_waiting(
        self, app_id: int, app: str, live: dict[str, str], until_ms: int, room: int
    ) -> list[ClaimOutcome]:
        """Send runs that waited for limits which now have room; return what was decided."""
        claims: list[ClaimOutcome] = []
        for ready in self._limits.ready(app_id):
            most = min(room, ready.runs)
            if most <= 0:
                break
            peeked = self._peek_by_priority(app_id, until_ms, most, of_jobs=ready.job_ids)
            if len(peeked.run_ids) < most:
                self._limits.release(ready.job_ids)  # no more of them wait than these
            sent = self._send(peeked, app_id, app, live, until_ms, peek_limit=room)
            count = sum(len(claim.triggers) for claim in sent)
            self._limits.take(ready.limit_id, count)
            room -= count
            claims += sent
        return claims

    def _send(
        self,
        peeked: Peeked,
        app_id: int,
        app: str,
        live: dict[str, str],
        until_ms: int,
        *,
        peek_limit: int,
    ) -> list[ClaimOutcome]:
        """Claim and send runs of an app; set aside the jobs of those that cannot be sent."""
        claims: list[ClaimOutcome] = []

        def send(run_ids: Sequence[int]) -> None:
            as_of_ms = max(self._context.now_ms(), until_ms)
            facts = self._destinations.facts(app_id, app, live, as_of_ms)
            for claim in self._sender.send(run_ids, facts, peeked):
                now = self._context.monotonic()
                self._aside.put_full(claim.full_jobs, now, peek_limit=peek_limit)
                self._limits.put(app_id, claim.full_limits)
                claims.append(claim)

        if peeked.run_ids:
            bisect(peeked.run_ids, send, self._put_aside)
        return claims

    def _until_ms(self, app: str, live: Mapping[str, str], due_at: int) -> int:
        """Return the latest due time of the runs to claim; 0 = none are.

        While no executor is online, only runs that have waited too long are claimed, to be given
        up.
        """
        if live:
            return max(self._context.now_ms(), due_at)
        if self._destinations.absent_seconds(app) < self._no_executor_seconds:
            return 0
        return self._context.now_ms() - int(self._no_executor_seconds * 1000)

    def _left_out(self) -> set[int]:
        """Return the jobs whose runs cannot be sent now, as many as one query takes."""
        left_out = {*self._held_back(), *self._limits.job_ids}
        return set(islice(left_out, LEFT_OUT_LIMIT))

    def _held_back(self) -> set[int]:
        """Return the jobs that wait for executors."""
        return {*self._aside.job_ids, *self._resolver.held_back()}

    def _peek_by_priority(
        self,
        app_id: int,
        until_ms: int,
        limit: int,
        *,
        of_jobs: Collection[int] = (),
    ) -> Peeked:
        """Return due runs; if there may be more, those whose turn it is by priority."""
        left_out = self._held_back() if of_jobs else self._left_out()
        peeked = self._peek(app_id, until_ms, limit, of_jobs, left_out)
        if not self._destinations.has_priorities(app_id):
            return Peeked(peeked)
        ranked, turns = self._priorities.of(app_id), self._priorities.turns(app_id)
        if len(peeked) < limit:
            return Peeked(peeked, turns)
        others = {*ranked.high, *ranked.low}
        # If no job of a class is known to wait for the limit, others of the class may.
        unknown = {*ranked.high, *ranked.low} - {*self._limits.job_ids}
        high, low = (
            sorted(({*jobs} & {*of_jobs}) or ({*jobs} & unknown)) if of_jobs else [*jobs]
            for jobs in (ranked.high, ranked.low)
        )
        waiting = [
            self._peek(app_id, until_ms, limit, high, left_out) if high else [],
            self._peek(app_id, until_ms, limit, of_jobs, {*left_out, *others}),
            self._peek(app_id, until_ms, limit, low, left_out) if low else [],
        ]
        return Peeked(turns.shared(waiting, limit), turns, waiting)

    def _peek(
        self,
        app_id: int,
        until_ms: int,
        limit: int,
        of_jobs: Collection[int],
        left_out: Collection[int],
    ) -> list[int]:
        return self._context.database.read(
            lambda session: due_runs.peek_due(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                of_jobs=of_jobs,
                without_jobs=left_out,
                missed=[*self._uptime.missed, *self._pauses.missed_of(app_id)],
            )
        )

    def _find_flows(self, app_id: int, limit: int) -> list[int]:
        """Return an app's due flows while its executors take nothing: flows need none."""
        now = self._context.monotonic()
        if now - self._flows_at.get(app_id, 0) < IDLE_SECONDS:
            return []
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
