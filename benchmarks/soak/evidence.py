"""Gathers what a soak left: its rows, skips and starts, the audit, and stray processes."""

from collections.abc import Sequence

from sqlalchemy import func, select

from benchmarks.soak import book
from benchmarks.soak.cluster import SoakCluster
from benchmarks.soak.jobs import SoakJob
from benchmarks.soak.verdict import Calendar, Evidence, Row, Skip
from warren.scheduler.audit.integrity_check import audit
from warren.sql.models import Job, Run, SkippedTicks
from warren.sql.run_status import BY_SCHEDULE, FINAL, Kind, RunStatus

_OF_SCHEDULES = {*BY_SCHEDULE, Kind.RETRY}


def open_runs(cluster: SoakCluster) -> int:
    """Return how many runs are not final."""
    statement = select(func.count()).select_from(Run).where(Run.status.not_in(FINAL))
    return int(cluster.deployment.database.read(lambda s: s.execute(statement).scalar_one()))


def gather(cluster: SoakCluster, jobs: Sequence[SoakJob], stopped_ms: int) -> Evidence:
    """Return the evidence; `stopped_ms`: until when every due time must be decided."""
    database = cluster.deployment.database
    columns = (Run.id, Run.job_id, Run.scheduled_at, Run.due_at, Run.shard_index, Run.attempt)
    found = database.read(lambda s: s.execute(select(*columns, Run.kind, Run.status)).all())
    rows = [
        Row(
            run=row.id,
            job=row.job_id,
            tick=row.scheduled_at,
            due=row.due_at,
            shard=row.shard_index,
            attempt=row.attempt,
            is_scheduled=row.kind in _OF_SCHEDULES,
            status=RunStatus(row.status),
        )
        for row in found
    ]
    skips = [
        Skip(one.job_id, one.from_at, one.to_at, one.count)
        for one in database.read(lambda s: list(s.execute(select(SkippedTicks)).scalars()))
    ]
    ids = database.read(lambda s: dict(s.execute(select(Job.name, Job.id)).all()))
    report = audit(database, since_ms=0, until_ms=stopped_ms, timezone="UTC")
    return Evidence(
        rows=rows,
        starts=book.read(cluster.book_path),
        skips=skips,
        calendars=_calendars(jobs, ids, rows, stopped_ms),
        audit_lost=sum(job.lost_count for job in report.jobs),
        audit_doubled=sum(job.doubled_count for job in report.jobs),
        orphans=list(map(str, cluster.orphans())),
        memory=cluster.memory,
    )


def _calendars(
    jobs: Sequence[SoakJob], ids: dict[str, int], rows: Sequence[Row], stopped_ms: int
) -> list[Calendar]:
    first: dict[int, int] = {}
    for row in rows:
        first[row.job] = min(row.tick, first.get(row.job, row.tick))
    regular = [(ids[one.spec.name], one.period_ms) for one in jobs if one.period_ms]
    return [Calendar(job, period, first.get(job, 0), stopped_ms) for job, period in regular]
