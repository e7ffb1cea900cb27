"""Turns ticks into PLANNED rows, five seconds ahead; it never sends anything.

One transaction claims due jobs, inserts a row for every tick in the window, and moves each job's
watermark. A crash before the commit leaves all to another scheduler, a crash after it leaves
nothing to do: the rows are the timer.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.orm import Session

from scheduler.bisection import bisect
from scheduler.misfire import MisfirePolicy, Plan, decide
from scheduler.routing import planned_shards
from scheduler.schedule import Schedule
from sql import history, jobs, run_queries, runs
from sql.engine import Database
from sql.errors import DatabaseUnavailable
from sql.ids import RunIds
from sql.models import SkippedTicks
from sql.parked import PARKED_MS
from sql.rows import AnyRow
from sql.run_status import Kind

#: Why a job was stopped that did all it was to do; any other reason is a fault.
NO_FURTHER_TIME = "its schedule has no further fire time"
#: How far ahead ticks are planned (XXL-JOB's pre-read).
WINDOW_MS = 5_000
#: How near a tick must be for planning to begin. Less than the window, because most ticks are at
#: full seconds: were it the window itself, they would be planned just when others are to be sent.
BEGIN_MS = 4_700
#: A tick later than this has misfired (XXL-JOB's limit).
LATE_MS = 5_000
#: Overdue rows of one job from which on further ticks are skipped.
OVERDUE_LIMIT = 100
#: Jobs claimed in one transaction.
BATCH = 200
#: How long the count of overdue rows is believed, and how many times as long as it took: during a
#: long pause there may be a million.
OVERDUE_AGE_MS = 1_000
OVERDUE_TIMES = 20

log = structlog.get_logger()


@dataclass(slots=True)
class _Batch:
    """What one transaction writes."""

    planned: list[runs.NewRun]
    advanced: list[dict[str, int]]
    skips: list[SkippedTicks]
    stops: list[jobs.Stop]


class Planner:
    """Plans what comes due; any number of planners share the work by SKIP LOCKED.

    Args:
        database: where jobs and runs are.
        ids: where run ids come from; this planner's own.
        timezone: for jobs that name none.
        on_planned: called after a commit that planned runs.

    """

    def __init__(
        self, database: Database, ids: RunIds, *, timezone: str, on_planned: Callable[[], None]
    ) -> None:
        self._database = database
        self._ids = ids
        self._timezone = timezone
        self._on_planned = on_planned
        self._overdue: dict[int, int] = {}
        self._overdue_at = 0
        self._overdue_age_ms = OVERDUE_AGE_MS

    def tick(self, now_ms: int) -> float:
        """Plan one batch; return the seconds until the next round, 0 when there may be more."""
        next_ms = self._database.read(jobs.next_tick)
        if next_ms is None or next_ms > now_ms + BEGIN_MS:
            return 0.5 if next_ms is None else (next_ms - BEGIN_MS - now_ms) / 1000
        self._count_overdue(now_ms)
        self._ids.reserve()
        try:
            claimed = self._plan_batch(now_ms)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("batch_not_planned")
            claimed = self._plan_apart(now_ms)
        return 0 if claimed == BATCH else 0.05

    def _plan_batch(self, now_ms: int, only: Collection[int] | None = None) -> int:
        claimed, planned = self._database.write(lambda session: self._plan(session, now_ms, only))
        if planned:
            self._on_planned()
        return claimed

    def _plan_apart(self, now_ms: int) -> int:
        """Plan a batch that cannot be written whole; stop the job that is at fault."""

        def claim(session: Session) -> list[AnyRow]:
            return list(jobs.claim_due(session, until_ms=now_ms + WINDOW_MS, limit=BATCH))

        def plan(part: Sequence[AnyRow]) -> None:
            self._plan_batch(now_ms, {job.id for job in part})

        def stop(job: AnyRow, error: Exception) -> None:
            reason = f"its runs cannot be planned: {' '.join(str(error).split())}"
            self._database.write(
                lambda session: self._write_stops(session, [_stop(job, reason)], now_ms)
            )

        claimed = self._database.write(claim)
        bisect(claimed, plan, stop)
        return len(claimed)

    def _plan(self, session: Session, now_ms: int, only: Collection[int] | None) -> tuple[int, int]:
        claimed = [
            job
            for job in jobs.claim_due(session, until_ms=now_ms + WINDOW_MS, limit=BATCH)
            if only is None or job.id in only
        ]
        batch = _Batch([], [], [], [])
        for job in claimed:
            try:
                plan = self._decide(job, now_ms)
            except Exception as error:  # noqa: BLE001 - one job's schedule must not stop the others
                batch.stops.append(_stop(job, f"its schedule cannot be computed: {error}"))
                continue
            self._collect(job, plan, batch, now_ms)
        runs.plan(session, batch.planned, self._ids)
        history.record_skips(session, batch.skips)
        if batch.advanced:
            jobs.advance(session, batch.advanced)
        self._write_stops(session, batch.stops, now_ms)
        return len(claimed), len(batch.planned)

    def _decide(self, job: AnyRow, now_ms: int) -> Plan:
        schedule = Schedule.parse(
            job.schedule_type, job.schedule_conf or "", job.timezone or self._timezone
        )
        return decide(
            schedule,
            anchor_ms=job.trigger_next_time,
            watermark_ms=job.trigger_last_time,
            now_ms=now_ms,
            window_ms=WINDOW_MS,
            late_ms=LATE_MS,
            policy=MisfirePolicy(job.misfire_strategy),
            overdue_rows=self._overdue.get(job.id, 0),
            overdue_limit=OVERDUE_LIMIT,
        )

    def _collect(self, job: AnyRow, plan: Plan, batch: _Batch, now_ms: int) -> None:
        for fire in plan.fires:
            batch.planned.append(
                runs.NewRun(
                    job_group=job.job_group,
                    job_id=job.id,
                    handler=job.executor_handler or "",
                    param=job.executor_param or "",
                    kind=Kind(fire.kind),
                    scheduled_at=fire.scheduled_at_ms,
                    due_at=fire.due_at_ms,
                    retries_left=job.executor_fail_retry_count,
                    shard_total=planned_shards(job.executor_route_strategy),
                    glue_id=job.glue_id,
                )
            )
        batch.skips += [
            SkippedTicks(
                job_id=job.id,
                from_at=skip.from_ms,
                to_at=skip.to_ms,
                count=skip.count,
                reason=skip.reason[:255],
                recorded_at=now_ms,
            )
            for skip in plan.skips
        ]
        for skip in plan.skips:
            log.warning("ticks_skipped", job_id=job.id, count=skip.count, reason=skip.reason)
        if plan.next_ms is None and not plan.waits:
            batch.stops.append(_stop(job, NO_FURTHER_TIME, plan.watermark_ms))
            return
        batch.advanced.append(
            {
                "id": job.id,
                "trigger_last_time": plan.watermark_ms,
                "trigger_next_time": PARKED_MS if plan.next_ms is None else plan.next_ms,
            }
        )

    def _write_stops(self, session: Session, stops: Sequence[jobs.Stop], now_ms: int) -> None:
        jobs.stop(session, stops)
        history.record_stops(session, stops, by="scheduler", now_ms=now_ms)

    def _count_overdue(self, now_ms: int) -> None:
        if 0 <= now_ms - self._overdue_at < self._overdue_age_ms:
            return
        began_at = time.monotonic()
        self._overdue = self._database.read(
            lambda session: run_queries.overdue_counts(session, before_ms=now_ms - LATE_MS)
        )
        self._overdue_at = now_ms
        took_ms = round((time.monotonic() - began_at) * 1000)
        self._overdue_age_ms = max(OVERDUE_AGE_MS, OVERDUE_TIMES * took_ms)


def _stop(job: AnyRow, reason: str, watermark_ms: int | None = None) -> jobs.Stop:
    """Return that a job stops by itself, and log it."""
    if reason == NO_FURTHER_TIME:
        log.info("job_ended", job_id=job.id, job=job.job_desc)
    else:
        log.warning("job_stopped", job_id=job.id, job=job.job_desc, reason=reason)
    watermark = job.trigger_last_time if watermark_ms is None else watermark_ms
    return jobs.Stop(job_id=job.id, watermark_ms=watermark, reason=reason)
