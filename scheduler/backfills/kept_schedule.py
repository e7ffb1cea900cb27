"""The schedule that a backfill was made with, and the due times that it has in spans of time.

A backfill keeps it as facts in JSON, so that an edit of its job changes none of its due times, and
the audit can compute them again.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple, Self, TypeAlias

from sqlalchemy.orm import Session

from warren.scheduler.jobs.new_run import calendars_for_runs
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import calendars_for, load_calendars, read_schedule
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of, zone_or_utc
from warren.scheduler.schedules.schedule import Schedule, ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import Calendars, UnknownDay
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.models import Backfill, Job
from warren.sql.models.job_tables import Selection
from warren.sql.run_status import FINE, OPEN, RunStatus
from warren.sql.runs import backfills
from warren.sql.runs.run_rows import RunFacts

#: A job with the columns that decide about its due times and their run dates.
FilledJob: TypeAlias = Job | JobToPlan
#: The most due times of a backfill.
MAX_TICKS = 10_000
#: The first date that a due time can have.
FIRST_DATE = date(1970, 1, 2)


class Span(NamedTuple):
    """A span of time, (after, until], in epoch milliseconds."""

    after_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Dates(Schedule):
    """Each date once, at its first moment in a zone; for jobs that have no due times."""

    kind = "DATES"

    timezone: str

    @classmethod
    def read(cls, _value: str, timezone: str) -> Self:
        """Read nothing but the zone."""
        return cls(timezone)

    def next_after(self, after_ms: int, _anchor_ms: int) -> int | None:
        """Return the beginning of the next date."""
        return self._step(after_ms, 1, lambda begin: begin > after_ms)

    def last_until(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int | None:
        """Return the beginning of the last date in this span."""
        last = self._step(until_ms, -1, lambda begin: begin <= until_ms)
        return last if last > after_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the dates that begin in this span, up to one more than a backfill may have."""
        return len(self.ticks(after_ms, until_ms, anchor_ms, MAX_TICKS + 1))

    def _step(self, from_ms: int, days: int, is_wanted: Callable[[int], bool]) -> int:
        day = _local_date(from_ms, self.timezone)
        while not is_wanted(begin := first_moment(day, self.timezone)):
            day += timedelta(days=days)
        return begin


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSchedule:
    """The schedule that decides a backfill's due times and run dates; `anchor_ms` is any tick.

    `calendar` is that of the run dates; each transaction reads the `calendars` again.
    """

    facts: ScheduleFacts
    anchor_ms: int = 0
    days: int = 0
    months: int = 0
    workdays: int = 0
    calendar: str = ""
    calendars: Calendars = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, session: Session, job: FilledJob, zone: str, anchor_ms: int) -> Self:
        """Return the present schedule of a job; `zone` is that of jobs that name none."""
        return cls(
            facts=ScheduleFacts.of(job, job.timezone or zone),
            anchor_ms=anchor_ms,
            days=job.run_date_days,
            months=job.run_date_months,
            workdays=job.run_date_workdays,
            calendar=job.run_date_calendar or "",
            calendars={**calendars_for(session, [job]), **calendars_for_runs(session, [job])},
        )

    @classmethod
    def of_dates(cls, timezone: str) -> Self:
        """Return a schedule that has each date once."""
        return cls(facts=ScheduleFacts(Dates.kind, "", timezone))

    @classmethod
    def load(cls, session: Session, stored: str) -> Self:
        """Return the schedule that `to_json` wrote, with the calendars that it needs."""
        kept = cls.from_json(stored)
        names = [ScheduleOptions.from_json(kept.facts.options).calendar, kept.calendar]
        return replace(kept, calendars=load_calendars(session, names))

    @classmethod
    def from_json(cls, stored: str) -> Self:
        """Return the schedule that `to_json` wrote, without the calendars."""
        said = json.loads(stored)
        return cls(**said | {"facts": ScheduleFacts(**said["facts"])})

    def to_json(self) -> str:
        """Return the facts as text, without the calendars."""
        facts = asdict(replace(self, calendars={}))
        del facts["calendars"]
        return json.dumps(facts)

    @property
    def timezone(self) -> str:
        """The IANA name of its zone."""
        return self.facts.timezone

    @property
    def schedule(self) -> Ticks:
        """The schedule, to compute due times with; raises `Problem` if it cannot be read."""
        if self.is_of_dates:
            return Dates.read("", self.timezone)
        return read_schedule(self.facts, self.calendars)

    @property
    def is_of_dates(self) -> bool:
        """Whether it has each date once, whatever the job's schedule."""
        return self.facts.kind == Dates.kind

    @property
    def rule(self) -> RunDateRule:
        """The rule that derives run dates from due times."""
        calendar = self.calendars.get(self.calendar)
        return RunDateRule(self.days, self.months, self.workdays, calendar)

    def run_date(self, tick: int) -> date:
        """Return the date that the run of a due time is about."""
        return run_date_of(tick, self.timezone, self.rule)

    def known_date(self, tick: int) -> date | None:
        """Return the date that the run of a due time is about; None if the calendar ends before."""
        try:
            return self.run_date(tick)
        except UnknownDay:
            return None

    def shown_date(self, tick: int) -> date:
        """Return the date of a due time for display: its own day if the calendar ends before."""
        return self.known_date(tick) or _local_date(tick, self.timezone)

    def newest_date(self, now_ms: int) -> date:
        """Return the run date of a due time now, or the last one that the calendar knows."""
        *_, (rule, _, _) = self.rule.terms()
        return self.known_date(now_ms) or rule.last_known(_local_date(now_ms, self.timezone))

    def spans_of(self, first: date, last: date) -> list[Span]:
        """Return the spans whose due times have their run dates from `first` to `last`, in order.

        A new version of the calendar may give later due times an earlier date, so each has its own.
        """
        spans = []
        for rule, begin_ms, end_ms in self.rule.terms():
            days = rule.days_before(max(first, FIRST_DATE), last)
            if days is not None:
                begin, over = (first_moment(day, self.timezone) for day in days)
                spans.append(Span(max(begin, begin_ms) - 1, min(over, end_ms) - 1))
        return joined(span for span in spans if span.after_ms < span.until_ms)


