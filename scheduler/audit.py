"""The ledger: recomputes every due time from the history and finds it among rows and skips.

    due = fired + skipped + cancelled + purged, and nothing twice

A tick that nobody has decided yet, because it lies beyond its job's watermark, is not due here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from scheduler.schedule import Schedule
from sql import history, ledger
from sql.engine import Database
from sql.models import History, SkippedTicks
from sql.run_status import RunStatus

#: Due times computed at a time.
CHUNK = 10_000
#: Lost or doubled ticks that a report names; the rest is counted.
NAMED = 20


@dataclass(slots=True, kw_only=True)
class JobLedger:
    """What became of one job's due times; `lost` and `doubled` name the first ticks, epoch ms."""

    job_id: int
    name: str
    due: int = 0
    fired: int = 0
    skipped: int = 0
    cancelled: int = 0
    purged: int = 0
    lost_count: int = 0
    doubled_count: int = 0
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)

    def lose(self, tick: int) -> None:
        """Note a due time without a row or a skip."""
        self.lost_count += 1
        if len(self.lost) < NAMED:
            self.lost.append(tick)

    def double(self, tick: int) -> None:
        """Note a due time that was decided twice, or that was never due."""
        self.doubled_count += 1
        if len(self.doubled) < NAMED:
            self.doubled.append(tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The ledgers of all jobs, and how many runs are not over yet."""

    jobs: list[JobLedger]
    planned: int
    in_flight: int

    @property
    def is_sound(self) -> bool:
        """Whether no tick was lost or doubled."""
        return not any(job.lost_count or job.doubled_count for job in self.jobs)


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which one schedule of a job was enabled: ticks after `after_ms`, to `until_ms`."""

    schedule: Schedule
    anchor_ms: int
    after_ms: int
    until_ms: int

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
    changes: dict[int, list[History]] = {}
    for change in history.changes(session):
        if job_id in (None, change.job_id):
            changes.setdefault(change.job_id, []).append(change)
    ledgers = {}
    for one_id, made in changes.items():
        job = known.get(one_id)
        ledgers[one_id] = JobLedger(job_id=one_id, name=job.name if job else f"(deleted {one_id})")
        end_ms = job.trigger_last_time if job else made[-1].watermark
        for span in _spans(made, end_ms, bounds, timezone):
            _compare(session, span, ledgers[one_id])
    for row in ledger.doubled(session, after_ms=bounds[0], until_ms=bounds[1]):
        if row.job_id in ledgers:
            ledgers[row.job_id].double(row.scheduled_at)
    return AuditReport(
        jobs=sorted(ledgers.values(), key=lambda job: job.name),
        planned=ledger.open_runs(session, planned=True),
        in_flight=ledger.open_runs(session, planned=False),
    )


def _spans(
    changes: list[History], end_ms: int, bounds: tuple[int, int], timezone: str
) -> Iterator[_Span]:
    """Give the spans in which the job was enabled, cut to the bounds."""
    ends = [change.watermark for change in changes[1:]] + [end_ms]
    for change, end in zip(changes, ends, strict=True):
        after_ms, until_ms = max(change.watermark, bounds[0]), min(end, bounds[1])
        if change.enabled and after_ms < until_ms:
            schedule = Schedule.parse(
                change.schedule_type, change.schedule_conf or "", change.timezone or timezone
            )
            yield _Span(schedule, change.anchor, after_ms, until_ms)


def _compare(session: Session, span: _Span, job: JobLedger) -> None:
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
