"""Turns due PLANNED rows into triggers: claims, routes, commits, publishes.

    peek (no locks) -> claim (SKIP LOCKED) -> re-check -> route -> commit -> publish

A crash before the commit leaves the rows PLANNED; after it they are ROUTED with this scheduler's
name, and the rescuer of any scheduler sends them again with the same ids.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import structlog
from sqlalchemy.orm import Session

from scheduler import added_routes
from scheduler.added_routes import Decision
from scheduler.app_addresses import AppAddresses
from scheduler.app_names import AppNames
from scheduler.bisection import bisect
from scheduler.claim import Claim, undelivered
from scheduler.claiming import Claimer
from scheduler.completion import Completion
from scheduler.confirmations import Confirmations
from scheduler.delivery import Delivery
from scheduler.patience import Patience
from scheduler.probes import Probes
from scheduler.roster import Roster
from scheduler.route_choice import Router
from scheduler.workload import Workload
from sql import cluster, run_queries
from sql.engine import Database
from sql.errors import DatabaseUnavailable
from sql.ids import RunIds
from sql.rows import AnyRow, Rows

#: Runs claimed in one transaction: at first, and at most, each time twice as many while there are
#: more. The first ones of a burst leave early, and a long backlog pays few transactions.
FIRST_BATCH = 50
BATCH = 500
#: How far behind now a peek looks between two full sweeps, and how often those are.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000
#: Pauses: when there is nothing to do, when every address that could take a run is full, and when
#: other schedulers hold what was peeked at.
IDLE_SECONDS = 0.5
FULL_SECONDS = 0.05
CONTENDED_SECONDS = (0.005, 0.02)
#: For how long a job is left out of peeks because its address is full, and because its runs can
#: neither be routed nor ended.
JOB_FULL_SECONDS = 0.25
JOB_BROKEN_SECONDS = 60.0
#: Jobs left out of a peek at most: SQLite takes 32,766 parameters.
LEFT_OUT_LIMIT = 20_000

log = structlog.get_logger()


class Dispatcher:
    """Sends what is due.

    Args:
        node: this scheduler's name, the owner of what it routes.
        now_ms: the database's clock.
        roster: who lives.
        workload: how much each address has in flight.
        probes: what executors answered lately.
        routers: all routes there are.
        patience: `no_executor` is how long a run waits for an executor before it is given up.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        now_ms: Callable[[], int],
        ids: RunIds,
        completion: Completion,
        delivery: Delivery,
        confirmations: Confirmations,
        roster: Roster,
        workload: Workload,
        probes: Probes,
        routers: Mapping[str, Router],
        app_names: AppNames,
        app_addresses: AppAddresses,
        patience: Patience,
    ) -> None:
        self._node = node
        self._database = database
        self._now_ms = now_ms
        self._ids = ids
        self._completion = completion
        self._delivery = delivery
        self._confirmations = confirmations
        self._roster = roster
        self._workload = workload
        self._claimer = Claimer(
            node=node,
            ids=ids,
            completion=completion,
            roster=roster,
            workload=workload,
            probes=probes,
            routers=routers,
            no_executor_seconds=patience.no_executor,
        )
        self._probes = probes
        self._routers = routers
        self._app_names = app_names
        self._app_addresses = app_addresses
        self._no_executor_seconds = patience.no_executor
        self._random = random.Random()  # noqa: S311 - spreads load
        self._batches: dict[int, int] = {}
        self._since_ms = 0
        self._swept_at = 0
        #: Jobs left out of peeks, and until when.
        self._aside: dict[int, float] = {}

    def tick(self, now_ms: int) -> float:
        """Send what is due and return the seconds until the next due run; 0 means there is more."""
        began_at = time.monotonic()
        if not self._delivery.is_open:
            return IDLE_SECONDS
        if not self._confirmations.wait_for_room(IDLE_SECONDS):
            return 0
        paused_at, due = self._database.read(lambda session: self._look(session, now_ms))
        if paused_at:
            return IDLE_SECONDS
        self._aside = {job_id: end for job_id, end in self._aside.items() if end > began_at}
        pauses = [
            self._dispatch_app(app_id) for app_id, due_at in sorted(due.items()) if due_at <= now_ms
        ]
        pause = min(pauses, default=IDLE_SECONDS)
        later = [due_at for due_at in due.values() if due_at > now_ms]
        if later:
            until_due = (min(later) - now_ms) / 1000 - (time.monotonic() - began_at)
            pause = min(pause, max(0.0, until_due))
        return min(pause, self._probes.seconds_left())

    def _look(self, session: Session, now_ms: int) -> tuple[int, dict[int, int]]:
        sweep = not 0 <= now_ms - self._swept_at < SWEEP_MS
        since_ms = 0 if sweep else self._since_ms
        due = run_queries.next_due(session, since_ms=since_ms)
        if sweep:
            self._swept_at = now_ms
            self._since_ms = min([now_ms - LOOK_BACK_MS, *due.values()])
        return cluster.paused_at(session), due

    def _dispatch_app(self, app_id: int) -> float:
        """Send one batch for an app; return the seconds until the next one is worth a try."""
        app = self._app_names(app_id).get(app_id)
        if app is None:
            return IDLE_SECONDS
        live = self._roster.routable(app)
        if not live:
            return self._give_up(app_id, app)
        batch = self._batches.get(app_id, FIRST_BATCH)
        room = min(batch, self._workload.room(app_id, live))
        peeked = self._peek(app_id, self._now_ms(), room) if room > 0 else ()
        self._batches[app_id] = min(2 * batch, BATCH) if len(peeked) == batch else FIRST_BATCH
        contended = self._random.uniform(*CONTENDED_SECONDS)
        if not peeked:
            return FULL_SECONDS if not room or self._left_out() else contended
        self._ids.reserve()
        claims: list[Claim] = []
        bisect(
            peeked,
            lambda rows: claims.extend(self._claim_and_send(rows, app_id, app, live)),
            self._put_aside,
        )
        if any(claim.has_moved or claim.undecided for claim in claims):
            return 0
        if any(claim.full_jobs for claim in claims):
            return FULL_SECONDS
        return contended

    def _left_out(self) -> set[int]:
        """Return the jobs whose runs cannot be sent now, up to what one query takes."""
        left_out = {*self._aside, *self._probes.held_back()}
        return set(islice(left_out, LEFT_OUT_LIMIT))

    def _peek(self, app_id: int, until_ms: int, limit: int) -> Rows:
        left_out = self._left_out()
        return self._database.read(
            lambda session: run_queries.peek_due(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                without_jobs=left_out,
            )
        )

    def _claim_and_send(
        self, peeked: Sequence[AnyRow], app_id: int, app: str, live: dict[str, str]
    ) -> list[Claim]:
        listed = self._app_addresses(app_id)
        claims: list[Claim] = []

        def claim(run_ids: list[int], decisions: Mapping[int, Decision]) -> Claim:
            made = self._claim(
                run_ids,
                lambda: Claim(
                    app_id,
                    app,
                    live,
                    self._now_ms(),
                    addresses=tuple(one for one in listed if one in live)
                    if listed
                    else tuple(live),
                    away=tuple(one for one in listed if one not in live),
                    decisions=decisions,
                ),
            )
            claims.append(made)
            return made

        asked = claim([row.id for row in peeked], {}).asked
        if asked:
            decisions = added_routes.decide(asked, self._routers, self._random)
            claim(list(decisions), decisions)
        return claims

    def _claim(self, run_ids: list[int], begin: Callable[[], Claim]) -> Claim:
        """Claim runs in one transaction and, after it, send what was routed."""
        claim = self._database.write(lambda session: self._claimer.claim(session, run_ids, begin()))
        committed_at = time.monotonic()
        for item in claim.parcels:
            self._workload.add(claim.app_id, item.address)
        self._probes.note_sent(
            ((item.app, item.address, item.trigger.boot_id), item.trigger.job_id)
            for item in claim.parcels
        )
        self._aside.update(dict.fromkeys(claim.full_jobs, committed_at + JOB_FULL_SECONDS))
        if claim.parcels:
            self._confirmations.add(self._delivery.send(claim.parcels, decided_at=committed_at))
        self._probes.ask(claim.app, claim.live, claim.undecided)
        return claim

    def _give_up(self, app_id: int, app: str) -> float:
        """End what has been due for an app while none of its executors was seen."""
        if self._roster.absent_seconds(app) < self._no_executor_seconds:
            return IDLE_SECONDS
        now_ms = self._now_ms()
        rows = self._peek(app_id, now_ms - int(self._no_executor_seconds * 1000), BATCH)
        ends = [undelivered(row, f"no executor of app {app} is online", now_ms) for row in rows]
        if not ends:
            return IDLE_SECONDS
        self._ids.reserve()
        tally = self._database.write(lambda session: self._completion.end(session, ends))
        log.warning("runs_undelivered", app=app, count=len(tally.won), reason="no executor online")
        return 0 if tally.won else IDLE_SECONDS

    def _put_aside(self, row: AnyRow, error: Exception) -> None:
        """End a run that cannot be routed, whatever the reason, so that it holds up nobody."""
        words = " ".join(str(error).split())[:500]
        log.error("run_not_routable", run_id=row.id, job_id=row.job_id, error=words)
        end = undelivered(row, f"it cannot be routed: {words}", self._now_ms())
        try:
            self._database.write(lambda session: self._completion.end(session, [end]))
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("run_not_ended", run_id=row.id, job_id=row.job_id)
            self._aside[row.job_id] = time.monotonic() + JOB_BROKEN_SECONDS