class DueTimes:
    """The due times of a schedule in spans, in the order in which a backfill takes them."""

    def __init__(
        self, kept: KeptSchedule, spans: Iterable[Span], *, newest_first: bool = False
    ) -> None:
        self._schedule = kept.schedule
        self._anchor_ms = kept.anchor_ms
        self._newest_first = newest_first
        self.spans = sorted(spans, reverse=newest_first)

    def count(self) -> int:
        """Return how many there are."""
        return sum(self._schedule.count(*span, self._anchor_ms) for span in self.spans)

    def after(self, cursor_ms: int | None, limit: int) -> list[int]:
        """Return the next ones after one of them, up to `limit`; None = from the first."""
        ticks: list[int] = []
        for span in self.spans:
            if (left := limit - len(ticks)) <= 0:
                break
            if self._newest_first:
                ticks += self._backwards(span, cursor_ms, left)
            else:
                after_ms = span.after_ms if cursor_ms is None else max(span.after_ms, cursor_ms)
                ticks += self._schedule.ticks(after_ms, span.until_ms, self._anchor_ms, left)
        return ticks

    def all(self) -> list[int]:
        """Return all of them, up to as many as a backfill may have."""
        return self.after(None, MAX_TICKS)

    def _backwards(self, span: Span, cursor_ms: int | None, limit: int) -> list[int]:
        until_ms = span.until_ms if cursor_ms is None else min(span.until_ms, cursor_ms - 1)
        ticks: list[int] = []
        while len(ticks) < limit:
            tick = self._schedule.last_until(span.after_ms, until_ms, self._anchor_ms)
            if tick is None:
                break
            ticks.append(tick)
            until_ms = tick - 1
        return ticks


def spans_to_json(spans: Iterable[Span]) -> str:
    """Return spans as text."""
    return json.dumps([list(span) for span in spans])


def spans_from_json(text: str) -> list[Span]:
    """Return the spans of `spans_to_json`."""
    return [Span(*pair) for pair in json.loads(text)]


def joined(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap; return them in order."""
    apart: list[Span] = []
    for span in sorted(spans):
        if apart and span.after_ms <= apart[-1].until_ms:
            apart[-1] = Span(apart[-1].after_ms, max(apart[-1].until_ms, span.until_ms))
        else:
            apart.append(span)
    return apart


def ranks_to_text(ranks: Sequence[int]) -> str:
    """Return ascending numbers as ranges, such as "0-2,7"."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(ranks)
    )


