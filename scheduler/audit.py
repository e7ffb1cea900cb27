"""The ledger: recomputes every due time from the history and finds it among rows and skips.

    due = fired + skipped + cancelled + purged, and nothing twice

A tick that nobody has decided yet, because it lies beyond its job's watermark, is not due here.
Nor is a child's run: that it is there, and only where it may be, is held against its parent's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from scheduler.delay_audit import DelaySpan, audit_delays, audit_waiting
from scheduler.family_audit import audit_children, audit_shards
from scheduler.job_ledger import JobLedger, Ledgers
from scheduler.schedule import Schedule
from sql import families, history, ledger
from sql.engine import Database
from sql.models import History, SkippedTicks
from sql.run_status import RunStatus

#: Due times computed at a time.
CHUNK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The ledgers of all jobs, and how many runs are not over yet."""

    jobs: list[JobLedger]
    planned: int
    in_flight: int

    @property
    def is_sound(self) -> bool:
        """Whether no tick was lost or doubled."""
        return all(job.is_sound for job in self.jobs)


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which one schedule of a job was enabled: ticks after `after_ms`, to `until_ms`.

    `is_last`: it goes on, and `until_ms` is the job's watermark.
    """

    schedule: Schedule
    anchor_ms: int
    after_ms: int
    until_ms: int
    is_last: bool

    def ticks(self) -> Iterator[int]:
        after_ms = self.after_ms
        while found := self.schedule.ticks(after_ms, self.until_ms, self.anchor_ms, CHUNK):
            yield from found
            after_ms = found[-1]


def audit(
    database: Database, *, since_ms: int, until_ms: int, timezone: str, job_id: int | None = None
) -> AuditReport:
    """Return the ledger of the due times in (since, until], of all jobs or of one.

    Args:
        database: where rows, skips and history are.
        since_ms: epoch milliseconds; 0 = from the first.
        until_ms: epoch milliseconds.
        timezone: for jobs that name none.
        job_id: only this job.

    """
    return database.read(lambda session: _audit(session, (since_ms, until_ms), timezone, job_id))


def _audit(
    session: Session, bounds: tuple[int, int], timezone: str, job_id: int | None
) -> AuditReport:
    known = {row.id: row for row in ledger.jobs(session)}
    ledgers = Ledgers({one_id: row.name for one_id, row in known.items()}, job_id)
    for one_id, made in groupby(history.changes(session), lambda change: change.job_id):
        job, changes = ledgers.of(one_id), list(made)
        if job is None:
            continue
        end_ms = known[one_id].trigger_last_time if one_id in known else changes[-1].watermark
        for span in _spans(changes, end_ms, bounds, timezone):
            _compare(session, span, job)
    for row in ledger.doubled(session, after_ms=bounds[0], until_ms=bounds[1]):
        if job := ledgers.of(row.job_id):
            job.double(row.scheduled_at)
    audit_shards(session, ledgers, bounds)
    audit_children(session, ledgers, bounds)
    audit_waiting(session, ledgers)
    return AuditReport(
        jobs=ledgers.all(),
        planned=ledger.open_runs(session, planned=True),
        in_flight=ledger.open_runs(session, planned=False),
    )


def audit_stretch(
    session: Session, job_id: int, bounds: tuple[int, int], timezone: str
) -> JobLedger | None:
    """Return the ledger of one job for a stretch of time, None when there is no such job.

    Reads nothing of other jobs but of its parents, so that its cost is that of its ticks in the
    stretch. What is between two stretches that follow each other, as the distance of two ticks of a
    fixed delay, neither of them sees; nor does it see a fixed delay that waits for ever.
    """
    known = ledger.jobs(session, job_id)
    if not known:
        return None
    ledgers = Ledgers({job_id: known[0].name}, job_id)
    job = ledgers.of(job_id)
    assert job is not None
    changes = list(history.changes_of(session, job_id))
    for span in _spans(changes, known[0].trigger_last_time, bounds, timezone):
        _compare(session, span, job)
    for row in ledger.doubled(session, after_ms=bounds[0], until_ms=bounds[1], job_id=job_id):
        job.double(row.scheduled_at)
    audit_shards(session, ledgers, bounds, job_id=job_id)
    if families.parents(session, [job_id]):
        audit_children(session, ledgers, bounds)
    return job


def _spans(
    changes: list[History], end_ms: int, bounds: tuple[int, int], timezone: str
) -> Iterator[_Span]:
    """Give the spans in which the job was enabled, cut to the bounds; a job may have none."""
    if not changes:
        return
    ends = [change.watermark for change in changes[1:]] + [end_ms]
    for change, end in zip(changes, ends, strict=True):
        after_ms, until_ms = max(change.watermark, bounds[0]), min(end, bounds[1])
        if change.enabled and after_ms < until_ms:
            schedule = Schedule.parse(
                change.schedule_type, change.schedule_conf or "", change.timezone or timezone
            )
            is_last = change is changes[-1] and until_ms == end_ms
            yield _Span(schedule, change.anchor, after_ms, until_ms, is_last)


def _compare(session: Session, span: _Span, job: JobLedger) -> None:
    delay_ms = span.schedule.after_completion(0)
    if delay_ms is None:
        _compare_computed(session, span, job)
        return
    last_ms = span.until_ms if span.is_last else None
    found = DelaySpan(delay_ms, span.anchor_ms, span.after_ms, span.until_ms, last_ms)
    audit_delays(session, found, job)


def _compare_computed(session: Session, span: _Span, job: JobLedger) -> None:
    rows = dict(
        ledger.ticks_with_rows(session, job.job_id, after_ms=span.after_ms, until_ms=span.until_ms)
    )
    skipped = _Skipped(ledger.skips(session, job.job_id))
    purged_until = ledger.purged_until(session, job.job_id)
    for tick in span.ticks():
        job.due += 1
        status = rows.pop(tick, None)
        in_skip = skipped.covers(tick)
        if status is not None and in_skip:
            job.double(tick)
        elif status == RunStatus.CANCELLED:
            job.cancelled += 1
        elif status is not None:
            job.fired += 1
        elif in_skip:
            job.skipped += 1
        elif tick <= purged_until:
            job.purged += 1
        else:
            job.lose(tick)
    for tick in rows:
        job.double(tick)


class _Skipped:
    """Skipped ranges in order, asked about ascending ticks."""

    def __init__(self, skips: Iterable[SkippedTicks]) -> None:
        self._ranges = [(skip.from_at, skip.to_at) for skip in skips]
        self._at = 0

    def covers(self, tick: int) -> bool:
        while self._at < len(self._ranges) and self._ranges[self._at][1] < tick:
            self._at += 1
        return self._at < len(self._ranges) and self._ranges[self._at][0] <= tick
