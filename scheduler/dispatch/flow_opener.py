"""Opens claimed runs of flows: they need no executor, and their `block` decides among flows.

The claim holds the lock of the flow's job meanwhile, so that two schedulers do not both find that
none of its runs is running.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sqlalchemy.orm import Session

from warren.broker.messages.values import Block
from warren.broker.reasons.codes import Why, Words
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.scheduler.dispatch.claim import ClaimOutcome
from warren.scheduler.jobs.script_cache import Script
from warren.sql.jobs import jobs
from warren.sql.jobs.jobs import JobToRun
from warren.sql.models.jobs import FLOW_TYPE
from warren.sql.run_status import RunStatus
from warren.sql.runs import flow_nodes, transitions
from warren.sql.runs.run_rows import PlannedRun

#: Orders the runs of a flow, as executors order those of a job: by tick, then by id.
Age: TypeAlias = tuple[int, int]


def is_flow(row: PlannedRun, scripts: Mapping[int, Script | None]) -> bool:
    """Whether a run is that of a flow."""
    script = scripts.get(row.script_version) if row.script_version is not None else None
    return script is not None and script.language == FLOW_TYPE.lower()


class FlowOpener:
    """Decides about the runs of flows in one claim.

    Args:
        completion: opens flows, and ends what follows at once.
        outcome: where the decisions go.
        now_ms: the time, in epoch milliseconds.

    """

    def __init__(self, completion: Completion, outcome: ClaimOutcome, now_ms: int) -> None:
        self._completion = completion
        self._outcome = outcome
        self._now_ms = now_ms

    def open(
        self, session: Session, rows: Sequence[PlannedRun], known: Mapping[int, JobToRun]
    ) -> None:
        """Open the flows that may run now; the others wait, or are refused."""
        held = jobs.try_lock(session, {row.job_id for row in rows})
        running = flow_nodes.running(session, rows[0].app_id, held)
        opened: dict[int, PlannedRun] = {}
        for row in rows:
            if row.job_id not in held:
                continue  # somebody changes the job just now
            job, underway = known[row.job_id], running.setdefault(row.job_id, [])
            if job.block == Block.COVER_EARLY:
                self._drop_older(row, job, underway, opened)
            if len(underway) < max(1, job.concurrency):
                underway.append(_age(row))
                opened[row.id] = row
            else:
                self._block(session, row, job, underway)
        if opened:
            work = self._completion.flows.open(session, sorted(opened))
            tally = self._completion.carry_on(session, work)
            self._outcome.opened += opened
            self._outcome.ended += tally.ended

    def _drop_older(
        self, row: PlannedRun, job: JobToRun, underway: list[Age], opened: dict[int, PlannedRun]
    ) -> None:
        """Make room for a run by refusing older ones that this claim would open."""
        for age in sorted(underway):
            is_older = age < _age(row) and age[1] in opened
            if is_older and len(underway) >= max(1, job.concurrency):
                underway.remove(age)
                self._refuse(opened.pop(age[1]), Why.FLOW_OUTDATED(id=row.id))

    def _block(
        self, session: Session, row: PlannedRun, job: JobToRun, underway: Sequence[Age]
    ) -> None:
        """Decide about a run of a flow whose other runs still run."""
        if job.block == Block.DISCARD_LATER:
            self._refuse(row, Why.FLOW_RUNS(id=underway[0][1]))
        elif job.block == Block.COVER_EARLY and _age(row) < max(underway):
            self._refuse(row, Why.FLOW_OUTDATED(id=max(underway)[1]))
        else:
            if job.block == Block.COVER_EARLY:
                covered = sorted(run_id for _, run_id in underway)
                transitions.request_kills(session, covered, now_ms=self._now_ms)
            self._outcome.full_jobs[job.id] = None

    def _refuse(self, row: PlannedRun, why: Words) -> None:
        self._outcome.ends.append(
            End(
                run_id=row.id,
                status=RunStatus.REFUSED,
                message=why,
                finished_at=self._now_ms,
                never_started=True,
            )
        )


def _age(row: PlannedRun) -> Age:
    return row.scheduled_at, row.id
