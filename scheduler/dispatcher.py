"""Turns due PLANNED rows into triggers: claims, routes, commits, publishes, marks SENT.

    peek (no locks) -> claim (SKIP LOCKED) -> re-check -> route -> commit -> publish -> SENT

A crash before the commit leaves the rows PLANNED; after it they are ROUTED with this scheduler's
name, and the rescuer of any scheduler sends them again with the same ids.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy.orm import Session

from scheduler import aftermath, routing
from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.completion import Completion
from scheduler.delivery import Delivery, Parcel, Receipt, Shipment, parcel
from scheduler.roster import Roster
from scheduler.routing import Choice, Memory, RouteRequest
from scheduler.workload import Workload
from sql import cluster, jobs, route_memory, run_queries, runs
from sql.engine import Database
from sql.ids import RunIds
from sql.rows import AnyRow, Rows
from sql.run_status import RunStatus

#: Runs claimed in one transaction.
BATCH = 500
#: Batches published and not yet confirmed before the next one is claim.
BATCHES_ON_THE_WAY = 4
#: How long a run waits for an executor of its app before it is given up.
NO_EXECUTOR_SECONDS = 10.0
#: How far behind now a peek looks between two full sweeps, and how often those are.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000

log = structlog.get_logger()


@dataclass(slots=True)
class _Claim:
    """One claiming transaction: for which app and executors, and what it decided."""

    app: str
    live: dict[str, str]
    now_ms: int
    memories: Mapping[int, Memory] = field(default_factory=dict)
    parcels: list[Parcel] = field(default_factory=list)
    routed: list[runs.Routed] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    new_memories: dict[int, Memory] = field(default_factory=dict)


class Dispatcher:
    """Sends what is due.

    Args:
        node: this scheduler's name, the owner of what it routes.
        roster: who lives.
        workload: how much each address has in flight.
        on_unknown: told the ids of runs of whose trigger the broker did not say what became.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        ids: RunIds,
        completion: Completion,
        delivery: Delivery,
        roster: Roster,
        workload: Workload,
        app_names: AppNames,
        on_unknown: Callable[[Sequence[int]], None],
    ) -> None:
        self._node = node
        self._database = database
        self._ids = ids
        self._completion = completion
        self._delivery = delivery
        self._roster = roster
        self._workload = workload
        self._app_names = app_names
        self._on_unknown = on_unknown
        self._random = random.Random()  # noqa: S311 - spreads load
        self._on_the_way: deque[Shipment] = deque()
        self._since_ms = 0
        self._swept_at = 0

    def tick(self, now_ms: int) -> float:
        """Send what is due and return the seconds until the next due run; 0 means there is more."""
        if not self._delivery.is_open:
            self._settle(0, now_ms)
            return 0.5
        paused_at, due = self._database.read(lambda session: self._look(session, now_ms))
        if paused_at:
            self._settle(0, now_ms)
            return 0.5
        sent = sum(
            self._dispatch_app(app_id, now_ms)
            for app_id, due_at in sorted(due.items())
            if due_at <= now_ms
        )
        self._settle(BATCHES_ON_THE_WAY - 1 if sent else 0, now_ms)
        return 0 if sent else self._pause(due, now_ms)

    def _look(self, session: Session, now_ms: int) -> tuple[int, dict[int, int]]:
        sweep = not 0 <= now_ms - self._swept_at < SWEEP_MS
        since_ms = 0 if sweep else self._since_ms
        due = run_queries.next_due(session, since_ms=since_ms)
        if sweep:
            self._swept_at = now_ms
            self._since_ms = min([now_ms - LOOK_BACK_MS, *due.values()])
        return cluster.paused_at(session), due

    def _dispatch_app(self, app_id: int, now_ms: int) -> int:
        app = self._app_names(app_id).get(app_id)
        if app is None:
            return 0
        live = self._roster.routable(app)
        if not live:
            return self._give_up(app_id, app, now_ms)
        room = min(BATCH, self._workload.room(live))
        peeked = self._peek(app_id, now_ms, room) if room > 0 else ()
        if not peeked:
            return 0
        self._ids.reserve()
        run_ids = [row.id for row in peeked]
        claim = self._database.write(
            lambda session: self._claim(session, run_ids, _Claim(app, live, now_ms))
        )
        for item in claim.routed:
            self._workload.add(item.address)
        if claim.parcels:
            self._on_the_way.append(self._delivery.send(claim.parcels))
            self._settle(BATCHES_ON_THE_WAY - 1, now_ms)
        return len(claim.parcels) + len(claim.ends)

    def _peek(self, app_id: int, now_ms: int, limit: int) -> Rows:
        return self._database.read(
            lambda session: run_queries.peek_due(
                session, app_id, since_ms=self._since_ms, until_ms=now_ms, limit=limit
            )
        )

    def _claim(self, session: Session, run_ids: list[int], claim: _Claim) -> _Claim:
        rows = runs.claim(session, run_ids)
        known = jobs.for_runs(session, {row.job_id for row in rows})
        remembering = {
            job.id for job in known.values() if routing.needs_memory(job.executor_route_strategy)
        }
        claim.memories = route_memory.lock(session, remembering) if remembering else {}
        for row in rows:
            job = known.get(row.job_id)
            if job is None or aftermath.was_stopped(row, job):
                claim.ends.append(_cancelled(row, job, claim.now_ms))
            else:
                self._route(row, job, claim)
        if claim.routed:
            runs.route(session, claim.routed, node=self._node, now_ms=claim.now_ms)
        route_memory.store(session, claim.new_memories)
        if claim.ends:
            self._completion.end(session, claim.ends)
        return claim

    def _route(self, row: AnyRow, job: AnyRow, claim: _Claim) -> None:
        request = RouteRequest(
            job_id=job.id,
            addresses=tuple(claim.live),
            memory=claim.new_memories.get(job.id) or claim.memories.get(job.id),
            wanted=_wanted(row),
        )
        choice = routing.choose(job.executor_route_strategy, request, self._random)
        address = choice.address
        if address is None:
            self._give_up_wanted(row, choice, claim)
            return
        if not self._workload.has_room(address):
            return  # it stays PLANNED
        if choice.memory is not None:
            claim.new_memories[job.id] = choice.memory
        boot_id = claim.live[address]
        words = self._words(row, claim.live, choice)
        claim.routed.append(
            runs.Routed(run_id=row.id, address=address, boot_id=boot_id, message=words)
        )
        claim.parcels.append(parcel(row, job, app=claim.app, address=address, boot_id=boot_id))

    def _words(self, row: AnyRow, live: dict[str, str], choice: Choice) -> str:
        return (
            f"{row.kind}, attempt {row.attempt + 1}, {row.executor_fail_retry_count} retries left; "
            f"scheduler {self._node}; online: {', '.join(live)}; {choice.words}"
        )

    def _give_up(self, app_id: int, app: str, now_ms: int) -> int:
        """End what is due for an app of which no executor has been seen for 10 s."""
        if self._roster.absent_seconds(app) < NO_EXECUTOR_SECONDS:
            return 0
        due_before = now_ms - int(NO_EXECUTOR_SECONDS * 1000)
        rows = self._peek(app_id, due_before, BATCH)
        ends = [
            End(
                run_id=row.id,
                status=RunStatus.UNDELIVERED,
                message=f"no executor of app {app} is online",
                finished_at=now_ms,
            )
            for row in rows
        ]
        if ends:
            self._ids.reserve()
            self._database.write(lambda session: self._completion.end(session, ends))
            log.warning("runs_undelivered", app=app, count=len(ends), reason="no executor online")
        return len(ends)

    def _give_up_wanted(self, row: AnyRow, choice: Choice, claim: _Claim) -> None:
        """End a run of which none of the addresses its user named has been seen for 10 s."""
        wanted = _wanted(row)
        absent = self._roster.absent_seconds(claim.app, wanted) >= NO_EXECUTOR_SECONDS
        if wanted and absent and claim.now_ms - row.due_at >= NO_EXECUTOR_SECONDS * 1000:
            claim.ends.append(
                End(
                    run_id=row.id,
                    status=RunStatus.UNDELIVERED,
                    message=choice.words,
                    finished_at=claim.now_ms,
                )
            )

    def _settle(self, leave: int, now_ms: int) -> None:
        """Note what the broker said of published batches, until at most `leave` are open."""
        while len(self._on_the_way) > leave:
            self._note(self._on_the_way.popleft().receipt(), now_ms)

    def _note(self, receipt: Receipt, now_ms: int) -> None:
        sent = [item.trigger.run_id for item in receipt.confirmed]
        ends = [_returned(item, now_ms) for item in receipt.returned]
        ends += [_unsendable(item, why, now_ms) for item, why in receipt.unsendable]
        if sent or ends:
            self._ids.reserve()
            self._database.write(lambda session: self._record(session, sent, ends, now_ms))
        if receipt.unknown:
            self._on_unknown([item.trigger.run_id for item in receipt.unknown])
            log.warning("triggers_unconfirmed", count=len(receipt.unknown))

    def _record(self, session: Session, sent: list[int], ends: list[End], now_ms: int) -> None:
        if sent:
            runs.mark_sent(session, sent, node=self._node, now_ms=now_ms)
        if ends:
            self._completion.end(session, ends)

    def _pause(self, due: dict[int, int], now_ms: int) -> float:
        later = [due_at for due_at in due.values() if due_at > now_ms]
        return max(0.0, (min(later) - now_ms) / 1000) if later else 0.5


def _wanted(row: AnyRow) -> tuple[str, ...]:
    return tuple(row.wanted_addresses.split(",")) if row.wanted_addresses else ()


def _cancelled(row: AnyRow, job: AnyRow | None, now_ms: int) -> End:
    return End(
        run_id=row.id,
        status=RunStatus.CANCELLED,
        message="its job was deleted" if job is None else "its job was stopped",
        finished_at=now_ms,
        never_started=True,
    )


def _returned(item: Parcel, now_ms: int) -> End:
    return End(
        run_id=item.trigger.run_id,
        status=RunStatus.UNDELIVERED,
        message=f"the queue of executor {item.address} is missing",
        finished_at=now_ms,
        never_started=True,
    )


def _unsendable(item: Parcel, why: str, now_ms: int) -> End:
    return End(
        run_id=item.trigger.run_id,
        status=RunStatus.FAILED,
        message=f"cannot make its trigger: {why}",
        finished_at=now_ms,
        never_started=True,
    )
