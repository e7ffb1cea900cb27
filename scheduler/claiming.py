"""One claiming transaction: locks due runs, looks at their jobs again, and routes them.

    PLANNED ──> ROUTED with address and boot  |  CANCELLED: its job is gone  |  stays PLANNED
            └─> UNDELIVERED: nobody can, or will, take it

A run stays PLANNED while its executor is full or away, or its route waits for an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy.orm import Session

from scheduler import aftermath, expansion
from scheduler.aftermath import End
from scheduler.choosing import Chooser, RouteFailed
from scheduler.claim import Claim, undelivered
from scheduler.completion import Completion
from scheduler.delivery import Parcel, parcel
from scheduler.probe_answers import ANSWER_SECONDS
from scheduler.probes import Probes
from scheduler.roster import Roster
from scheduler.route_choice import Choice, Router, RouteRequest
from scheduler.scripts import Script, Scripts
from scheduler.workload import Workload
from sql import jobs, route_memory, runs
from sql.ids import RunIds
from sql.rows import AnyRow
from sql.run_status import RunStatus
from sql.shards import Shard

#: Triggers of one claim from which on a further broadcast waits for the next.
SHARDS_LIMIT = 2_000
#: Characters of scripts in one claim from which on a further one waits for the next.
SCRIPT_CHARACTERS = 8_000_000


@dataclass(frozen=True, slots=True)
class _Due:
    """A run that was locked, its job, and the script that it runs, if it does."""

    row: AnyRow
    job: AnyRow
    script: Script | None = None


class Claimer:
    """Claims runs for one scheduler; it waits `no_executor_seconds` for an address that is away.

    `ids` are for the shards of broadcasts, `routers` are all routes there are.
    """

    def __init__(
        self,
        *,
        node: str,
        ids: RunIds,
        completion: Completion,
        roster: Roster,
        workload: Workload,
        probes: Probes,
        routers: Mapping[str, Router],
        no_executor_seconds: float,
    ) -> None:
        self._node = node
        self._ids = ids
        self._completion = completion
        self._roster = roster
        self._workload = workload
        self._no_executor_seconds = no_executor_seconds
        self._chooser = Chooser(probes, routers)
        self._scripts = Scripts()

    def claim(self, session: Session, run_ids: list[int], claim: Claim) -> Claim:
        """Route what is still PLANNED of these runs and held by nobody else; return the claim.

        Raises:
            ValueError: one of the runs or jobs holds what cannot be said in a trigger.

        """
        rows = runs.claim(session, run_ids)
        known = jobs.for_runs(session, {row.job_id for row in rows})
        remembering = {job.id for job in known.values() if self._chooser.needs_memory(job)}
        claim.scripts = self._scripts.read(session, [row.glue_id for row in rows])
        claim.memories = route_memory.lock(session, remembering) if remembering else {}
        for row in rows:
            job = known.get(row.job_id)
            if job is None or aftermath.was_stopped(row, job):
                claim.ends.append(_cancelled(row, job, claim.now_ms))
            elif row.glue_id is not None:
                self._route_script(session, row, job, claim)
            else:
                self._route(session, _Due(row, job), claim)
        if claim.routed:
            runs.route(session, claim.routed, node=self._node, now_ms=claim.now_ms)
        expansion.write(session, claim.totals, claim.shards, node=self._node, now_ms=claim.now_ms)
        route_memory.store(session, claim.new_memories)
        runs.explain(session, claim.explained)
        if claim.ends:
            self._completion.end(session, claim.ends)
        return claim

    def _route_script(self, session: Session, row: AnyRow, job: AnyRow, claim: Claim) -> None:
        """Route the run of a script, unless this claim has read or sent enough of them."""
        if row.glue_id not in claim.scripts or claim.script_characters >= SCRIPT_CHARACTERS:
            return  # it stays PLANNED
        script = claim.scripts[row.glue_id]
        if script is None:
            why = f"version {row.glue_id} of its script is gone"
            claim.ends.append(undelivered(row, why, claim.now_ms))
            return
        before = len(claim.parcels)
        self._route(session, _Due(row, job, script), claim)
        claim.script_characters += len(script.source) * max(1, len(claim.parcels) - before)

    def _route(self, session: Session, due: _Due, claim: Claim) -> None:
        row, job = due.row, due.job
        try:
            request = self._chooser.request(row, job, claim)
            if request.candidates and expansion.is_unexpanded(row, job):
                self._broadcast(session, due, request, claim)
                return
            choice = self._chooser.choose(row, job, request, claim)
        except RouteFailed as error:
            why = f"it cannot be routed: {error}"
            claim.ends.append(undelivered(row, why, claim.now_ms, pause_seconds=ANSWER_SECONDS))
            return
        if choice is None:
            return  # it stays PLANNED
        if choice.address is None:
            self._give_up(row, request, choice, claim)
        elif self._has_room(choice.address, claim):
            self._send(due, choice, row.shard_total or 1, claim)
        else:
            claim.full_jobs.add(job.id)  # it stays PLANNED

    def _broadcast(self, session: Session, due: _Due, request: RouteRequest, claim: Claim) -> None:
        """Make a run as many shards as there are executors, once each of them has room."""
        total = len(request.candidates)
        if claim.parcels and len(claim.parcels) + total > SHARDS_LIMIT:
            return  # it stays PLANNED for the next claim
        if not all(self._has_room(address, claim) for address in request.candidates):
            claim.full_jobs.add(due.job.id)
            return
        first, *others = expansion.choices(request)
        zero = self._send(due, first, total, claim)
        for index, run_id in enumerate(self._ids.take(session, total - 1), 1):
            shard = Shard(
                zero_id=due.row.id,
                run_id=run_id,
                index=index,
                total=total,
                address=request.candidates[index],
                boot_id=claim.live[request.candidates[index]],
                message=self._words(due.row, claim, others[index - 1]),
            )
            claim.shards.append(shard)
            claim.add(expansion.shard_parcel(zero, shard))

    def _send(self, due: _Due, choice: Choice, total: int, claim: Claim) -> Parcel:
        row, job = due.row, due.job
        address = choice.address or ""
        boot_id = claim.live[address]
        item = parcel(
            row,
            job,
            app=claim.app,
            address=address,
            boot_id=boot_id,
            routed_at=claim.now_ms,
            script=due.script,
        )
        if total != row.shard_total:
            claim.totals[row.id] = total
            trigger = msgspec.structs.replace(item.trigger, shard_total=total)
            item = replace(item, trigger=trigger)
        claim.add(item)
        words = self._words(row, claim, choice)
        claim.routed.append(
            runs.Routed(run_id=row.id, address=address, boot_id=boot_id, message=words)
        )
        if choice.memory is not None:
            claim.new_memories[job.id] = choice.memory
        return item

    def _has_room(self, address: str, claim: Claim) -> bool:
        return self._workload.has_room(claim.app_id, address, also=claim.taken[address])

    def _words(self, row: AnyRow, claim: Claim, choice: Choice) -> str:
        away = f"; listed and away: {', '.join(claim.away)}" if claim.away else ""
        wanted = f"; wanted: {row.wanted_addresses}" if row.wanted_addresses else ""
        return (
            f"{row.kind}, attempt {row.attempt + 1}, {row.executor_fail_retry_count} retries left; "
            f"scheduler {self._node}; online: {', '.join(claim.live)}{away}{wanted}; {choice.words}"
        )

    def _give_up(self, row: AnyRow, request: RouteRequest, choice: Choice, claim: Claim) -> None:
        """End a run that nobody takes, or set its job aside while that is not sure.

        An executor's word is sure; that none was heard, or seen, is so only after a while.
        """
        answers = (request.probes or {}).values()
        if request.candidates and (not answers or any(answer.heard for answer in answers)):
            pause_seconds = ANSWER_SECONDS  # a retry at once would be told the same
        elif self._unseen_seconds(row, request, claim) >= self._no_executor_seconds:
            pause_seconds = 0.0
        else:
            claim.full_jobs.add(row.job_id)
            return
        claim.explained[row.id] = self._words(row, claim, choice)
        claim.ends.append(undelivered(row, choice.words, claim.now_ms, pause_seconds=pause_seconds))

    def _unseen_seconds(self, row: AnyRow, request: RouteRequest, claim: Claim) -> float:
        """Return for how long none of the executors that may take a run was heard or seen."""
        waited_seconds: float = (claim.now_ms - row.due_at) / 1000
        if request.candidates:  # they beat, and do not answer
            return min(waited_seconds, self._roster.healthy_seconds)
        meant = request.wanted or request.away
        if not meant:
            return 0.0  # the dispatcher looks after apps without any executor
        return min(waited_seconds, self._roster.absent_seconds(claim.app, meant))


def _cancelled(row: AnyRow, job: AnyRow | None, now_ms: int) -> End:
    return End(
        run_id=row.id,
        status=RunStatus.CANCELLED,
        message="its job was deleted" if job is None else "its job was stopped",
        finished_at=now_ms,
        never_started=True,
    )