def ranks_from_text(text: str) -> list[int]:
    """Return the numbers of `ranks_to_text`."""
    ranks: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def _runs(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for rank in ranks:
        if last is not None and rank == last + 1:
            last = rank
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = rank
    if first is not None and last is not None:
        yield first, last


def first_moment(day: date, timezone: str) -> int:
    """Return when a day begins in a zone, in epoch milliseconds."""
    begin = datetime.combine(day, time(), zone_or_utc(timezone))
    return round((begin - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000


def _local_date(instant_ms: int, timezone: str) -> date:
    return datetime.fromtimestamp(instant_ms / 1_000, zone_or_utc(timezone)).date()


class DueTimeState(StrEnum):
    """What became of a due time."""

    #: Nothing ran for it: it has no run, or only cancelled ones.
    MISSING = "MISSING"
    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


#: The due times that each selection takes.
SELECTED: Mapping[Selection, Collection[DueTimeState]] = {
    Selection.MISSING: {DueTimeState.MISSING},
    Selection.FAILED: {DueTimeState.FAILED},
    Selection.ALL: set(DueTimeState) - {DueTimeState.OPEN},
}


def state_of(runs: Iterable[RunFacts]) -> DueTimeState:
    """Return the state of a due time with these runs, each shard's newest last."""
    shards: dict[int, DueTimeState] = {}
    for run in runs:
        if run.status != RunStatus.CANCELLED:
            shards[run.shard_index] = _state(run.status)
        else:
            shards.setdefault(run.shard_index, DueTimeState.MISSING)
    states = set(shards.values()) or {DueTimeState.MISSING}
    for state in (DueTimeState.OPEN, DueTimeState.FAILED):
        if state in states:
            return state
    if DueTimeState.MISSING in states:
        return DueTimeState.MISSING if len(states) == 1 else DueTimeState.FAILED
    return next(iter(states)) if len(states) == 1 else DueTimeState.SUCCEEDED


def _state(status: str) -> DueTimeState:
    if status in OPEN:
        return DueTimeState.OPEN
    if status not in FINE:
        return DueTimeState.FAILED
    return DueTimeState(status)


def states(
    session: Session, job_id: int, ticks: Sequence[int], *, backfill_id: int | None = None
) -> dict[int, DueTimeState]:
    """Return the states of a job's due times; with `backfill_id`, by that backfill's runs only."""
    runs = backfills.runs_at(session, job_id, ticks)
    return {
        tick: state_of(run for run in runs.get(tick, ()) if backfill_id in (None, run.backfill_id))
        for tick in ticks
    }


def states_kept(
    session: Session, job_id: int, kept: KeptSchedule, ticks: Sequence[int]
) -> dict[int, DueTimeState]:
    """Return the states of due times of a schedule; of dates, by all runs about them."""
    if not kept.is_of_dates:
        return states(session, job_id, ticks)
    days = {tick: kept.run_date(tick) for tick in ticks}
    runs = backfills.runs_about(session, job_id, list(days.values())) if days else {}
    return {tick: state_of(_last_by_start(runs.get(day, ()))) for tick, day in days.items()}


def _last_by_start(runs: Iterable[RunFacts]) -> list[RunFacts]:
    """Return the runs of the newest trigger of a date."""
    by_origin = sorted(runs, key=lambda run: (run.origin_id, run.shard_index, run.attempt))
    ran = [run for run in by_origin if run.status != RunStatus.CANCELLED]
    return [run for run in ran if run.origin_id == ran[-1].origin_id]


#: Who makes them.
MADE_BY = "scheduler"


def add_backfill(
    session: Session,
    backfill_id: int,
    job: FilledJob,
    spans: Iterable[Span],
    *,
    zone: str,
    anchor_ms: int,
    now_ms: int,
) -> None:
    """Make the backfill of a job for skipped due times, one at a time, the oldest first.

    Args:
        session: whose transaction skips them.
        backfill_id: of the sequence of run ids.
        job: the job, with its schedule.
        spans: the spans of the due times.
        zone: the zone of the job's schedule.
        anchor_ms: any due time of it.
        now_ms: the database's clock.

    """
    kept = KeptSchedule.of(session, job, zone, anchor_ms)
    apart = joined(spans)
    session.add(
        Backfill(
            id=backfill_id,
            job_id=job.id,
            schedule=kept.to_json(),
            spans=spans_to_json(apart),
            ticks=DueTimes(kept, apart).count(),
            made_at=now_ms,
            made_by=MADE_BY,
            moved_at=now_ms,
        )
    )


def newest(ticks: Sequence[int], *, now_ms: int, within_ms: int, most: int) -> set[int]:
    """Return the newest of these ascending due times, up to `most`, within the age limit."""
    return {tick for tick in ticks[-most:] if now_ms - tick <= within_ms}
