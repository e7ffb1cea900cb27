"""One claiming transaction: locks due runs, looks at their jobs again, and routes them.

PLANNED ──> ROUTED with address and boot  |  CANCELLED: its job is gone  |  stays PLANNED
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from scheduler import aftermath, routing
from scheduler.aftermath import End
from scheduler.completion import Completion
from scheduler.delivery import Parcel, parcel
from scheduler.roster import Roster
from scheduler.routing import Choice, Memory, RouteRequest
from scheduler.workload import Workload
from sql import jobs, route_memory, runs
from sql.rows import AnyRow
from sql.run_status import RunStatus


@dataclass(slots=True)
class Claim:
    """For which app and executors runs are claimed, and what is decided.

    `full_jobs` are those with runs that stay PLANNED: their address is full, or away.
    """

    app_id: int
    app: str
    live: dict[str, str]
    now_ms: int
    memories: Mapping[int, Memory] = field(default_factory=dict)
    parcels: list[Parcel] = field(default_factory=list)
    routed: list[runs.Routed] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    new_memories: dict[int, Memory] = field(default_factory=dict)
    full_jobs: set[int] = field(default_factory=set)
    taken: Counter[str] = field(default_factory=Counter)


class Claimer:
    """Claims runs for one scheduler; it waits `no_executor_seconds` for an address that is away."""

    def __init__(
        self,
        *,
        node: str,
        completion: Completion,
        roster: Roster,
        workload: Workload,
        no_executor_seconds: float,
    ) -> None:
        self._node = node
        self._completion = completion
        self._roster = roster
        self._workload = workload
        self._no_executor_seconds = no_executor_seconds
        self._random = random.Random()  # noqa: S311 - spreads load

    def claim(self, session: Session, run_ids: list[int], claim: Claim) -> Claim:
        """Route what is still PLANNED of these runs and held by nobody else; return the claim.

        Raises:
            ValueError: one of the runs or jobs holds what cannot be routed or said.

        """
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

    def _route(self, row: AnyRow, job: AnyRow, claim: Claim) -> None:
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
        if not self._has_room(address, claim):
            claim.full_jobs.add(job.id)
            return  # it stays PLANNED
        if choice.memory is not None:
            claim.new_memories[job.id] = choice.memory
        boot_id = claim.live[address]
        words = self._words(row, claim.live, choice)
        claim.parcels.append(
            parcel(
                row,
                job,
                app=claim.app,
                address=address,
                boot_id=boot_id,
                routed_at=claim.now_ms,
            )
        )
        claim.routed.append(
            runs.Routed(run_id=row.id, address=address, boot_id=boot_id, message=words)
        )
        claim.taken[address] += 1

    def _has_room(self, address: str, claim: Claim) -> bool:
        return self._workload.has_room(claim.app_id, address, also=claim.taken[address])

    def _words(self, row: AnyRow, live: dict[str, str], choice: Choice) -> str:
        return (
            f"{row.kind}, attempt {row.attempt + 1}, {row.executor_fail_retry_count} retries left; "
            f"scheduler {self._node}; online: {', '.join(live)}; {choice.words}"
        )

    def _give_up_wanted(self, row: AnyRow, choice: Choice, claim: Claim) -> None:
        """End a run of which none of the addresses its user named was seen, or set it aside."""
        wanted = _wanted(row)
        absent_seconds = self._roster.absent_seconds(claim.app, wanted)
        waited_seconds = (claim.now_ms - row.due_at) / 1000
        if wanted and min(absent_seconds, waited_seconds) >= self._no_executor_seconds:
            claim.ends.append(undelivered(row, choice.words, claim.now_ms))
        else:
            claim.full_jobs.add(row.job_id)


def undelivered(row: AnyRow, why: str, now_ms: int) -> End:
    """Give up a run that is not routed; one that another scheduler has routed meanwhile stays."""
    return End(
        run_id=row.id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        only_from=RunStatus.PLANNED,
    )


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
