"""Gathers what a soak left: its rows, skips and starts, the audit, and stray processes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import func, select

from benchmarks.soak import book, shares
from benchmarks.soak.book import Start
from benchmarks.soak.cluster import SoakCluster
from benchmarks.soak.flows import FlowRun, Last, NodeRow, SoakFlow
from benchmarks.soak.jobs import REMOTE_APP, SoakJob
from benchmarks.soak.verdict import Calendar, Evidence, Row, Skip
from warren.broker.stored_reasons import from_json
from warren.scheduler.audit.integrity_check import audit
from warren.sql.engine import Database
from warren.sql.models import Backfill, FlowNode, Job, Run, SkippedTicks
from warren.sql.run_status import BY_SCHEDULE, FINAL, NEVER_STARTED, Kind, RunStatus

_OF_SCHEDULES = {*BY_SCHEDULE, Kind.RETRY}


def open_runs(cluster: SoakCluster) -> int:
    """Return how many runs are not final."""
    statement = select(func.count()).select_from(Run).where(Run.status.not_in(FINAL))
    return int(cluster.deployment.database.read(lambda s: s.execute(statement).scalar_one()))


def open_backfills(cluster: SoakCluster) -> int:
    """Return how many backfills are not over."""
    statement = select(func.count()).select_from(Backfill).where(Backfill.ended_at.is_(None))
    return int(cluster.deployment.database.read(lambda s: s.execute(statement).scalar_one()))


def gather(
    cluster: SoakCluster, jobs: Sequence[SoakJob], stopped_ms: int, filled: Calendar
) -> Evidence:
    """Return the evidence.

    `stopped_ms`: until when every due time must be decided. `filled`: what backfills had to run.
    """
    database = cluster.deployment.database
    ids = database.read(lambda s: dict(s.execute(select(Job.name, Job.id)).all()))
    flows = {ids[one.spec.name]: one.flow for one in jobs if one.flow}
    rows = rows_of(database, flows)
    skips = [
        Skip(one.job_id, one.from_at, one.to_at, one.count)
        for one in database.read(lambda s: list(s.execute(select(SkippedTicks)).scalars()))
    ]
    called = cluster.gateways.called() if cluster.gateways else Counter[int]()
    remote = {ids[one.spec.name] for one in jobs if one.spec.app == REMOTE_APP}
    report = audit(database, since_ms=0, until_ms=stopped_ms, timezone="UTC")
    return Evidence(
        rows=rows,
        starts=[*book.read(cluster.book_path), *_calls(called, rows)],
        skips=skips,
        calendars=_calendars(jobs, ids, rows, stopped_ms),
        filled=[replace(filled, job=ids[one.spec.name]) for one in jobs if one.is_filled],
        flows=flow_runs(database, rows, flows, stopped_ms),
        exceeded=shares.exceeded(cluster.book_path.parent),
        audit_lost=sum(job.lost_count for job in report.jobs),
        audit_doubled=sum(job.doubled_count for job in report.jobs),
        orphans=list(map(str, cluster.orphans())),
        uncalled={row.run for row in rows if row.job in remote} - called.keys(),
        unshipped=cluster.services.unshipped,
        untold=max(0, cluster.services.failovers_with_loss - len(report.epochs)),
        memory=cluster.memory,
    )


def rows_of(database: Database, flows: Collection[int]) -> list[Row]:
    """Return every run; `flows` are the ids of the jobs that are flows."""
    columns = (Run.id, Run.job_id, Run.scheduled_at, Run.due_at, Run.shard_index, Run.attempt)
    more = (Run.kind, Run.status, Run.flow_run_id, Run.origin_id, Run.routed_at, Run.finished_at)
    end = (Run.late_status, Run.message_why)
    found = database.read(lambda s: s.execute(select(*columns, *more, *end)).all())
    return [
        Row(
            run=row.id,
            job=row.job_id,
            tick=row.scheduled_at,
            due=row.due_at,
            shard=row.shard_index,
            attempt=row.attempt,
            is_scheduled=row.kind in _OF_SCHEDULES and row.flow_run_id is None,
            is_backfill=row.kind == Kind.BACKFILL,
            is_flow=row.job_id in flows,
            was_unstarted=row.late_status == NEVER_STARTED,
            why=why.code.name if (why := from_json(row.message_why)) else "",
            node=row.origin_id if row.flow_run_id is not None else 0,
            status=RunStatus(row.status),
            was_routed=row.routed_at is not None,
            finished=row.finished_at,
        )
        for row in found
    ]


def flow_runs(
    database: Database, rows: Sequence[Row], flows: dict[int, SoakFlow], stopped_ms: int
) -> list[FlowRun]:
    """Return the runs of flows, with their nodes; `stopped_ms`: since when none is repeated."""
    last: dict[int, dict[int, Last]] = defaultdict(dict)
    for row in sorted(rows, key=lambda one: one.attempt):
        if row.node:
            last[row.node][row.shard] = Last(row.run, row.attempt, row.status)
    nodes: dict[int, dict[str, NodeRow]] = defaultdict(dict)
    for node in database.read(lambda s: list(s.execute(select(FlowNode)).scalars())):
        outcome, is_kept = node.kept_outcome or node.outcome, node.outcome == "KEPT"
        nodes[node.flow_run_id][node.node] = NodeRow(outcome, is_kept, last[node.id])
    return [
        FlowRun(
            flows[row.job],
            row.run,
            row.tick,
            row.attempt,
            row.status,
            nodes[row.run],
            is_repeated=(row.finished or 0) < stopped_ms,
        )
        for row in rows
        if row.is_flow
    ]


def _calls(called: Mapping[int, int], rows: Sequence[Row]) -> Iterator[Start]:
    """Yield a start for each call to an executor behind gateways, which knows the run's id only."""
    for row in rows:
        for _ in range(called.get(row.run, 0)):
            yield Start(row.run, row.job, row.tick, row.shard, row.attempt, row.due)


def _calendars(
    jobs: Sequence[SoakJob], ids: dict[str, int], rows: Sequence[Row], stopped_ms: int
) -> list[Calendar]:
    first: dict[int, int] = {}
    for row in rows:
        first[row.job] = min(row.tick, first.get(row.job, row.tick))
    regular = [(ids[one.spec.name], one.period_ms) for one in jobs if one.period_ms]
    return [Calendar(job, period, first.get(job, 0), stopped_ms) for job, period in regular]
